//! Effects of actions on the time to live, session and size of a copy (semantics §12.3, §12.6, §9).

use super::rig::{Rig, options, rule, with_sessions};
use super::sql::{acting, shown, subscribe, text, with_rule_properties, with_user};
use crate::partition::Record;
use crate::partition::step::CHANGED_BYTES_PER_CALL_MAX;
use crate::{
    Filter, NewMessage, RuleProperties, SequenceNumber, SubQueue, SubscriptionOptions, TopicOptions,
};

/// The time to live set by an action replaces the sender's: the minimum of it, the topic's and the subscription's counts.
#[test]
fn s12_3_s16_a_life_that_an_action_gives_is_capped_again() {
    let seconds = |seconds: u64| Some(seconds * 1_000);
    for (topic, subscription, sent, action, expected) in [
        (None, None, None, "SET sys.TimeToLive = '00:00:05'", seconds(5)),
        (None, None, seconds(2), "SET sys.TimeToLive = '00:00:05'", seconds(5)),
        (None, None, seconds(2), "REMOVE sys.TimeToLive", None),
        (seconds(4), None, seconds(2), "SET sys.TimeToLive = '00:00:05'", seconds(4)),
        (seconds(4), None, seconds(2), "REMOVE sys.TimeToLive", seconds(4)),
        (None, seconds(3), seconds(2), "SET sys.TimeToLive = '00:00:05'", seconds(3)),
        (seconds(4), seconds(3), seconds(9), "SET sys.TimeToLive = '00:00:01'", seconds(1)),
        (None, None, seconds(2), "SET x = 1", seconds(2)),
    ] {
        let mut rig =
            Rig::new(TopicOptions { default_message_time_to_live_ms: topic, ..TopicOptions::default() });
        let options = SubscriptionOptions { default_message_time_to_live_ms: subscription, ..options() };
        let rules = vec![acting("r", Filter::True, action), rule("plain", Filter::True)];
        let queue = rig.try_subscribe("s", options, rules).unwrap();
        rig.send(NewMessage { time_to_live_ms: sent, ..with_user(&[]) });
        let views = rig.peek(queue, SubQueue::Main);
        let plain = [sent, topic, subscription].into_iter().flatten().min();
        let lives: Vec<_> = views.iter().map(|view| view.time_to_live_ms).collect();
        assert_eq!(lives, [plain, expected], "{action}");
        assert_eq!(views[1].expires_at, rig.now.plus_ms(expected.unwrap_or(u64::MAX)));
    }
}

#[test]
fn a_changed_session_is_the_session_of_the_copy() {
    let mut rig = Rig::plain();
    let rules = vec![
        rule("plain", Filter::True),
        acting("other", Filter::True, "SET sys.SessionId = 's'"),
        acting("removed", Filter::True, "REMOVE sys.SessionId"),
    ];
    let with = rig.try_subscribe("with", with_sessions(), rules.clone()).unwrap();
    let without = subscribe(&mut rig, "without", rules);
    for session_id in [Some("sent"), None] {
        rig.send(with_rule_properties(RuleProperties {
            session_id: session_id.map(Into::into),
            ..RuleProperties::default()
        }));
    }
    let sessions = |rig: &Rig, queue, sub_queue| -> Vec<(u64, Option<String>)> {
        let messages = rig.partition.state.queue(queue).unwrap().messages.get(sub_queue).all();
        let of = |(number, record): (SequenceNumber, &Record)| {
            (number.0, record.session_id().map(ToString::to_string))
        };
        messages.map(of).collect()
    };
    let some = |number, id: &str| (number, Some(id.to_owned()));
    for _ in 0..2 {
        let main = sessions(&rig, with, SubQueue::Main);
        assert_eq!(main, [some(1, "sent"), some(2, "s"), some(5, "s")]);
        let dead = sessions(&rig, with, SubQueue::DeadLetter);
        assert_eq!(dead, [(3, None), (4, None), (6, None)]);
        let all = sessions(&rig, without, SubQueue::Main);
        assert_eq!(all, [some(1, "sent"), some(2, "s"), (3, None), (4, None), some(5, "s"), (6, None)]);
        rig.restart();
    }
    for dead in rig.peek(with, SubQueue::DeadLetter) {
        assert_eq!(dead.dead_letter.unwrap().reason.as_deref(), Some("Session id is null."));
    }
    let dead = rig.peek(with, SubQueue::DeadLetter).remove(0);
    assert!(dead.changes.is_some(), "it is dead-lettered with the action's changes");
    assert_eq!(rig.take_one(with).unwrap().0.sequence_number.0, 2, "the holder of the session gets the copy");
}

