//! Applies an action's changes to the optional fields of a copy.

use std::sync::Arc;

use super::super::record::Extra;
use crate::{
    DeadLetter, Properties, PropertyChanges, PropertyValue, RuleProperties, SessionId, TextProperty,
};

/// The application property that names the rule whose action made a copy (semantics §12.2).
const RULE_NAME: &str = "RuleName";

/// Adds the name of the rule to the changes of its action, overriding what the action sets for that property (inferred).
/// Property names are case-insensitive, so an existing one keeps its spelling.
pub(super) fn named(
    mut changes: PropertyChanges,
    rule: &str,
    rule_properties: &RuleProperties,
) -> PropertyChanges {
    let set = changes.user.iter().find(|(name, _)| name.eq_ignore_ascii_case(RULE_NAME));
    let known = set.map(|(name, _)| name.clone());
    let name = known.or_else(|| rule_properties.user(RULE_NAME).map(|(name, _)| name.into()));
    changes.set_user(name.as_deref().unwrap_or(RULE_NAME), Some(PropertyValue::Text(rule.into())));
    changes
}

/// The optional fields of a copy after an action's changes. These are applied on top of changes by earlier actions, and
/// override properties changed by receivers and dead-letter reasons of a forwarded message.
pub(super) fn changed(plain: &Extra, changes: PropertyChanges) -> Extra {
    let mut extra = plain.clone();
    if let Some(session_id) = changes.text(TextProperty::SessionId) {
        extra.session_id = session_id.map(SessionId::from);
    }
    let names = |name: &str| changes.user.iter().any(|(changed, _)| changed.eq_ignore_ascii_case(name));
    extra.modified = extra.modified.and_then(|modified| left_of(modified, names));
    extra.dead_letter = extra.dead_letter.and_then(|why| less(why, names));
    extra.changes = Some(Arc::new(match extra.changes {
        Some(earlier) => PropertyChanges::clone(&earlier).followed_by(changes),
        None => changes,
    }));
    extra
}

/// Properties without those with certain names.
fn left_of(modified: Arc<Properties>, names: impl Fn(&str) -> bool) -> Option<Arc<Properties>> {
    if !modified.iter().any(|property| names(&property.name)) {
        return Some(modified);
    }
    let left: Properties = modified.iter().filter(|property| !names(&property.name)).cloned().collect();
    (!left.is_empty()).then(|| Arc::new(left))
}

/// A dead-letter reason without the parts whose property names match.
fn less(why: Arc<DeadLetter>, names: impl Fn(&str) -> bool) -> Option<Arc<DeadLetter>> {
    let (reason, description) = (names(DeadLetter::REASON), names(DeadLetter::DESCRIPTION));
    if !reason && !description {
        return Some(why);
    }
    let DeadLetter { reason: why, description: text } = DeadLetter::clone(&why);
    let left = DeadLetter { reason: why.filter(|_| !reason), description: text.filter(|_| !description) };
    (left != DeadLetter::default()).then(|| Arc::new(left))
}
