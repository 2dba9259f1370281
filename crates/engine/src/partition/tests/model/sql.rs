//! The few conditions and actions used in histories, with their meaning written by hand.
//!
//! Messages have a label or none, a session or none, and a property "size" (in any case) of 0 or 1 or none.

use crate::{PropertyChanges, PropertyValue, RuleProperties, TextProperty};

/// The result of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
    Fails,
}

impl From<Option<bool>> for Truth {
    fn from(truth: Option<bool>) -> Self {
        match truth {
            Some(true) => Self::True,
            Some(false) => Self::False,
            None => Self::Unknown,
        }
    }
}

/// The meaning of a condition for a message with this number.
type Meaning = fn(&RuleProperties, u64) -> Truth;

pub(super) const CONDITIONS: [(&str, Meaning); 13] = [
    ("size = 1", |rule_properties, _| size(rule_properties).map(|size| size == 1).into()),
    ("size <> 1", |rule_properties, _| size(rule_properties).map(|size| size != 1).into()),
    ("NOT (Size = 0)", |rule_properties, _| size(rule_properties).map(|size| size != 0).into()),
    ("size IS NULL", |rule_properties, _| Some(size(rule_properties).is_none()).into()),
    ("sys.Label = 'red'", |rule_properties, _| is_red(rule_properties).into()),
    ("sys.Label LIKE '%e%'", |rule_properties, _| {
        rule_properties.label.as_ref().map(|label| label.contains('e')).into()
    }),
    ("sys.Label = 'red' OR size = 1", |rule_properties, _| {
        match (is_red(rule_properties), size(rule_properties).map(|size| size == 1)) {
            (Some(true), _) | (_, Some(true)) => Truth::True,
            (Some(false), Some(false)) => Truth::False,
            _ => Truth::Unknown,
        }
    }),
    ("sys.Label <> 'red' AND size IN (0, 2)", |rule_properties, _| {
        match (is_red(rule_properties).map(|red| !red), size(rule_properties).map(|size| size == 0)) {
            (Some(false), _) | (_, Some(false)) => Truth::False,
            (Some(true), Some(true)) => Truth::True,
            _ => Truth::Unknown,
        }
    }),
    ("1 / size = 1", |rule_properties, _| match size(rule_properties) {
        Some(0) => Truth::Fails,
        Some(_) => Truth::True,
        None => Truth::Unknown,
    }),
    (
        "size / 0 = 1",
        |rule_properties, _| if size(rule_properties).is_some() { Truth::Fails } else { Truth::Unknown },
    ),
    ("sys.SessionId = 'a'", |properties, _| properties.session_id.as_ref().map(|id| &**id == "a").into()),
    // The partition affects the remainder: 2^48 mod 3 is 1.
    ("sys.SequenceNumber % 3 = 0", |_, number| Some(number.is_multiple_of(3)).into()),
    ("1 = 0", |_, _| Truth::False),
];

/// An action's changes; `None` if it fails.
type Effect = fn(&RuleProperties) -> Option<PropertyChanges>;

