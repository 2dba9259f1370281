//! The few conditions and actions that histories use, and what each means, written down by hand.
//!
//! Messages have a label or none, a session or none, and a property "size" (in any case) of 0 or 1 or none.

use crate::{Changes, FactValue, Facts, TextProperty};

/// What a condition comes to.
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

/// Asked about a message with this number.
type Meaning = fn(&Facts, u64) -> Truth;

pub(super) const CONDITIONS: [(&str, Meaning); 13] = [
    ("size = 1", |facts, _| size(facts).map(|size| size == 1).into()),
    ("size <> 1", |facts, _| size(facts).map(|size| size != 1).into()),
    ("NOT (Size = 0)", |facts, _| size(facts).map(|size| size != 0).into()),
    ("size IS NULL", |facts, _| Some(size(facts).is_none()).into()),
    ("sys.Label = 'red'", |facts, _| is_red(facts).into()),
    ("sys.Label LIKE '%e%'", |facts, _| facts.label.as_ref().map(|label| label.contains('e')).into()),
    ("sys.Label = 'red' OR size = 1", |facts, _| match (is_red(facts), size(facts).map(|size| size == 1)) {
        (Some(true), _) | (_, Some(true)) => Truth::True,
        (Some(false), Some(false)) => Truth::False,
        _ => Truth::Unknown,
    }),
    ("sys.Label <> 'red' AND size IN (0, 2)", |facts, _| {
        match (is_red(facts).map(|red| !red), size(facts).map(|size| size == 0)) {
            (Some(false), _) | (_, Some(false)) => Truth::False,
            (Some(true), Some(true)) => Truth::True,
            _ => Truth::Unknown,
        }
    }),
    ("1 / size = 1", |facts, _| match size(facts) {
        Some(0) => Truth::Fails,
        Some(_) => Truth::True,
        None => Truth::Unknown,
    }),
    ("size / 0 = 1", |facts, _| if size(facts).is_some() { Truth::Fails } else { Truth::Unknown }),
    ("sys.SessionId = 'a'", |facts, _| facts.session_id.as_ref().map(|id| &**id == "a").into()),
    ("sys.SequenceNumber % 2 = 0", |_, number| Some(number.is_multiple_of(2)).into()),
    ("1 = 0", |_, _| Truth::False),
];

/// What an action changes, unless it fails.
type Effect = fn(&Facts) -> Option<Changes>;

pub(super) const ACTIONS: [(&str, Effect); 10] = [
    ("SET size = 7", |facts| Some(user(&[(size_name(facts), Some(FactValue::Integer(7)))]))),
    ("SET size = size + 1", |facts| {
        let value = size(facts).map_or(FactValue::Null, |size| FactValue::Integer(size + 1));
        Some(user(&[(size_name(facts), Some(value))]))
    }),
    ("REMOVE SIZE", |facts| match size(facts) {
        Some(_) => Some(user(&[(size_name(facts), None)])),
        None => Some(Changes::default()),
    }),
    ("SET sys.SessionId = 'a'", |_| Some(text(TextProperty::SessionId, Some("a")))),
    ("REMOVE sys.SessionId", |_| Some(text(TextProperty::SessionId, None))),
    ("SET sys.TimeToLive = '00:00:00.012'", |_| Some(life(Some(12)))),
    ("REMOVE sys.TimeToLive", |_| Some(life(None))),
    ("SET sys.Label = 'blue'; SET was = size", |facts| {
        let was = size(facts).map_or(FactValue::Null, FactValue::Integer);
        Some(Changes { user: user(&[("was", Some(was))]).user, ..text(TextProperty::Label, Some("blue")) })
    }),
    ("SET other = TRUE; SET size = 8 / size", |facts| {
        let eighth = match size(facts) {
            Some(0) => return None,
            Some(size) => FactValue::Integer(8 / size),
            None => FactValue::Null,
        };
        let other = ("other", Some(FactValue::Boolean(true)));
        Some(user(&[other, (size_name(facts), Some(eighth))]))
    }),
    ("SET rulename = 'mine'", |_| Some(user(&[("rulename", Some(FactValue::Text("mine".into())))]))),
];

/// What a condition of the list comes to.
pub(super) fn ask(condition: &str, facts: &Facts, number: u64) -> Truth {
    let known = CONDITIONS.iter().find(|(text, _)| *text == condition);
    known.unwrap_or_else(|| panic!("{condition} is not in the list")).1(facts, number)
}

/// What an action of the list changes; `None` if it fails.
pub(super) fn act(action: &str, facts: &Facts) -> Option<Changes> {
    let known = ACTIONS.iter().find(|(text, _)| *text == action);
    known.unwrap_or_else(|| panic!("{action} is not in the list")).1(facts)
}

/// Notes which rule it was: under the name that the action used for it, if it did.
pub(super) fn name(changes: &mut Changes, rule: &str) {
    let named = Some(FactValue::Text(rule.into()));
    match changes.user.iter_mut().find(|(name, _)| name.to_lowercase() == "rulename") {
        Some((_, value)) => *value = named,
        None => changes.user.push(("RuleName".into(), named)),
    }
}

/// What changes take in a header.
pub(super) fn bytes(changes: &Changes) -> usize {
    let value = |value: &FactValue| match value {
        FactValue::Integer(_) => 9,
        FactValue::Text(text) => 5 + text.len(),
        _ => 1,
    };
    let texts = changes.texts.iter().map(|(_, text)| 5 + text.as_ref().map_or(0, |text| text.len()));
    let users = changes.user.iter().map(|(name, set)| 5 + name.len() + set.as_ref().map_or(1, value));
    texts.sum::<usize>() + users.sum::<usize>() + if changes.time_to_live_ms.is_some() { 9 } else { 0 }
}

fn size(facts: &Facts) -> Option<i64> {
    match facts.user.first() {
        Some((_, FactValue::Integer(size))) => Some(*size),
        _ => None,
    }
}

fn size_name(facts: &Facts) -> &str {
    facts.user.first().map_or("size", |(name, _)| name)
}

fn is_red(facts: &Facts) -> Option<bool> {
    facts.label.as_ref().map(|label| &**label == "red")
}

fn user(set: &[(&str, Option<FactValue>)]) -> Changes {
    let user = set.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    Changes { user, ..Changes::default() }
}

fn text(property: TextProperty, value: Option<&str>) -> Changes {
    Changes { texts: vec![(property, value.map(Into::into))], ..Changes::default() }
}

fn life(ms: Option<u64>) -> Changes {
    Changes { time_to_live_ms: Some(ms), ..Changes::default() }
}
