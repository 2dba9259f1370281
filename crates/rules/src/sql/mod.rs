//! The language of filters and actions (semantics §13): text → tree → program.
//!
//! - [`tree`] is the meaning of a text, [`parse`] reads it and its `Display` writes it; every error has a position.
//! - `grammar.lalrpop` defines the syntax, `builder` makes checks beyond the grammar.
//! - `compile` makes a `program` of a tree, `evaluate` runs it on a message; `compare`, `arithmetic`, `time_arithmetic`
//!   and `like` are its operators, `message` is its input.
//! - `equality` finds the equalities in a program that the index of rules uses.
//! - `act` executes the statements of an action; `convert` and `set_system` determine the new values.
//! - [`Selector`] is a condition in the language of JMS, with a grammar of its own and the same programs.
//! - [`SqlFilter`] and [`SqlAction`] keep the original text, which is returned when rules are listed, and its program.

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
