//! The language of filters and actions (semantics §13): text → tree → program.
//!
//! - [`tree`] is what a text means, [`parse`] reads it and its `Display` writes it; every error names its place.
//! - `grammar.lalrpop` says which texts there are, `builder` what the grammar can't see.
//! - `compile` makes a `program` of a tree, `evaluate` runs it on a message; `compare`, `arithmetic`, `time_arithmetic` and
//!   `like` are its operators, `message` is what it sees.
//! - `equality` finds in a program what the index of rules goes by.
//! - `act` lets the statements of an action change a message; `convert` and `set_system` say into what.
//! - [`Selector`] is a condition in the language of JMS, with a grammar of its own and the same programs.
//! - [`SqlFilter`] and [`SqlAction`] keep the text as it was written, for whoever lists rules, and its program.

mod act;
mod action;
mod arithmetic;
mod builder;
mod compare;
mod compile;
mod convert;
mod equality;
mod error;
mod evaluate;
mod expected;
mod filter;
mod gaps;
mod instant;
mod like;
mod message;
mod parameters;
pub mod parse;
mod print;
mod program;
mod scan;
mod selector;
mod set_system;
mod source;
mod system;
#[cfg(test)]
mod tests;
mod text;
mod time_arithmetic;
mod time_span;
mod token;
pub mod tree;
mod value;

pub use self::action::SqlAction;
pub use self::builder::DEPTH_MAX;
pub(crate) use self::equality::Equality;
pub use self::error::SqlError;
pub use self::filter::SqlFilter;
pub(crate) use self::like::STEPS_MAX as LIKE_STEPS_MAX;
pub(crate) use self::message::Message;
pub(crate) use self::program::Named;
pub use self::selector::{SELECTOR_BYTES_MAX, Selector};
pub(crate) use self::value::Value;
