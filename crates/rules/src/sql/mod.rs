//! The language of filters and actions (semantics §13): text → tree → program.
//!
//! - `tree` is what a text means, `parse` reads it and `print` writes it; every error names its place.
//! - `evaluate` asks a filter about a message, `act` lets an action change one.
//! - [`SqlFilter`] and [`SqlAction`] keep the text as it was written, for whoever lists rules, and its program.

mod action;
mod error;
mod filter;
mod stored;
pub mod tree;

pub use self::action::SqlAction;
pub use self::error::SqlError;
pub use self::filter::SqlFilter;
