//! Correlation filters: a conjunction of equalities.

use crate::{PropertyValue, RuleProperties};

/// Equalities, all of which must hold. Strings compare case-sensitively; numbers by value, regardless of their type.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CorrelationFilter {
    /// `correlation-id`.
    pub correlation_id: Option<Box<str>>,
    /// `message-id`.
    pub message_id: Option<Box<str>>,
    /// `to`.
    pub to: Option<Box<str>>,
    /// `reply-to`.
    pub reply_to: Option<Box<str>>,
    /// `subject`.
    pub label: Option<Box<str>>,
    /// `group-id`.
    pub session_id: Option<Box<str>>,
    /// `reply-to-group-id`.
    pub reply_to_session_id: Option<Box<str>>,
    /// `content-type`.
    pub content_type: Option<Box<str>>,
    /// Application properties, with distinct names; names match case-insensitively.
    pub user: Vec<(Box<str>, PropertyValue)>,
}

impl CorrelationFilter {
    /// Whether no field is set; such a filter is invalid.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether every field that is set equals the message's.
    #[must_use]
    pub fn matches(&self, rule_properties: &RuleProperties) -> bool {
        let system = [
            (&self.correlation_id, &rule_properties.correlation_id),
            (&self.message_id, &rule_properties.message_id),
            (&self.to, &rule_properties.to),
            (&self.reply_to, &rule_properties.reply_to),
            (&self.label, &rule_properties.label),
            (&self.session_id, &rule_properties.session_id),
            (&self.reply_to_session_id, &rule_properties.reply_to_session_id),
            (&self.content_type, &rule_properties.content_type),
        ];
        system.iter().all(|(wanted, has)| wanted.is_none() || wanted == has)
            && self.user.iter().all(|(name, wanted)| {
                rule_properties.user(name).is_some_and(|(_, value)| value.equals(wanted))
            })
    }
}
