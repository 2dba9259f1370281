//! SQL of rules, in a file of either kind.

use std::ops::Range;

use peeklock_engine::{Filter, PropertyValue, RuleLimits, SqlAction, SqlError};

use super::problem::Collector;

/// Values of the parameters `@name`.
pub(super) type Parameters = Vec<(Box<str>, PropertyValue)>;

/// Why an expression is invalid.
pub(super) enum Wrong {
    /// A syntax error, with its position.
    Syntax(SqlError),
    /// It exceeds a limit; the text ends a sentence about it.
    TooMuch(String),
}

/// Parses a condition.
///
/// # Errors
/// The error and its position.
pub(super) fn filter(text: &str, parameters: Parameters, limits: &RuleLimits) -> Result<Filter, Wrong> {
    check_length(text, limits)?;
    Filter::sql(text, parameters).map_err(Wrong::Syntax)
}

/// Parses the statements of an action.
///
/// # Errors
/// The error and its position.
pub(super) fn action(text: &str, parameters: Parameters, limits: &RuleLimits) -> Result<SqlAction, Wrong> {
    check_length(text, limits)?;
    let action = SqlAction::new(text, parameters).map_err(Wrong::Syntax)?;
    let (statements, most) = (action.statements(), limits.action_statements);
    if statements > most {
        return Err(Wrong::TooMuch(format!(
            "has {statements} statements, and action_statements in [limits] is {most}"
        )));
    }
    Ok(action)
}

fn check_length(text: &str, limits: &RuleLimits) -> Result<(), Wrong> {
    let (characters, most) = (text.chars().count(), limits.sql_expression_characters);
    if characters > most {
        return Err(Wrong::TooMuch(format!(
            "has {characters} characters, and sql_expression_characters in [limits] is {most}"
        )));
    }
    Ok(())
}

impl Wrong {
    /// Reports the error at its position in the expression, as far as the file's notation allows; `span` is the
    /// position of the whole expression, and `subject` begins the sentence.
    pub(super) fn report(&self, problems: &Collector<'_>, span: &Range<usize>, subject: &str) {
        match self {
            Self::Syntax(error) => match problems.within(span, error.position) {
                Some(place) => problems.report(&place, format!("{subject}: {}", error.message)),
                None => problems.report(span, format!("{subject}: {error}")),
            },
            Self::TooMuch(text) => problems.report(span, format!("{subject}: {text}")),
        }
    }
}
