//! Matching of stored messages against JMS selectors.

use bytes::Bytes;
use peeklock_engine::{MessageView, Selector};

use crate::rule_properties::read_rule_properties;

/// The steps that reading the properties of a message counts as.
const READING_STEPS: usize = 64;

/// Whether a stored message matches a selector, with the changes of rule actions and receivers that its receiver would
/// see. An unreadable message does not match. Adds the steps that this took: the time depends on both texts.
#[must_use]
pub fn matches(selector: &Selector, content: &Bytes, view: &MessageView, steps: &mut usize) -> bool {
    *steps += READING_STEPS;
    let Some(rule_properties) = read_rule_properties(content, view) else { return false };
    selector.matches_message(&rule_properties, view.delivery_count, steps)
}
