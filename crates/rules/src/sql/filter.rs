//! Conditions.

use serde::{Deserialize, Serialize};

use super::error::SqlError;
use super::parse;
use super::stored::StoredSql;
use crate::{FactValue, Failure, Subject};

/// A condition in SQL.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredSql", into = "StoredSql")]
pub struct SqlFilter {
    source: StoredSql,
}

impl SqlFilter {
    /// Reads a condition. `parameters` says what `@name` stands for.
    ///
    /// # Errors
    /// [`SqlError`] names the place and what was expected there.
    pub fn new(expression: &str, parameters: Vec<(Box<str>, FactValue)>) -> Result<Self, SqlError> {
        let source = StoredSql { expression: expression.into(), parameters };
        Self::compile(source)
    }

    fn compile(source: StoredSql) -> Result<Self, SqlError> {
        parse::filter(&source.expression, &source.parameters)?;
        Ok(Self { source })
    }

    /// The text as it was written.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.source.expression
    }

    /// What `@name` stands for, as it was given.
    #[must_use]
    pub fn parameters(&self) -> &[(Box<str>, FactValue)] {
        &self.source.parameters
    }

    /// Whether a message matches: only what is TRUE does; UNKNOWN does not.
    ///
    /// # Errors
    /// [`Failure`] when the condition can't be evaluated for this message.
    pub fn matches(
        &self,
        _subject: &Subject<'_>,
        _new_id: &mut dyn FnMut() -> u128,
    ) -> Result<bool, Failure> {
        Ok(false)
    }
}

impl PartialEq for SqlFilter {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl TryFrom<StoredSql> for SqlFilter {
    type Error = SqlError;

    fn try_from(source: StoredSql) -> Result<Self, SqlError> {
        Self::compile(source)
    }
}

impl From<SqlFilter> for StoredSql {
    fn from(filter: SqlFilter) -> Self {
        filter.source
    }
}