pub(super) const ACTIONS: [(&str, Effect); 10] = [
    ("SET size = 7", |rule_properties| {
        Some(user(&[(size_name(rule_properties), Some(PropertyValue::Integer(7)))]))
    }),
    ("SET size = size + 1", |rule_properties| {
        let value =
            size(rule_properties).map_or(PropertyValue::Null, |size| PropertyValue::Integer(size + 1));
        Some(user(&[(size_name(rule_properties), Some(value))]))
    }),
    ("REMOVE SIZE", |rule_properties| match size(rule_properties) {
        Some(_) => Some(user(&[(size_name(rule_properties), None)])),
        None => Some(PropertyChanges::default()),
    }),
    ("SET sys.SessionId = 'a'", |_| Some(text(TextProperty::SessionId, Some("a")))),
    ("REMOVE sys.SessionId", |_| Some(text(TextProperty::SessionId, None))),
    ("SET sys.TimeToLive = '00:00:00.012'", |_| Some(life(Some(12)))),
    ("REMOVE sys.TimeToLive", |_| Some(life(None))),
    ("SET sys.Label = 'blue'; SET was = size", |rule_properties| {
        let was = size(rule_properties).map_or(PropertyValue::Null, PropertyValue::Integer);
        Some(PropertyChanges {
            user: user(&[("was", Some(was))]).user,
            ..text(TextProperty::Label, Some("blue"))
        })
    }),
    ("SET other = TRUE; SET size = 8 / size", |rule_properties| {
        let eighth = match size(rule_properties) {
            Some(0) => return None,
            Some(size) => PropertyValue::Integer(8 / size),
            None => PropertyValue::Null,
        };
        let other = ("other", Some(PropertyValue::Boolean(true)));
        Some(user(&[other, (size_name(rule_properties), Some(eighth))]))
    }),
    ("SET rulename = 'mine'", |_| Some(user(&[("rulename", Some(PropertyValue::Text("mine".into())))]))),
];

/// The result of a condition of the list.
pub(super) fn ask(condition: &str, rule_properties: &RuleProperties, number: u64) -> Truth {
    let known = CONDITIONS.iter().find(|(text, _)| *text == condition);
    known.unwrap_or_else(|| panic!("{condition} is not in the list")).1(rule_properties, number)
}

/// The changes of an action of the list; `None` if it fails.
pub(super) fn act(action: &str, rule_properties: &RuleProperties) -> Option<PropertyChanges> {
    let known = ACTIONS.iter().find(|(text, _)| *text == action);
    known.unwrap_or_else(|| panic!("{action} is not in the list")).1(rule_properties)
}

/// Sets the name of the rule, in the spelling that the action used for the property, if it did.
pub(super) fn name(changes: &mut PropertyChanges, rule: &str) {
    let named = Some(PropertyValue::Text(rule.into()));
    match changes.user.iter_mut().find(|(name, _)| name.to_lowercase() == "rulename") {
        Some((_, value)) => *value = named,
        None => changes.user.push(("RuleName".into(), named)),
    }
}

/// Size of changes in a header.
pub(super) fn bytes(changes: &PropertyChanges) -> usize {
    let value = |value: &PropertyValue| match value {
        PropertyValue::Integer(_) => 9,
        PropertyValue::Text(text) => 5 + text.len(),
        _ => 1,
    };
    let texts = changes.texts.iter().map(|(_, text)| 5 + text.as_ref().map_or(0, |text| text.len()));
    let users = changes.user.iter().map(|(name, set)| 5 + name.len() + set.as_ref().map_or(1, value));
    texts.sum::<usize>() + users.sum::<usize>() + if changes.time_to_live_ms.is_some() { 9 } else { 0 }
}

fn size(rule_properties: &RuleProperties) -> Option<i64> {
    match rule_properties.user.first() {
        Some((_, PropertyValue::Integer(size))) => Some(*size),
        _ => None,
    }
}

fn size_name(rule_properties: &RuleProperties) -> &str {
    rule_properties.user.first().map_or("size", |(name, _)| name)
}

fn is_red(rule_properties: &RuleProperties) -> Option<bool> {
    rule_properties.label.as_ref().map(|label| &**label == "red")
}

fn user(set: &[(&str, Option<PropertyValue>)]) -> PropertyChanges {
    let user = set.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    PropertyChanges { user, ..PropertyChanges::default() }
}

fn text(property: TextProperty, value: Option<&str>) -> PropertyChanges {
    PropertyChanges { texts: vec![(property, value.map(Into::into))], ..PropertyChanges::default() }
}

fn life(ms: Option<u64>) -> PropertyChanges {
    PropertyChanges { time_to_live_ms: Some(ms), ..PropertyChanges::default() }
}
