//! Conversion between the bytes of a message and the attributes that the engine uses, independent of the protocol.
//!
//! [`submission`] reads a sent message into the engine's form; [`delivery`] encodes a stored message for a receiver: a
//! fresh header and annotations, the rest as it was sent. [`rule_properties`] are the properties that rules can access,
//! [`selection`] evaluates selectors, [`trace_context`] reads a sender's trace context.

pub mod annotation;
pub mod copy_blocks;
pub mod decimal;
pub mod delivery;
mod invalid_message;
pub mod rule_properties;
pub mod selection;
pub mod submission;
pub mod trace_context;

pub use invalid_message::InvalidMessage;
