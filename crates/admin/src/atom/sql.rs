//! SQL in descriptions: the expression with its parameters, the same in filters and in actions.

use peeklock_engine::SqlError;

use super::key_values::{self, KeyValue};
use super::xml::{Document, Element};
use crate::error::Error;

/// The version of the language; the service has had only this one since 2012, and .NET writes it too.
const COMPATIBILITY_LEVEL: &str = "20";

/// Expression and parameters. Other elements have no effect: `CompatibilityLevel`, `RequiresPreprocessing`.
///
/// # Errors
/// Invalid parameters.
pub(super) fn read<'element>(
    element: &'element Element,
    owner: &str,
) -> Result<(&'element str, Vec<KeyValue>), Error> {
    let expression = element.text_of("SqlExpression").unwrap_or_default();
    Ok((expression, key_values::read(element, "Parameters", owner)?))
}

/// The error for invalid SQL; `error` contains the position.
pub(super) fn unreadable(owner: &str, error: &SqlError) -> Error {
    Error::bad_request(format!("The SQL of {owner} can't be read: {error}."))
}

/// Writes expression and parameters.
pub(super) fn write(document: &mut Document, expression: &str, parameters: &[KeyValue]) {
    document.text("SqlExpression", expression);
    document.text("CompatibilityLevel", COMPATIBILITY_LEVEL);
    key_values::write(document, "Parameters", parameters);
}
