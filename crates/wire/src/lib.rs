//! AMQP 1.0 types, frames, performatives, message sections and the requests of transaction controllers (parts 1, 2.3, 2.7,
//! 3.2, 4.5, 5.3 of the specification).
//!
//! Decoding is lenient (any integer width, string for symbol) but bounded: sizes, counts and depth are checked before
//! anything is allocated. Encoding is complete: every list has its full length with explicit nulls, because Python
//! reads fields by index and JS reports a missing delivery-count as undefined.

mod budget;
mod check;
mod code;
mod decode;
mod encode;
#[doc(hidden)]
pub mod exercise;
pub mod frame;
mod keys;
pub mod message;
pub mod performative;
mod read;
#[cfg(test)]
mod tests;
mod text;
pub mod transaction;
mod value;
mod write;

pub use text::{PEER_TEXT_CHARACTERS_MAX, loggable, loggable_within};
pub use value::{DecodeError, Described, Fields, Str, Value};
