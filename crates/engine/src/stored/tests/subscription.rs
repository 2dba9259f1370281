use std::sync::Arc;

use proptest::prelude::*;

use super::message::properties;
use crate::stored::frame::testing::check_tolerance;
use crate::stored::{append_subscription, read_subscription};
use crate::{
    CorrelationFilter, EntityTimes, Filter, Given, PropertyValue, QueueId, Rule, SqlAction, SqlFilter,
    Subscription, SubscriptionOptions, Timestamp,
};

const QUEUE: QueueId = QueueId(9);

fn written(subscription: &Subscription) -> Vec<u8> {
    let mut stored = Vec::new();
    append_subscription(subscription, &mut stored);
    stored
}

fn read(stored: &[u8]) -> Result<Subscription, String> {
    read_subscription(QUEUE, stored)
}

fn subscription_with(rules: Vec<Rule>, options: SubscriptionOptions) -> Subscription {
    let times = EntityTimes { created_at: Timestamp(1), updated_at: Timestamp(2) };
    let rules = rules.into_iter().map(Arc::new).collect();
    Subscription { queue: QUEUE, name: "Eu".into(), times, options, rules }
}

fn rule(filter: Filter, action: Option<SqlAction>) -> Rule {
    Rule { name: "r".into(), filter, action, created_at: Timestamp(3) }
}

fn subscription() -> Subscription {
    let filter = CorrelationFilter {
        label: Some("x".into()),
        user: vec![("a".into(), PropertyValue::Integer(-1))],
        ..CorrelationFilter::default()
    };
    let options = SubscriptionOptions {
        requires_session: true,
        default_message_time_to_live_ms: Some(5),
        auto_delete_on_idle_ms: Some(7),
        ..SubscriptionOptions::default()
    };
    let rule = rule(Filter::Correlation(Box::new(filter)), None);
    subscription_with(vec![Rule::default_rule(), rule], options)
}

fn sql(text: &str) -> Filter {
    let parameters = vec![("@p".into(), PropertyValue::Integer(1))];
    Filter::Sql(Box::new(SqlFilter::new(text, parameters).unwrap()))
}

fn action() -> Option<SqlAction> {
    Some(SqlAction::new("REMOVE a", Vec::new()).unwrap())
}

fn of_sql() -> Subscription {
    let rules = vec![rule(Filter::False, None), rule(sql("a = @p"), action())];
    subscription_with(rules, SubscriptionOptions::default())
}

fn of_given_values() -> Subscription {
    let text = "2026-11-23T00:00:00.1234567";
    let given = |given| PropertyValue::Given(Box::new(given));
    let filter = CorrelationFilter {
        user: vec![
            ("i".into(), given(Given::Int(-1))),
            ("t".into(), given(Given::DateTime { at_ms: 1, text: text.into() })),
        ],
        ..CorrelationFilter::default()
    };
    let rule = rule(Filter::Correlation(Box::new(filter)), None);
    subscription_with(vec![rule], SubscriptionOptions::default())
}

