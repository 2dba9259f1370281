//! Actions.

use std::sync::Arc;

use super::act::{self, Statement};
use super::error::SqlError;
use super::parse;
use super::source::SqlSource;
use crate::{Failure, PropertyChanges, PropertyValue, Subject};

/// Statements that change a copy of a message.
#[derive(Debug, Clone)]
pub struct SqlAction {
    source: SqlSource,
    statements: Arc<[Statement]>,
}

impl SqlAction {
    /// Parses one or more statements. `parameters` are the values of `@name`.
    ///
    /// # Errors
    /// [`SqlError`] with the position and what was expected there.
    pub fn new(expression: &str, parameters: Vec<(Box<str>, PropertyValue)>) -> Result<Self, SqlError> {
        let source = SqlSource { expression: expression.into(), parameters };
        Self::compile(source)
    }

    fn compile(source: SqlSource) -> Result<Self, SqlError> {
        let parameters = source.plain_parameters();
        let statements = parse::action(&source.expression, &parameters)?;
        let statements = act::prepared(&statements, &parameters).into();
        Ok(Self { source, statements })
    }

    /// The original text.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.source.expression
    }

    /// The values of `@name`, in their given form.
    #[must_use]
    pub fn parameters(&self) -> &[(Box<str>, PropertyValue)] {
        &self.source.parameters
    }

    /// Number of statements.
    #[must_use]
    pub fn statements(&self) -> usize {
        self.statements.len()
    }

    /// The changes made by the statements, executed in order. `new_id` generates the value of `newid()`.
    ///
    /// # Errors
    /// [`Failure`] when one of them fails; then none has an effect.
    pub fn changes(
        &self,
        subject: &Subject<'_>,
        new_id: &mut dyn FnMut() -> u128,
    ) -> Result<PropertyChanges, Failure> {
        let changes = act::act(&self.statements, subject, new_id);
        changes.map_err(|fault| Failure { kind: Failure::ACTION, text: fault.0 })
    }
}

impl PartialEq for SqlAction {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}
