//! Rules: filters, actions, and the SQL in which both can be written (semantics §12, §13).
//!
//! Everything here is a function of its arguments: a filter and a message yield a match, no match or an error; an
//! action and a message yield [`PropertyChanges`]. The assignment of rules to subscriptions and the handling of matches
//! are in the engine.
//!
//! - [`RuleProperties`] and [`Arrival`] are the data of a message that rules can access, together a [`Subject`].
//! - [`Filter`] decides, [`SqlAction`] changes; [`PropertyChanges`] are an overlay over a message that stays unchanged.
//! - `sql` is the language: text → tree → program. [`Selector`] is a condition in the language of JMS.
//! - [`Index`] evaluates all rules of a topic at once.

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
