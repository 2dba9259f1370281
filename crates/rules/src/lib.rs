//! What rules say: filters, actions, and the SQL both may be written in (semantics §12, §13).
//!
//! Everything here is a function of its arguments: a filter and a message come to match, no match or an error, an action
//! and a message to [`PropertyChanges`]. Who has which rules, and what becomes of a match, is the engine's.
//!
//! - [`RuleProperties`] and [`Arrival`] are what rules see of a message, together a [`Subject`].
//! - [`Filter`] decides, [`SqlAction`] changes; [`PropertyChanges`] lie over a message that stays as it was sent.
//! - `sql` is the language: text → tree → program. [`Selector`] is a condition in the language of JMS.
//! - [`Index`] asks all rules of a topic at once.

mod changes;
mod correlation;
pub mod decimal;
mod failure;
mod filter;
mod given;
mod index;
mod names;
mod rule_properties;
pub mod sql;
mod subject;

pub use changes::{PropertyChanges, TextProperty};
pub use correlation::CorrelationFilter;
pub use failure::Failure;
pub use filter::Filter;
pub use given::Given;
pub use index::{Index, RulePlace, Verdict};
pub use rule_properties::{PropertyValue, RuleProperties, SelectableFields};
pub use sql::{SELECTOR_BYTES_MAX, Selector, SqlAction, SqlError, SqlFilter};
pub use subject::{Arrival, Subject};