/// The stored form must not change by accident.
#[test]
fn records_are_pinned() {
    let expected: [(Subscription, &[u8]); 3] = [
        (
            subscription(),
            b"\x10M\n\x02Eu\x10\x01\x18\x02\" \x08\xe0\xd4\x03\x10\n\x18\x05 \x00(\x01\
            0\x018\x07@\x00`\x01h\x00p\x00x\x01\x80\x01\x00\x88\x01\x00*\x0c\n\x08$Default\x18\x01*\
            \x13\n\x01r\x10\x03*\x0c*\x01xJ\x07\n\x01a\x12\x02\x18\x01",
        ),
        (
            of_sql(),
            b"\x10V\n\x02Eu\
            \x10\x01\x18\x02\"\x1c\x08\xe0\xd4\x03\x10\n \x00(\x010\x00@\x00`\x01h\x00p\x00x\x01\x80\
            \x01\x00\x88\x01\x00*\x07\n\x01r\x10\x03 \x01*%\n\x01r\x10\x032\x12\n\x06a = @p\x12\x08\
            \n\x02@p\x12\x02\x18\x02:\n\n\x08REMOVE a",
        ),
        (
            of_given_values(),
            b"\x10d\n\x02Eu\x10\x01\
            \x18\x02\"\x1c\x08\xe0\xd4\x03\x10\n \x00(\x010\x00@\x00`\x01h\x00p\x00x\x01\x80\x01\x00\
            \x88\x01\x00*<\n\x01r\x10\x03*5J\t\n\x01i\x12\x04j\x02\x18\x01J(\n\x01t\x12#j!j\x1f\x08\
            \x02\x12\x1b2026-11-23T00:00:00.1234567",
        ),
    ];
    for (subscription, expected) in expected {
        let stored = written(&subscription);
        assert_eq!(stored.escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(read(&stored), Ok(subscription));
        check_tolerance(&stored, read);
    }
}

#[test]
fn records_by_position_stay_readable() {
    let options = b"\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\0\0\0\0\x01\0\0\x01\0\0";
    let plain = b"\x02\x08$Default\x00\x00\x00\x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x00\x03";
    let version_3 = [b"\x03\x02Eu\x01\x02", &options[..], plain].concat();
    assert_eq!(read(&version_3), Ok(subscription()));
    let defaults = b"\x03\x02Eu\x01\x02\xe0\xd4\x03\x0a\x00\x00\x01\x00\x00\0\0\0\0\x01\0\0\x01\0\0";
    let rules = b"\x02\x01r\x01\x00\x03\x01r\x03\x06a = @p\x01\x02@p\x02\x02\x01\x08REMOVE a\x00\x03";
    let sql = [&defaults[..], rules].concat();
    assert_eq!(read(&sql), Ok(of_sql()));
    let rules = b"\x01\x01r\x02\0\0\0\0\0\0\0\0\x02\x01i\x0c\x02\x01\x01t\x0c\x0c\x02\x1b2026-11-23T\
        00:00:00.1234567\0\x03";
    let given = [&defaults[..], rules].concat();
    assert_eq!(read(&given), Ok(of_given_values()));
    for stored in [version_3, sql, given] {
        for end in 0..stored.len() {
            assert!(read(&stored[..end]).is_err(), "cut at {end}: {stored:?}");
        }
        assert!(read(&[&stored[..], &[0]].concat()).unwrap_err().contains("1 bytes too many"));
    }
}

#[test]
fn subscriptions_stored_before_rules_had_actions_stay_readable() {
    let stored = b"\x02\x02Eu\x01\x02\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\
        \0\0\0\0\x01\0\0\x01\0\0\x02\x08$Default\x00\x00\
        \x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x03";
    assert_eq!(read(stored), Ok(subscription()));
}

#[test]
fn subscriptions_stored_before_there_was_administration_stay_readable() {
    let stored = b"\x01\x02Eu\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\x02\x08$Default\x00\x00\
        \x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x03";
    assert_eq!(read(stored), Ok(Subscription { times: EntityTimes::default(), ..subscription() }));
}

/// SQL that only an earlier version of the language accepted, or that was damaged on disk.
#[test]
fn sql_that_can_not_be_read_is_refused_with_rule_and_place() {
    let stored = written(&subscription_with(
        vec![Rule { name: "s".into(), ..rule(sql("a = 5"), action()) }],
        SubscriptionOptions::default(),
    ));
    for (good, bad, what) in [
        ("a = 5", "a = =", "the filter of the rule 's'"),
        ("REMOVE a", "REMOVE 7", "the action of the rule 's'"),
    ] {
        let at = stored.windows(good.len()).position(|window| window == good.as_bytes()).unwrap();
        let mut damaged = stored.clone();
        damaged[at..at + bad.len()].copy_from_slice(bad.as_bytes());
        let error = read(&damaged).unwrap_err();
        assert!(error.contains("subscription 'Eu'") && error.contains(what), "{error}");
        assert!(error.contains("at character") && error.contains(bad), "{error}");
    }
}

#[test]
fn a_record_that_this_version_does_not_understand_is_refused_with_the_reason() {
    // A subscription 'E' without options, with a rule 'r' of an unknown kind, with a property 'p' of an unknown kind.
    for (stored, reason) in [
        (&b"\x10\x02\x22\x00"[..], "it has no name"),
        (b"\x10\x03\x0a\x01E", "subscription 'E': it has no options"),
        (
            b"\x10\x0a\x0a\x01E\x22\x00\x2a\x03\x0a\x01r",
            "subscription 'E': the rule 'r': it has no filter of a kind",
        ),
        (
            b"\x10\x13\x0a\x01E\x22\x00\x2a\x0c\x0a\x01r\x2a\x07\x4a\x05\x0a\x01p\x12\x00",
            "the rule 'r': property 'p': it has no value of a kind",
        ),
    ] {
        let error = read(stored).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

proptest! {
    #[test]
    fn filters_with_values_of_all_kinds_are_read_back(
        texts in prop::collection::vec(prop::option::of("\\PC{0,5}"), 8),
        user in properties(),
        name in "\\PC{0,5}",
    ) {
        let text = |number: usize| texts[number].as_deref().map(Into::into);
        let filter = CorrelationFilter {
            correlation_id: text(0),
            message_id: text(1),
            to: text(2),
            reply_to: text(3),
            label: text(4),
            session_id: text(5),
            reply_to_session_id: text(6),
            content_type: text(7),
            user,
        };
        let rule = Rule { name: name.into(), ..rule(Filter::Correlation(Box::new(filter)), None) };
        let subscription = subscription_with(vec![rule], SubscriptionOptions::default());
        prop_assert_eq!(read(&written(&subscription)), Ok(subscription));
    }

    #[test]
    fn arbitrary_bytes_never_panic(fields in prop::collection::vec(any::<u8>(), 0..60), first in 0..=0x10_u8) {
        let _ = read(&[&[first], &fields[..]].concat());
        let framed = [&[0x10, fields.len() as u8], &fields[..]].concat();
        let _ = read(&framed);
    }
}
