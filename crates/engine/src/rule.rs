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

/// How many filters of the kinds that are limited there are (semantics §12.9); see [`crate::RuleLimits`] for what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FilterCounts {
    /// Conditions in SQL that depend on the message.
    pub(crate) sql: usize,
    /// True and false filters, and conditions in SQL that come to the same for every message, of which there is no limit.
    pub(crate) constant: usize,
    /// Correlation filters.
    pub(crate) correlation: usize,
    /// Actions, of which there is no limit of their own.
    pub(crate) actions: usize,
}

impl FilterCounts {
    /// Those of rules.
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

    /// These and others.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            sql: self.sql + other.sql,
            constant: self.constant + other.constant,
            correlation: self.correlation + other.correlation,
            actions: self.actions + other.actions,
        }
    }

    /// These without others, which are among them.
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            sql: self.sql - other.sql,
            constant: self.constant - other.constant,
            correlation: self.correlation - other.correlation,
            actions: self.actions - other.actions,
        }
    }
}