#[test]
fn s12_6_a_scheduled_time_and_a_message_id_are_only_shown() {
    let topic = TopicOptions { requires_duplicate_detection: true, ..TopicOptions::default() };
    let mut rig = Rig::new(topic);
    let action = "SET sys.ScheduledEnqueueTimeUtc = '2100-01-01T00:00:00Z'; SET sys.MessageId = 'same'";
    let queue = subscribe(&mut rig, "s", vec![acting("r", Filter::True, action)]);
    let sent = |id: &str| NewMessage {
        message_key: Some(crate::MessageKey::of(id)),
        ..with_rule_properties(RuleProperties { message_id: Some(id.into()), ..RuleProperties::default() })
    };
    for id in ["a", "b", "same", "a"] {
        rig.send(sent(id));
    }
    let views = rig.peek(queue, SubQueue::Main);
    assert_eq!(views.len(), 3, "duplicates are detected by the sent id");
    for view in &views {
        assert_eq!(view.state, crate::MessageState::Active);
        assert_eq!(shown(&sent("x"), view).message_id.as_deref(), Some("same"));
        let scheduled = view.changes.as_ref().unwrap().scheduled_enqueue_time_ms;
        assert_eq!(scheduled, Some(Some(4_102_444_800_000)));
    }
    assert_eq!(rig.partition.counts().scheduled, 0);
}

/// Semantics §9: the copy is dead-lettered unchanged.
#[test]
fn a_header_that_an_action_makes_too_large_dead_letters_the_copy_as_it_was() {
    let large = text(&"x".repeat(30_000));
    let sent =
        NewMessage { header_bytes: 30_100, session_id: Some("s".into()), ..with_user(&[("large", large)]) };
    let mut rig = Rig::plain();
    let fits = acting("fits", Filter::True, "SET a = large; REMOVE sys.SessionId");
    let grows =
        acting("grows", Filter::True, "SET a = large; SET b = large; SET sys.TimeToLive = '00:00:01'");
    let queue = subscribe(&mut rig, "s", vec![fits, grows, rule("plain", Filter::True)]);
    rig.send(sent.clone());
    rig.restart();
    assert_eq!(rig.counts(queue), (2, 1));
    let (dead, reason, description) = rig.only_dead(queue);
    assert_eq!(reason, "HeaderSizeExceeded");
    assert_eq!(description, "The size quota for this stream has been exceeded.");
    assert_eq!((dead.changes.clone(), dead.time_to_live_ms), (None, None));
    assert_eq!(dead.sequence_number.0, 3, "in the order of the rules");
}

/// Receivers' changes override those of actions, and both count against the limit of the header.
#[test]
fn later_changes_by_receivers_override_those_of_actions() {
    let mut rig = Rig::plain();
    let action = acting("r", Filter::True, "SET a = large; SET b = 'action'");
    let queue = subscribe(&mut rig, "s", vec![action]);
    rig.send(with_user(&[("large", text(&"x".repeat(30_000)))]));
    let property = |name: &str, length| crate::Property { name: name.into(), value: vec![7; length].into() };
    let abandon = |modify| crate::Settlement::Abandon { modify };
    let (before, token) = rig.take_one(queue).unwrap();
    rig.settle(queue, token, abandon(vec![property("b", 3)])).unwrap();
    rig.restart();
    let (view, token) = rig.take_one(queue).unwrap();
    assert_eq!(view.changes, before.changes, "they are unchanged");
    assert_eq!(view.modified.as_deref(), Some(&vec![property("b", 3)]));
    rig.settle(queue, token, abandon(vec![property("c", 36_000)])).unwrap();
    let (dead, reason, _) = rig.only_dead(queue);
    assert_eq!(reason, "HeaderSizeExceeded");
    assert_eq!((dead.changes, dead.modified), (before.changes, view.modified));
}

/// The writes of one command are limited, however many rules have actions: further copies are dead-lettered unchanged.
#[test]
fn changed_copies_beyond_the_limit_of_one_command_are_dead_lettered_unchanged() {
    const EACH: usize = 60_000;
    // Each message takes slightly more than half of it.
    let rules = CHANGED_BYTES_PER_CALL_MAX / EACH / 2 + 10;
    let mut rig = Rig::plain();
    rig.checks = false;
    let action = |number: usize| acting(&number.to_string(), Filter::True, "SET a = half; SET b = half");
    let all = subscribe(&mut rig, "all", (0..rules).map(action).collect());
    let later = subscribe(&mut rig, "later", vec![rule("plain", Filter::True)]);
    let half = || with_user(&[("half", text(&"x".repeat(EACH / 2)))]);
    for scheduled in [false, true] {
        for _ in 0..2 {
            let scheduled_enqueue_time = scheduled.then(|| rig.now.plus_ms(10));
            rig.send(NewMessage { scheduled_enqueue_time, ..half() });
        }
    }
    assert_eq!(rig.counts(later), (2, 0));
    rig.advance(10);
    assert_eq!(rig.counts(later), (3, 0), "the other one follows in the next call");
    rig.advance(0);
    assert_eq!((rig.counts(later), rig.counts(all)), ((4, 0), (4 * rules as u64, 0)));
    rig.send(NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(10)), ..half() });
    rig.now = rig.now.plus_ms(10);
    rig.send(half());
    assert_eq!(rig.counts(all), (6 * rules as u64, 0), "due messages do not reduce the command's share");
    let batch = rig.try_send(vec![half(), half()]).unwrap();
    let (active, dead) = rig.counts(all);
    assert_eq!((batch.len(), active + dead), (2, 8 * rules as u64));
    assert!((1..=30).contains(&dead), "{dead}");
    let (view, _) = rig.take(all, SubQueue::DeadLetter, crate::ReceiveMode::PeekLock).unwrap();
    assert_eq!(view.dead_letter.unwrap().reason.as_deref(), Some("HeaderSizeExceeded"));
    assert_eq!(view.changes, None);
}
