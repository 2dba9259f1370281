//! Rules of subscriptions: which messages of the topic they get (semantics §12).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{FactValue, Facts, Timestamp};

/// The name of the rule that a subscription has when nothing else is said.
pub const DEFAULT_RULE: &str = "$Default";

/// A rule. A subscription gets a message when any of its rules matches, once for all that have no action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name; unique in its subscription without regard to case.
    pub name: Box<str>,
    /// Which messages match.
    pub filter: Filter,
    /// When it was created.
    pub created_at: Timestamp,
}

/// What a rule tests. New kinds go to the end: the position is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// Every message; `1=1` in SQL.
    True,
    /// No message; `1=0` in SQL.
    False,
    /// Equality of every field that is set.
    Correlation(Box<CorrelationFilter>),
}

/// Equalities, all of which must hold. Strings compare case-sensitively; numbers by value, whatever their type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    pub user: Vec<(Box<str>, FactValue)>,
}

impl Rule {
    /// The rule of a subscription about which nothing else is said: every message.
    #[must_use]
    pub fn default_rule() -> Self {
        Self { name: DEFAULT_RULE.into(), filter: Filter::True, created_at: Timestamp::default() }
    }
}

impl Filter {
    /// Whether a message matches. `facts` is `None` when its front end knows nothing about it.
    #[must_use]
    pub fn matches(&self, facts: Option<&Facts>) -> bool {
        match self {
            Self::True => true,
            Self::False => false,
            Self::Correlation(filter) => facts.is_some_and(|facts| filter.matches(facts)),
        }
    }
}

impl CorrelationFilter {
    /// Whether it sets nothing: such a filter is invalid.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether every field that is set equals the message's.
    #[must_use]
    pub fn matches(&self, facts: &Facts) -> bool {
        let system = [
            (&self.correlation_id, &facts.correlation_id),
            (&self.message_id, &facts.message_id),
            (&self.to, &facts.to),
            (&self.reply_to, &facts.reply_to),
            (&self.label, &facts.label),
            (&self.session_id, &facts.session_id),
            (&self.reply_to_session_id, &facts.reply_to_session_id),
            (&self.content_type, &facts.content_type),
        ];
        system.iter().all(|(wanted, has)| wanted.is_none() || wanted == has)
            && self.user.iter().all(|(name, wanted)| {
                let has = facts.user.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                has.is_some_and(|(_, value)| value.equals(wanted))
            })
    }
}

/// How many of the rules have a correlation filter.
pub(crate) fn correlation_filters(rules: &[Arc<Rule>]) -> usize {
    rules.iter().filter(|rule| matches!(rule.filter, Filter::Correlation(_))).count()
}
