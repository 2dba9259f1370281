//! Semantics §12.2, §12.3 and §12.6: actions, and the copies they change.

use std::sync::Arc;

use super::rig::{Rig, rule};
use super::sql::{acting, shown, sql, subscribe, text, user_text, with_rule_properties, with_user};
use crate::{
    Filter, NewMessage, PropertyChanges, PropertyValue, QueueId, RuleProperties, SequenceNumber, SubQueue,
    TextProperty, Timestamp, TopicOptions,
};

#[test]
fn s12_2_rules_without_action_make_one_copy_together_and_each_action_one_more() {
    let mut rig = Rig::plain();
    let rules = vec![
        rule("plain 1", Filter::True),
        acting("b acts", sql("a = 1"), "SET b = 'b'"),
        rule("plain 2", sql("a > 0")),
        acting("a acts", Filter::True, "SET b = 'a'"),
        rule("plain 3", sql("a < 9")),
        acting("does not match", sql("a = 2"), "SET b = 'c'"),
        rule("does not match either", Filter::False),
    ];
    let queue = subscribe(&mut rig, "s", rules);
    let sent = with_user(&[("a", PropertyValue::Integer(1))]);
    rig.send(sent.clone());
    let views = rig.peek(queue, SubQueue::Main);
    let read = |view| (user_text(&sent, view, "RuleName"), user_text(&sent, view, "b"));
    let names = |name: &str, b: &str| (Some(name.to_owned()), Some(b.to_owned()));
    let copies: Vec<_> = views.iter().map(read).collect();
    assert_eq!(
        copies,
        [(None, None), names("a acts", "a"), names("b acts", "b")],
        "in the order of the rules"
    );
    assert_eq!(views[0].changes, None);
    let numbers: Vec<_> = views.iter().map(|view| view.sequence_number.0).collect();
    assert_eq!(numbers, [1, 2, 3], "each has its own number");
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (1, 7), "and all one content");
    for left in [1, 1, 0] {
        rig.complete_one(queue);
        assert_eq!(rig.bodies(), left);
    }
}

#[test]
fn s12_2_an_action_alone_makes_one_changed_copy() {
    let mut rig = Rig::plain();
    let queue = subscribe(&mut rig, "s", vec![acting("r", Filter::True, "REMOVE a")]);
    let sent = with_user(&[("a", PropertyValue::Integer(1)), ("b", PropertyValue::Integer(2))]);
    rig.send(sent.clone());
    let view = rig.complete_one(queue);
    let left = shown(&sent, &view).user;
    assert_eq!(left, [("b".into(), PropertyValue::Integer(2)), ("RuleName".into(), text("r"))]);
}

/// Each action works on the sent message, independently of other actions.
#[test]
fn s12_3_changes_are_private_to_their_copy() {
    let mut rig = Rig::plain();
    let twice = |name: &str| acting(name, sql("n = 1"), "SET n = n + 1; SET m = n");
    let first = subscribe(&mut rig, "first", vec![twice("x"), twice("y"), rule("plain", sql("n = 1"))]);
    let second = subscribe(&mut rig, "second", vec![rule("plain", sql("n = 1 AND NOT EXISTS(m)"))]);
    let sent = with_user(&[("n", PropertyValue::Integer(1))]);
    rig.send(sent.clone());
    let numbers = |view: &crate::MessageView| {
        let rule_properties = shown(&sent, view);
        ["n", "m"].map(|name| rule_properties.user(name).map(|(_, value)| value.clone()))
    };
    let plain = [Some(PropertyValue::Integer(1)), None];
    let changed = [Some(PropertyValue::Integer(2)), Some(PropertyValue::Integer(2))];
    let of_first: Vec<_> = rig.peek(first, SubQueue::Main).iter().map(numbers).collect();
    assert_eq!(of_first, [plain.clone(), changed.clone(), changed]);
    let of_second: Vec<_> = rig.peek(second, SubQueue::Main).iter().map(numbers).collect();
    assert_eq!(of_second, [plain]);
}

