//! Rules of subscriptions: which messages of the topic they receive, and with which changes (semantics §12).

use std::sync::Arc;

use peeklock_rules::{Filter, SqlAction};

use crate::Timestamp;

/// The name of the rule that a subscription has by default.
pub const DEFAULT_RULE: &str = "$Default";

/// A rule. A subscription receives a message if any of its rules matches: one copy for all matching rules without action, and
/// one more for each matching rule with an action.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name; unique in its subscription case-insensitively.
    pub name: Box<str>,
    /// Selects the matching messages.
    pub filter: Filter,
    /// Changes the copy of a matching message.
    pub action: Option<SqlAction>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Rule {
    /// The default rule of a subscription: it matches every message.
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

/// Numbers of filters by kind, for the limits (semantics §12.9); see [`crate::RuleLimits`] for what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FilterCounts {
    /// SQL conditions that depend on the message.
    pub(crate) sql: usize,
    /// True and false filters, and SQL conditions that are constant; unlimited.
    pub(crate) constant: usize,
    /// Correlation filters.
    pub(crate) correlation: usize,
    /// Actions; they have no limit of their own.
    pub(crate) actions: usize,
}

impl FilterCounts {
    /// Counts the filters of rules.
    pub(crate) fn of<'a>(rules: impl IntoIterator<Item = &'a Arc<Rule>>) -> Self {
        rules.into_iter().fold(Self::default(), |mut counts, rule| {
            match &rule.filter {
                Filter::Correlation(_) => counts.correlation += 1,
                filter if filter.constant().is_some() => counts.constant += 1,
                _ => counts.sql += 1,
            }
            counts.actions += usize::from(rule.action.is_some());
            counts
        })
    }

    /// The sum of both.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            sql: self.sql + other.sql,
            constant: self.constant + other.constant,
            correlation: self.correlation + other.correlation,
            actions: self.actions + other.actions,
        }
    }

    /// The difference; `other` must be contained.
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            sql: self.sql - other.sql,
            constant: self.constant - other.constant,
            correlation: self.correlation - other.correlation,
            actions: self.actions - other.actions,
        }
    }
}
