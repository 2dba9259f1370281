//! The language of filters and actions (semantics §13): text → tree → program.
//!
//! - [`tree`] is what a text means, [`parse`] reads it and its `Display` writes it; every error names its place.
//! - `grammar.lalrpop` says which texts there are, `builder` what the grammar can't see.
//! - `evaluate` asks a filter about a message, `act` lets an action change one.
//! - [`SqlFilter`] and [`SqlAction`] keep the text as it was written, for whoever lists rules, and its program.

mod action;
mod builder;
mod error;
mod expected;
mod filter;
mod parameters;
pub mod parse;
mod print;
mod stored;
mod system;
#[cfg(test)]
mod tests;
mod token;
pub mod tree;

pub use self::action::SqlAction;
pub use self::builder::DEPTH_MAX;
pub use self::error::SqlError;
pub use self::filter::SqlFilter;