#[test]
fn the_name_of_the_rule_wins_and_keeps_the_spelling_that_is_there() {
    let given = |name| with_user(&[(name, text("sent"))]);
    for (sent, action, name) in [
        (with_user(&[]), "SET x = 1", "RuleName"),
        (with_user(&[]), "SET RuleName = 'x'", "RuleName"),
        (with_user(&[]), "SET rulename = 'x'", "rulename"),
        (given("RULENAME"), "SET x = 1", "RULENAME"),
        (given("RULENAME"), "REMOVE ruleName", "RULENAME"),
    ] {
        let mut rig = Rig::plain();
        let queue = subscribe(&mut rig, "s", vec![acting("r", Filter::True, action)]);
        rig.send(sent.clone());
        let view = rig.complete_one(queue);
        let rule_properties = shown(&sent, &view);
        let found: Vec<_> =
            rule_properties.user.iter().filter(|(key, _)| key.eq_ignore_ascii_case("RuleName")).collect();
        assert_eq!(found, [&(name.into(), text("r"))], "{action}");
    }
}

const TEXTS: [(&str, TextProperty); 9] = [
    ("ContentType", TextProperty::ContentType),
    ("CorrelationId", TextProperty::CorrelationId),
    ("Label", TextProperty::Label),
    ("MessageId", TextProperty::MessageId),
    ("PartitionKey", TextProperty::PartitionKey),
    ("ReplyTo", TextProperty::ReplyTo),
    ("ReplyToSessionId", TextProperty::ReplyToSessionId),
    ("SessionId", TextProperty::SessionId),
    ("To", TextProperty::To),
];

#[test]
fn every_system_property_that_is_a_text_is_set_and_removed_in_the_copy_only() {
    for (name, property) in TEXTS {
        let mut rule_properties = RuleProperties::default();
        *rule_properties.text_mut(property) = Some("sent".into());
        let sent = with_rule_properties(rule_properties);
        let mut rig = Rig::plain();
        let set = acting("a", Filter::True, &format!("SET sys.{name} = 'new'"));
        let remove = acting("b", Filter::True, &format!("REMOVE sys.{name}"));
        let queue = subscribe(&mut rig, "s", vec![set, remove, rule("plain", Filter::True)]);
        rig.send(sent.clone());
        rig.restart();
        let views = rig.peek(queue, SubQueue::Main);
        let read = |view| shown(&sent, view).text(property).map(str::to_owned);
        let texts: Vec<_> = views.iter().map(read).collect();
        assert_eq!(texts, [Some("sent".to_owned()), Some("new".to_owned()), None], "{name}");
    }
}

#[test]
fn s12_7_without_a_match_nothing_is_kept() {
    let mut rig = Rig::plain();
    subscribe(&mut rig, "s", vec![acting("r", sql("a = 2"), "SET a = 1"), rule("u", sql("missing <> 1"))]);
    assert_eq!(rig.send(with_user(&[("a", PropertyValue::Integer(1))])), 1);
    assert_eq!(rig.bodies(), 0);
}

#[test]
fn changes_are_read_back_exactly() {
    let mut rig = Rig::plain();
    let action = "SET sys.Label = 'l'; REMOVE sys.To; SET sys.TimeToLive = '1.00:00:00'; REMOVE gone; \
        SET t = TRUE; SET d = 0.5; SET n = NULL; SET i = -7; SET s = 'ü'; SET u = newid(); SET w = when; \
        SET sys.ScheduledEnqueueTimeUtc = '2030-01-01T00:00:00Z'";
    let queue = subscribe(&mut rig, "s", vec![acting("r", Filter::True, action)]);
    rig.send(with_user(&[("gone", PropertyValue::Null), ("when", PropertyValue::Timestamp(5))]));
    let before = rig.peek(queue, SubQueue::Main);
    let changes = before[0].changes.as_deref().unwrap();
    assert_eq!((changes.texts.len(), changes.user.len()), (2, 9), "{changes:?}");
    rig.restart();
    assert_eq!(rig.peek(queue, SubQueue::Main), before);
}

/// `newid()` uses the port for randomness, so a history repeats with its seed.
#[test]
fn new_ids_are_drawn_and_repeat_with_the_seed() {
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let mut rig = Rig::plain();
        let rules = ["a", "b"].map(|name| acting(name, Filter::True, "SET id = newid()")).to_vec();
        let queue = subscribe(&mut rig, "s", rules);
        rig.send(with_user(&[]));
        let ids: Vec<_> =
            rig.peek(queue, SubQueue::Main).iter().map(|view| shown(&with_user(&[]), view).user).collect();
        assert_ne!(ids[0][0], ids[1][0]);
        drawn.push(ids);
    }
    assert_eq!(drawn[0], drawn[1]);
}

