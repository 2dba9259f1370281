//! What an action's changes make of the rare facts of a copy.

use std::sync::Arc;

use super::super::record::Extra;
use crate::{
    DeadLetter, Properties, PropertyChanges, PropertyValue, RuleProperties, SessionId, TextProperty,
};

/// The application property that names the rule whose action made a copy (semantics §12.2).
const RULE_NAME: &str = "RuleName";

/// The changes of an action and the name of its rule, which wins over what the action says of that property (inferred).
/// Names of properties are told apart without regard to case, so one that is there keeps its spelling.
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

/// The rare facts of a copy after changes. They lie over those that actions elsewhere made, and win over what receivers
/// changed before and over why it was dead-lettered, if it came from there.
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

/// Properties without those of some names.
fn left_of(modified: Arc<Properties>, names: impl Fn(&str) -> bool) -> Option<Arc<Properties>> {
    if !modified.iter().any(|property| names(&property.name)) {
        return Some(modified);
    }
    let left: Properties = modified.iter().filter(|property| !names(&property.name)).cloned().collect();
    (!left.is_empty()).then(|| Arc::new(left))
}

/// Why a message was dead-lettered, without what is of these names as a property.
fn less(why: Arc<DeadLetter>, names: impl Fn(&str) -> bool) -> Option<Arc<DeadLetter>> {
    let (reason, description) = (names(DeadLetter::REASON), names(DeadLetter::DESCRIPTION));
    if !reason && !description {
        return Some(why);
    }
    let DeadLetter { reason: why, description: text } = DeadLetter::clone(&why);
    let left = DeadLetter { reason: why.filter(|_| !reason), description: text.filter(|_| !description) };
    (left != DeadLetter::default()).then(|| Arc::new(left))
}
