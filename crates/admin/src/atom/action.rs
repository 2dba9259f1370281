//! The actions of rules, in both directions.

use peeklock_engine::SqlAction;

use super::sql;
use super::xml::{Document, Element};
use crate::error::Error;

const OWNER: &str = "the rule's action";

/// Reads the action of a rule; an empty one counts as none.
///
/// # Errors
/// An invalid action, with the position in its SQL.
pub(super) fn read(rule: &Element) -> Result<Option<SqlAction>, Error> {
    let Some(action) = rule.child("Action").filter(|action| !action.nil) else { return Ok(None) };
    match action.kind.as_deref() {
        None | Some("EmptyRuleAction") => Ok(None),
        Some("SqlRuleAction") => {
            let (expression, parameters) = sql::read(action, OWNER)?;
            if expression.trim().is_empty() {
                return Ok(None);
            }
            let action = SqlAction::new(expression, parameters);
            action.map(Some).map_err(|error| sql::unreadable(OWNER, &error))
        }
        Some(_) => Err(Error::bad_request(
            "The 'Action' of a rule must be of the xsi:type EmptyRuleAction or SqlRuleAction.",
        )),
    }
}

/// Writes the action. There is always an element: JS and Python fail without one.
pub(super) fn write(document: &mut Document, action: Option<&SqlAction>) {
    match action {
        None => document.element("Action", &[("i:type", "EmptyRuleAction")], |_| {}),
        Some(action) => document.element("Action", &[("i:type", "SqlRuleAction")], |document| {
            sql::write(document, action.expression(), action.parameters());
        }),
    }
}
