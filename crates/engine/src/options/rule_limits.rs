//! Limits on the subscriptions and rules of topics.

use std::ops::RangeInclusive;

use crate::{Filter, Refusal, Rule};

/// Limits of subscriptions and rules (semantics §12.9). They are checked when something is declared, added or replaced, never
/// when it is restored: after a limit was lowered, existing excess stays and can only be reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleLimits {
    /// Subscriptions of a topic; default 2 000.
    pub subscriptions_per_topic: usize,
    /// SQL filters of all subscriptions of a topic; default 2 000. True and false filters, which Service Bus calls special SQL
    /// filters (semantics §12.4), and conditions such as `1=1` are not counted: they cost no evaluation, and if they counted,
    /// a topic with 2 000 subscriptions and their default rules would have no room for a single condition (inferred).
    pub sql_filters_per_topic: usize,
    /// Correlation filters of all subscriptions of a topic; default 100 000.
    pub correlation_filters_per_topic: usize,
    /// Characters in the text of a filter or an action; default 1 024.
    pub sql_expression_characters: usize,
    /// Statements of an action; default 32.
    pub action_statements: usize,
}

impl Default for RuleLimits {
    fn default() -> Self {
        Self {
            subscriptions_per_topic: 2_000,
            sql_filters_per_topic: 2_000,
            correlation_filters_per_topic: 100_000,
            sql_expression_characters: 1_024,
            action_statements: 32,
        }
    }
}

impl RuleLimits {
    /// Refuses a rule that no subscription can have.
    pub(crate) fn check(&self, rule: &Rule) -> Result<(), Refusal> {
        match &rule.filter {
            Filter::Correlation(filter) if filter.is_empty() => {
                return Err(Refusal::InvalidArgument(format!(
                    "The correlation filter of the rule '{}' is empty; it must name at least one property.",
                    rule.name
                )));
            }
            Filter::Sql(filter) => self.check_expression("filter", rule, filter.expression())?,
            // The length of a selector is limited where it is parsed.
            Filter::Correlation(_) | Filter::True | Filter::False | Filter::Selector(_) => {}
        }
        let Some(action) = &rule.action else { return Ok(()) };
        self.check_expression("action", rule, action.expression())?;
        let (statements, most) = (action.statements(), self.action_statements);
        if statements > most {
            return Err(Refusal::InvalidArgument(format!(
                "The action of the rule '{}' has {statements} statements; at most {most} are accepted.",
                rule.name
            )));
        }
        Ok(())
    }

    /// Refuses an expression that is too long.
    fn check_expression(&self, part: &str, rule: &Rule, expression: &str) -> Result<(), Refusal> {
        let (characters, most) = (expression.chars().count(), self.sql_expression_characters);
        if characters <= most {
            return Ok(());
        }
        Err(Refusal::InvalidArgument(format!(
            "The SQL expression of the {part} of the rule '{}' has {characters} characters; at most {most} are accepted.",
            rule.name
        )))
    }
}

/// A configurable limit.
#[derive(Debug)]
pub struct RuleLimit {
    /// Its name in TOML.
    pub name: &'static str,
    /// Its allowed values.
    pub range: RangeInclusive<u64>,
    /// Accesses its field.
    pub get_mut: fn(&mut RuleLimits) -> &mut usize,
}

/// 0 disallows all filters of the kind.
const FILTERS: RangeInclusive<u64> = 0..=10_000_000;

/// Every limit.
pub static RULE_LIMITS: &[RuleLimit] = &[
    RuleLimit {
        name: "subscriptions_per_topic",
        // Each subscription needs memory of its own.
        range: 1..=1_000_000,
        get_mut: |limits| &mut limits.subscriptions_per_topic,
    },
    RuleLimit {
        name: "sql_filters_per_topic",
        range: FILTERS,
        get_mut: |limits| &mut limits.sql_filters_per_topic,
    },
    RuleLimit {
        name: "correlation_filters_per_topic",
        range: FILTERS,
        get_mut: |limits| &mut limits.correlation_filters_per_topic,
    },
    RuleLimit {
        name: "sql_expression_characters",
        // Longer texts would not leave room for other rules in a subscription's record.
        range: 1..=65_536,
        get_mut: |limits| &mut limits.sql_expression_characters,
    },
    RuleLimit {
        name: "action_statements",
        range: 1..=4_096,
        get_mut: |limits| &mut limits.action_statements,
    },
];
