//! What a rule tests.

use serde::{Deserialize, Serialize};

use crate::{CorrelationFilter, FactValue, Failure, SqlError, SqlFilter, Subject};

/// What a rule tests. New kinds go to the end: the position is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// Every message; `1=1` in SQL.
    True,
    /// No message; `1=0` in SQL.
    False,
    /// Equality of every field that is set.
    Correlation(Box<CorrelationFilter>),
    /// A condition in SQL.
    Sql(Box<SqlFilter>),
}

impl Filter {
    /// Reads a condition in SQL, as every protocol and file brings it. `1=1` and `1=0` without parameters are how
    /// true and false filters travel (semantics §12.4).
    ///
    /// # Errors
    /// [`SqlError`] names the place and what was expected there.
    pub fn sql(expression: &str, parameters: Vec<(Box<str>, FactValue)>) -> Result<Self, SqlError> {
        let constant = || expression.split_whitespace().flat_map(str::chars);
        if parameters.is_empty() && constant().eq("1=1".chars()) {
            return Ok(Self::True);
        }
        if parameters.is_empty() && constant().eq("1=0".chars()) {
            return Ok(Self::False);
        }
        SqlFilter::new(expression, parameters).map(|filter| Self::Sql(Box::new(filter)))
    }

    /// Whether a message matches; `new_id` draws what `newid()` is.
    ///
    /// # Errors
    /// [`Failure`] when a condition in SQL can't be evaluated for this message.
    pub fn matches(&self, subject: &Subject<'_>, new_id: &mut dyn FnMut() -> u128) -> Result<bool, Failure> {
        match self {
            Self::True => Ok(true),
            Self::False => Ok(false),
            Self::Correlation(filter) => Ok(filter.matches(subject.facts)),
            Self::Sql(filter) => filter.matches(subject, new_id),
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
    fn true_and_false_travel_as_sql() {
        for expression in ["1=1", " 1 =\t1\n"] {
            assert_eq!(Filter::sql(expression, Vec::new()), Ok(Filter::True));
        }
        assert_eq!(Filter::sql("1 = 0", Vec::new()), Ok(Filter::False));
        let given = vec![("x".into(), FactValue::Integer(1))];
        for (expression, parameters) in [("1=2", vec![]), ("11=1", vec![]), ("1=1", given)] {
            assert!(matches!(Filter::sql(expression, parameters), Ok(Filter::Sql(_))), "{expression}");
        }
        assert!(Filter::sql("", Vec::new()).is_err());
    }
}
