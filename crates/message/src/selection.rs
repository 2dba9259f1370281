//! Which stored messages match a selector of JMS.

use bytes::Bytes;
use peeklock_engine::{MessageView, Selector};

use crate::rule_properties::read_rule_properties;

/// Whether a stored message matches a selector, as its receiver would see it: under what actions of rules and receivers
/// changed. What can't be read matches nothing.
#[must_use]
pub fn matches(selector: &Selector, content: &Bytes, view: &MessageView) -> bool {
    let Some(rule_properties) = read_rule_properties(content, view) else { return false };
    selector.matches_message(&rule_properties, view.delivery_count)
}
