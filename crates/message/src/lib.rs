//! A message between its bytes and what the engine knows of it, whichever protocol brings or takes it.
//!
//! [`submission`] reads what a sender sent into what the engine stores; [`delivery`] writes what is stored for a reader:
//! a fresh header and annotations, the rest as it was sent. [`rule_properties`] are what rules see, [`selection`] what selectors do,
//! [`trace_context`] is what a sender says of its trace.

pub mod annotation;
pub mod copy_blocks;
pub mod decimal;
pub mod delivery;
pub mod rule_properties;
pub mod selection;
pub mod submission;
pub mod trace_context;
mod unfit;

pub use unfit::Unfit;
