//! What a rule tests.

use serde::{Deserialize, Serialize};

use crate::{CorrelationFilter, Failure, SqlFilter, Subject};

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
