//! Rules of subscriptions: which messages of the topic they get, and as what (semantics §12).

use std::sync::Arc;

use peeklock_rules::{Filter, SqlAction};

use crate::Timestamp;

/// The name of the rule that a subscription has when nothing else is said.
pub const DEFAULT_RULE: &str = "$Default";

/// A rule. A subscription gets a message when any of its rules matches: once for all that have no action, and once more
/// for each that has one.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name; unique in its subscription without regard to case.
    pub name: Box<str>,
    /// Which messages match.
    pub filter: Filter,
    /// What is done to the copy of a message that matches.
    pub action: Option<SqlAction>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Rule {
    /// The rule of a subscription about which nothing else is said: every message.
    #[must_use]
    pub fn default_rule() -> Self {
        Self {
            name: DEFAULT_RULE.into(),
            filter: Filter::True,
            action: None,
            created_at: Timestamp::default(),
        }
    }
}

impl AsRef<Filter> for Rule {
    fn as_ref(&self) -> &Filter {
        &self.filter
    }
}

/// How many of the rules have a correlation filter.
pub(crate) fn correlation_filters(rules: &[Arc<Rule>]) -> usize {
    rules.iter().filter(|rule| matches!(rule.filter, Filter::Correlation(_))).count()
}
