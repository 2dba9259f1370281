//! SQL conditions.

use std::sync::Arc;

use super::compile;
use super::equality::{Equality, equalities};
use super::error::SqlError;
use super::evaluate::{condition, evaluate};
use super::like::STEPS_MAX;
use super::message::Message;
use super::parse;
use super::program::{Program, Step};
use super::source::SqlSource;
use crate::{Failure, PropertyValue, Subject};

/// A condition in SQL.
#[derive(Debug, Clone)]
pub struct SqlFilter {
    source: SqlSource,
    program: Arc<Program>,
}

impl SqlFilter {
    /// Parses a condition. `parameters` are the values of `@name`.
    ///
    /// # Errors
    /// [`SqlError`] with the position and what was expected there.
    pub fn new(expression: &str, parameters: Vec<(Box<str>, PropertyValue)>) -> Result<Self, SqlError> {
        let source = SqlSource { expression: expression.into(), parameters };
        Self::compile(source)
    }

    fn compile(source: SqlSource) -> Result<Self, SqlError> {
        let parameters = source.plain_parameters();
        let expression = parse::filter(&source.expression, &parameters)?;
        let program = Arc::new(compile::compile(&expression, &parameters));
        Ok(Self { source, program })
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

    /// Its result for all messages, if that does not depend on the message: `1=1`.
    #[must_use]
    pub fn constant(&self) -> Option<bool> {
        match &*self.program.steps {
            [Step::Constant(PropertyValue::Boolean(truth))] => Some(*truth),
            _ => None,
        }
    }

    /// Number of steps of its program.
    pub(crate) fn steps(&self) -> usize {
        self.program.steps.len()
    }

    /// Equalities, each of which must hold for the condition to be TRUE; empty if the condition may fail.
    pub(crate) fn equalities(&self) -> Vec<Equality> {
        equalities(&self.program)
    }

    /// The value of the condition for a message: `None` is UNKNOWN. `new_id` generates the value of `newid()`.
    /// Allocates only if texts are concatenated.
    ///
    /// # Errors
    /// [`Failure`] when the condition can't be evaluated for this message.
    pub fn truth(
        &self,
        subject: &Subject<'_>,
        new_id: &mut dyn FnMut() -> u128,
    ) -> Result<Option<bool>, Failure> {
        let mut like_steps_left = STEPS_MAX;
        self.truth_within(subject, new_id, &mut like_steps_left)
    }

    fn truth_within(
        &self,
        subject: &Subject<'_>,
        new_id: &mut dyn FnMut() -> u128,
        like_steps_left: &mut usize,
    ) -> Result<Option<bool>, Failure> {
        let message = Message::new(subject);
        let truth =
            evaluate(&self.program, &message, new_id, like_steps_left).and_then(|value| condition(&value));
        truth.map_err(|fault| Failure { kind: Failure::FILTER, text: fault.0 })
    }

    /// Like [`Self::matches`], with a limit for the steps of LIKE; deducts the steps used.
    pub(crate) fn matches_within(
        &self,
        subject: &Subject<'_>,
        new_id: &mut dyn FnMut() -> u128,
        like_steps_left: &mut usize,
    ) -> Result<bool, Failure> {
        self.truth_within(subject, new_id, like_steps_left).map(|truth| truth == Some(true))
    }

    /// Whether a message matches: only TRUE matches, UNKNOWN does not (semantics §13.3).
    ///
    /// # Errors
    /// [`Failure`] when the condition can't be evaluated for this message.
    pub fn matches(&self, subject: &Subject<'_>, new_id: &mut dyn FnMut() -> u128) -> Result<bool, Failure> {
        self.truth(subject, new_id).map(|truth| truth == Some(true))
    }
}

impl PartialEq for SqlFilter {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}
