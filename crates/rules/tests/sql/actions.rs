//! Changes made by actions. Each row contains the changes in the format of [`shown`]; "sql-rule-action" is the page
//! service-bus-messaging-sql-rule-action of the Azure documentation.

use peeklock_rules::{Failure, PropertyChanges, PropertyValue, SqlAction, TextProperty};

use super::message;

/// An action, its changes or a part of its failure's text, and the source.
pub(crate) type Row = (&'static str, Result<&'static str, &'static str>, &'static str);

fn changes(action: &str) -> Result<PropertyChanges, Failure> {
    let action =
        SqlAction::new(action, message::parameters()).unwrap_or_else(|error| panic!("{action}: {error}"));
    let rule_properties = message::rule_properties();
    let mut drawn = 0;
    action.changes(&message::subject(&rule_properties), &mut || {
        drawn += 1;
        drawn
    })
}

fn shown(changes: &PropertyChanges) -> String {
    let text = |(property, text): &(TextProperty, Option<Box<str>>)| match text {
        Some(text) => format!("sys.{property:?} = {text}"),
        None => format!("sys.{property:?} removed"),
    };
    let user = |(name, value): &(Box<str>, Option<PropertyValue>)| match value {
        Some(PropertyValue::Decimal(bits)) => format!("{name} = Decimal({bits:#x})"),
        Some(value) => format!("{name} = {value:?}"),
        None => format!("{name} removed"),
    };
    let scheduled = changes.scheduled_enqueue_time_ms.map(|at_ms| match at_ms {
        Some(at_ms) => format!("scheduled at {at_ms} ms"),
        None => "not scheduled".to_owned(),
    });
    let lives = changes.time_to_live_ms.map(|lives_ms| match lives_ms {
        Some(lives_ms) => format!("time to live {lives_ms} ms"),
        None => "time to live without limit".to_owned(),
    });
    let texts = changes.texts.iter().map(text);
    texts.chain(scheduled).chain(lives).chain(changes.user.iter().map(user)).collect::<Vec<_>>().join("; ")
}

fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (action, expected, source) in rows {
        let outcome = changes(action);
        let is_right = match (&outcome, expected) {
            (Ok(changes), Ok(expected)) => shown(changes) == *expected,
            (Err(failure), Err(part)) => {
                failure.kind == Failure::ACTION && failure.text.contains(part) && failure.text.ends_with('.')
            }
            _ => false,
        };
        if !is_right {
            let outcome = outcome.map(|changes| shown(&changes)).map_err(|failure| failure.text);
            wrong.push(format!("{action}: {outcome:?} instead of {expected:?} ({source})"));
        }
        let is_known =
            ["semantics §", "sql-rule-action", "(inferred)"].iter().any(|known| source.contains(known));
        assert!(is_known, "{action}: {source}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn application_properties_are_set_and_removed() {
    check(super::actions_user::ROWS);
}

#[test]
fn system_properties_are_set_and_removed() {
    check(super::actions_system::ROWS);
}

#[test]
fn assignments_to_read_only_properties_are_refused_at_creation() {
    for name in
        ["DeliveryCount", "SequenceNumber", "LockToken", "ExpiresAtUtc", "Size", "ViaPartitionKey", "Missing"]
    {
        assert!(SqlAction::new(&format!("SET sys.{name} = 1"), Vec::new()).is_err(), "{name}");
        assert!(SqlAction::new(&format!("REMOVE sys.{name}"), Vec::new()).is_err(), "{name}");
    }
}

/// Like the limit for incoming messages: an action can set every accepted id again.
#[test]
fn ids_have_so_many_characters_however_they_are_encoded() {
    let set = |characters: usize| changes(&format!("SET sys.MessageId = '{}'", "😀".repeat(characters)));
    assert!(set(128).is_ok());
    assert!(set(129).is_err_and(|failure| failure.text.contains("129 characters long; it may have 128")));
}

#[test]
fn names_that_differ_in_case_only_are_removed_together() {
    let user = ["Color", "color", "other"].map(|name| (name.into(), PropertyValue::Integer(1)));
    let rule_properties =
        peeklock_rules::RuleProperties { user: user.into(), ..peeklock_rules::RuleProperties::default() };
    let changes = |action: &str| {
        let action = SqlAction::new(action, Vec::new()).expect("an action");
        shown(&action.changes(&message::subject(&rule_properties), &mut || 0).expect("changes"))
    };
    assert_eq!(changes("REMOVE COLOR"), "Color removed; color removed");
    assert_eq!(changes("SET COLOR = 2"), "Color = Integer(2)");
}

#[test]
fn statements_are_counted() {
    let count = |action: &str| SqlAction::new(action, Vec::new()).expect("an action").statements();
    assert_eq!((count("SET a = 1"), count("SET a = 1; REMOVE b, SET c = 2")), (1, 3));
}
