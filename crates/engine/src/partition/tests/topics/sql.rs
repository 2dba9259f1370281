//! Rules in SQL, and the copies that they changed as clients see them.

use std::sync::Arc;

use bytes::Bytes;

use super::rig::{Rig, rule};
use crate::{
    Filter, MessageView, NewMessage, PropertyValue, QueueId, Rule, RuleProperties, SqlAction, SqlFilter,
    SubQueue,
};

/// A condition.
pub(in crate::partition::tests) fn sql(condition: &str) -> Filter {
    Filter::Sql(Box::new(SqlFilter::new(condition, Vec::new()).unwrap()))
}

/// A rule with an action.
pub(in crate::partition::tests) fn acting(name: &str, filter: Filter, action: &str) -> Rule {
    Rule { action: Some(SqlAction::new(action, Vec::new()).unwrap()), ..rule(name, filter) }
}

pub(super) fn text(text: &str) -> PropertyValue {
    PropertyValue::Text(text.into())
}

/// A message with these application properties.
pub(super) fn with_user(user: &[(&str, PropertyValue)]) -> NewMessage {
    let user = user.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    with_rule_properties(RuleProperties { user, ..RuleProperties::default() })
}

pub(super) fn with_rule_properties(rule_properties: RuleProperties) -> NewMessage {
    let session_id = rule_properties.session_id.clone();
    NewMessage {
        content: Bytes::from_static(b"content"),
        session_id,
        rule_properties: Some(Arc::new(rule_properties)),
        ..NewMessage::default()
    }
}

/// The properties of a copy as clients see them.
pub(super) fn shown(sent: &NewMessage, view: &MessageView) -> RuleProperties {
    let mut rule_properties = sent.rule_properties.as_deref().cloned().unwrap_or_default();
    if let Some(changes) = &view.changes {
        changes.apply(&mut rule_properties);
    }
    rule_properties
}

/// A textual application property as clients see it.
pub(super) fn user_text(sent: &NewMessage, view: &MessageView, name: &str) -> Option<String> {
    match shown(sent, view).user(name)?.1 {
        PropertyValue::Text(text) => Some(text.to_string()),
        other => Some(format!("{other:?}")),
    }
}

impl Rig {
    /// The only message in the dead-letter queue of a subscription, with reason and description.
    pub(super) fn only_dead(&mut self, queue: QueueId) -> (MessageView, String, String) {
        let mut dead = self.peek(queue, SubQueue::DeadLetter);
        assert_eq!(dead.len(), 1, "{dead:?}");
        let view = dead.remove(0);
        let why = view.dead_letter.clone().unwrap();
        (view, why.reason.as_deref().unwrap().to_owned(), why.description.as_deref().unwrap().to_owned())
    }
}

/// A subscription with these rules.
pub(super) fn subscribe(rig: &mut Rig, name: &str, rules: Vec<Rule>) -> QueueId {
    rig.try_subscribe(name, super::rig::options(), rules).unwrap()
}
