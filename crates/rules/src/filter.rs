//! Filters of rules.

use crate::{CorrelationFilter, Failure, PropertyValue, Selector, SqlError, SqlFilter, Subject};

/// The condition of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Every message; `1=1` in SQL.
    True,
    /// No message; `1=0` in SQL.
    False,
    /// Equality of all fields that are set.
    Correlation(Box<CorrelationFilter>),
    /// A condition in SQL.
    Sql(Box<SqlFilter>),
    /// A JMS selector.
    Selector(Box<Selector>),
}

impl Filter {
    /// Parses an SQL condition. It keeps its type and text: `1=1` is a condition that matches every message, but not a
    /// true filter (azure-sdk-for-js 1727).
    ///
    /// # Errors
    /// [`SqlError`] with the position and what was expected there.
    pub fn sql(expression: &str, parameters: Vec<(Box<str>, PropertyValue)>) -> Result<Self, SqlError> {
        SqlFilter::new(expression, parameters).map(|filter| Self::Sql(Box::new(filter)))
    }

    /// Its result for all messages, if that does not depend on the message.
    #[must_use]
    pub fn constant(&self) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::Correlation(_) | Self::Selector(_) => None,
            Self::Sql(filter) => filter.constant(),
        }
    }

    /// Number of steps of its evaluation, at most; 0 if it needs no program.
    pub(crate) fn steps(&self) -> usize {
        match self {
            Self::True | Self::False | Self::Correlation(_) => 0,
            Self::Sql(filter) => filter.steps(),
            Self::Selector(selector) => selector.steps(),
        }
    }

    /// Whether a message matches; `new_id` generates the value of `newid()`.
    ///
    /// # Errors
    /// [`Failure`] when an SQL condition can't be evaluated for this message.
    pub fn matches(&self, subject: &Subject<'_>, new_id: &mut dyn FnMut() -> u128) -> Result<bool, Failure> {
        match self {
            Self::True => Ok(true),
            Self::False => Ok(false),
            Self::Correlation(filter) => Ok(filter.matches(subject.rule_properties)),
            Self::Sql(filter) => filter.matches(subject, new_id),
            // A copy of a message being published has not been delivered yet.
            Self::Selector(selector) => Ok(selector.matches_message(subject.rule_properties, 0, &mut 0)),
        }
    }
}

impl AsRef<Self> for Filter {
    fn as_ref(&self) -> &Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_that_is_true_or_false_stays_sql_with_its_text() {
        for (expression, truth) in
            [("1=1", true), (" 1 =\t1\n", true), ("1 = 0", false), ("TRUE OR a = 1", true)]
        {
            let filter = Filter::sql(expression, Vec::new()).unwrap();
            assert_eq!(filter.constant(), Some(truth), "{expression}");
            let Filter::Sql(filter) = filter else { panic!("{filter:?}") };
            assert_eq!(filter.expression(), expression);
        }
        for expression in ["a = 1", "1=1 AND a = 1", "NULL = 1"] {
            assert_eq!(Filter::sql(expression, Vec::new()).unwrap().constant(), None, "{expression}");
        }
        assert_eq!((Filter::True.constant(), Filter::False.constant()), (Some(true), Some(false)));
        assert!(Filter::sql("", Vec::new()).is_err());
    }
}