/// Rules also see the broker's properties of a message.
#[test]
fn rules_see_number_time_life_and_size() {
    let topic = TopicOptions { default_message_time_to_live_ms: Some(9_000), ..TopicOptions::default() };
    let mut rig = Rig::new(topic);
    rig.now = Timestamp(1_700_000_000_000);
    let matching = [
        "sys.SequenceNumber = 2",
        "sys.EnqueuedSequenceNumber = 2",
        "sys.TimeToLive = '00:00:09'",
        "sys.Size = 7",
        "sys.EnqueuedTimeUtc = '2023-11-14T22:13:20Z'",
        "sys.ScheduledEnqueueTimeUtc = '2023-11-14T22:13:19Z'",
        "sys.DeadLetterSource IS NULL",
    ];
    let queues = matching.map(|condition| (condition, rig.subscribe_to(condition, sql(condition))));
    let later = Some(Timestamp(1_699_999_999_000));
    rig.send(with_user(&[]));
    rig.send(NewMessage { scheduled_enqueue_time: later, ..with_user(&[]) });
    for (condition, queue) in queues {
        assert!(rig.waiting(queue).contains(&2), "{condition}");
    }
}

#[test]
fn scheduled_messages_meet_actions_when_they_are_published() {
    let mut rig = Rig::plain();
    let action = "SET sys.Label = sys.Label + '!'; SET sys.SessionId = 'new'";
    let queue =
        subscribe(&mut rig, "s", vec![acting("r", sql("sys.ScheduledEnqueueTimeUtc IS NOT NULL"), action)]);
    let rule_properties = RuleProperties { label: Some("l".into()), ..RuleProperties::default() };
    let later = Some(rig.now.plus_ms(1_000));
    let sent = NewMessage { scheduled_enqueue_time: later, ..with_rule_properties(rule_properties) };
    rig.send(sent.clone());
    rig.restart();
    rig.advance(1_000);
    let view = rig.peek(queue, SubQueue::Main).remove(0);
    assert_eq!(shown(&sent, &view).label.as_deref(), Some("l!"));
    let record = rig.partition.state.record(queue, SubQueue::Main, SequenceNumber(1)).unwrap();
    assert_eq!(record.session_id().map(|id| &**id), Some("new"));
    assert_eq!(record.extra().unwrap().rule_properties, None);
}

/// Unchanged copies share their optional fields, with or without changed ones beside them, also after a restart.
#[test]
fn copies_that_nothing_changed_share_their_rare_facts_among_changed_ones() {
    let mut rig = Rig::plain();
    let rules = || vec![acting("a", Filter::True, "SET x = newid()"), rule("plain", Filter::True)];
    let queues: Vec<_> = (0..5).map(|number| subscribe(&mut rig, &number.to_string(), rules())).collect();
    rig.send(with_user(&[]));
    for _ in 0..2 {
        let extra = |queue: &QueueId| {
            let record = rig.partition.state.record(*queue, SubQueue::Main, SequenceNumber(1)).unwrap();
            Arc::as_ptr(record.extra().unwrap())
        };
        let shared: std::collections::HashSet<_> = queues.iter().map(extra).collect();
        assert_eq!(shared.len(), 1);
        rig.restart();
    }
}

#[test]
fn a_changed_copy_costs_its_changes_and_no_content() {
    let mut rig = Rig::plain();
    let queue = subscribe(&mut rig, "s", vec![acting("r", Filter::True, "SET a = 'b'")]);
    rig.send(with_user(&[]));
    let changes: PropertyChanges = (*rig.peek(queue, SubQueue::Main)[0].changes.clone().unwrap()).clone();
    assert_eq!(changes.user, [("a".into(), Some(text("b"))), ("RuleName".into(), Some(text("r")))]);
    let records = rig.store.entries(queue, peeklock_storage::Space::Head);
    assert!(matches!(&*records, [record] if record.value.len() < 64), "{records:?}");
    assert_eq!(rig.bodies(), 1);
}
