//! Deletion of idle topics and subscriptions: S-25, S-26, S-29, S-31, S-32.

use super::super::rig::message;
use super::rig::{Rig, TOPIC, label, options, rule};
use crate::{
    Command, Effect, NewMessage, QueueId, ReceiveMode, Refusal, Settlement, SubQueue, SubscriptionOptions,
    TopicOptions,
};

const IDLE_MS: u64 = 300_000;

/// A topic with one subscription, each with or without AutoDeleteOnIdle.
fn rig(topic: Option<u64>, subscription: Option<u64>) -> (Rig, QueueId) {
    let mut rig = Rig::new(TopicOptions { auto_delete_on_idle_ms: topic, ..TopicOptions::default() });
    let wanted = SubscriptionOptions { auto_delete_on_idle_ms: subscription, ..options() };
    let queue = rig.try_subscribe("s", wanted, Vec::new()).unwrap();
    rig.advance(0);
    (rig, queue)
}

fn temporary_topic() -> (Rig, QueueId) {
    rig(Some(IDLE_MS), None)
}

fn temporary_subscription() -> (Rig, QueueId) {
    rig(None, Some(IDLE_MS))
}

/// Advances the time, one tick at a time as the runtime would; true if the topic or its subscription ended.
fn idles(rig: &mut Rig, ms: u64) -> bool {
    let end = rig.now.plus_ms(ms);
    loop {
        let next = rig.partition.next_deadline().filter(|at| *at <= end);
        rig.now = next.unwrap_or(end).max(rig.now);
        let effects = rig.handle(None, Command::Tick);
        if effects.contains(&Effect::Ended(crate::End::Idle)) || rig.partition.subscription_count() == 0 {
            return true;
        }
        if next.is_none() {
            return false;
        }
    }
}

/// An operation, and its name in a failure.
type Use = (&'static str, fn(&mut Rig, QueueId));

const SEND: Use = ("send", |rig, _| {
    rig.send(message("b"));
});

const OF_THE_SUBSCRIPTION: [Use; 7] = [
    ("receive", |rig, queue| {
        rig.take_one(queue).unwrap();
    }),
    ("receive without result", |rig, queue| {
        rig.take(queue, SubQueue::DeadLetter, ReceiveMode::PeekLock);
    }),
    ("peek", |rig, queue| {
        rig.peek(queue, SubQueue::Main);
    }),
    ("peek at dead letters", |rig, queue| {
        rig.peek(queue, SubQueue::DeadLetter);
    }),
    ("add a rule", |rig, queue| {
        rig.done(Command::AddRule { queue, rule: rule("new", label("x")) }).unwrap();
    }),
    ("remove a rule", |rig, queue| {
        rig.done(Command::RemoveRule { queue, name: "$Default".into() }).unwrap();
    }),
    ("update", |rig, queue| {
        let subscription = rig.partition.subscription(queue).unwrap();
        let options = SubscriptionOptions { max_delivery_count: 3, ..subscription.options.clone() };
        rig.done(Command::DeclareSubscription {
            intent: crate::Intent::Declare,
            queue,
            name: "s".into(),
            options,
            rules: Vec::new(),
        })
        .unwrap();
    }),
];

const NONE: [Use; 3] = [
    ("attach", |rig, queue| {
        rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
    }),
    ("watch", |rig, queue| {
        rig.handle(None, Command::Watch { watcher: crate::ReceiverId(50), queue, sends: false });
    }),
    ("list rules", |rig, queue| {
        rig.rules(queue, 0, 10).unwrap();
    }),
];

fn starts_the_time_anew(begin: fn() -> (Rig, QueueId), (name, use_it): Use) {
    let (mut rig, queue) = begin();
    rig.send(message("a"));
    rig.peek(queue, SubQueue::Main);
    assert!(!idles(&mut rig, IDLE_MS - 1), "{name}");
    use_it(&mut rig, queue);
    assert!(!idles(&mut rig, IDLE_MS - 1), "{name}");
    assert!(idles(&mut rig, 1), "{name}");
}

fn is_no_use(begin: fn() -> (Rig, QueueId), (name, do_it): Use) {
    let (mut rig, queue) = begin();
    rig.send(message("a"));
    rig.peek(queue, SubQueue::Main);
    assert!(!idles(&mut rig, IDLE_MS - 1), "{name}");
    do_it(&mut rig, queue);
    assert!(idles(&mut rig, 1), "{name}");
}

#[test]
fn s31_sends_updates_and_use_of_a_subscription_keep_a_topic() {
    starts_the_time_anew(temporary_topic, SEND);
    let update: Use = ("update of the topic", |rig, _| {
        let changed = TopicOptions {
            max_size_bytes: 1 << 40,
            auto_delete_on_idle_ms: Some(IDLE_MS),
            ..TopicOptions::default()
        };
        rig.change_options(changed);
    });
    starts_the_time_anew(temporary_topic, update);
    OF_THE_SUBSCRIPTION.into_iter().for_each(|each| starts_the_time_anew(temporary_topic, each));
    NONE.into_iter().for_each(|each| is_no_use(temporary_topic, each));
}

#[test]
fn s32_receives_peeks_rules_and_updates_keep_a_subscription_but_sends_do_not() {
    OF_THE_SUBSCRIPTION.into_iter().for_each(|each| starts_the_time_anew(temporary_subscription, each));
    NONE.into_iter().for_each(|each| is_no_use(temporary_subscription, each));
    is_no_use(temporary_subscription, SEND);
    let schedule: Use = ("schedule", |rig, _| {
        let at = rig.now.plus_ms(IDLE_MS * 5);
        rig.send(NewMessage { scheduled_enqueue_time: Some(at), ..message("later") });
    });
    is_no_use(temporary_subscription, schedule);
}

#[test]
fn s31_s32_settling_is_part_of_receiving() {
    const BRIEF_MS: u64 = 1000;
    for (topic, subscription) in [(Some(BRIEF_MS), None), (None, Some(BRIEF_MS))] {
        let (mut rig, queue) = rig(topic, subscription);
        rig.send(message("a"));
        let (_, token) = rig.take_one(queue).unwrap();
        assert!(!idles(&mut rig, BRIEF_MS - 1));
        rig.settle(queue, token, Settlement::Complete).unwrap();
        assert!(!idles(&mut rig, BRIEF_MS - 1));
        assert!(idles(&mut rig, 1));
    }
}

#[test]
fn s31_s32_a_listener_keeps_both_and_its_leaving_starts_the_time() {
    for begin in [temporary_topic, temporary_subscription] {
        let (mut rig, queue) = begin();
        let receiver = rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
        rig.credit(receiver, 1, false);
        assert!(!idles(&mut rig, IDLE_MS * 10));
        rig.handle(None, Command::CloseReceiver { receiver });
        assert!(!idles(&mut rig, IDLE_MS - 1));
        assert!(idles(&mut rig, 1));
    }
}

#[test]
fn s31_a_pending_scheduled_message_keeps_a_topic_and_its_publication_is_a_use() {
    let (mut rig, queue) = temporary_topic();
    let at = rig.now.plus_ms(IDLE_MS * 5);
    rig.send(NewMessage { scheduled_enqueue_time: Some(at), ..message("later") });
    assert!(!idles(&mut rig, IDLE_MS * 5));
    assert_eq!(rig.counts(queue), (1, 0));
    assert!(!idles(&mut rig, IDLE_MS - 1));
    assert!(idles(&mut rig, 1));
}

#[test]
fn s25_a_subscription_is_deleted_alone_with_its_messages() {
    let (mut rig, _) = temporary_subscription();
    let other = rig.subscribe("other");
    rig.send(message("a"));
    rig.peek(other, SubQueue::Main);
    rig.advance(IDLE_MS);
    assert_eq!(rig.partition.subscription_count(), 1);
    assert_eq!((rig.counts(other), rig.bodies()), ((1, 0), 1));
    rig.send(message("b"));
    rig.complete_one(other);
    rig.complete_one(other);
    assert_eq!(rig.bodies(), 0, "no reference to the one that went is left");
}

/// The queue was listed twice among those to be processed after the call, which never ended.
#[test]
fn a_subscription_may_be_declared_again_with_its_number_in_the_call_that_ends_it() {
    let (mut rig, queue) = temporary_subscription();
    rig.send(message("a"));
    rig.peek(queue, SubQueue::Main);
    rig.now = rig.now.plus_ms(IDLE_MS);
    rig.done(Command::DeclareSubscription {
        intent: crate::Intent::Declare,
        queue,
        name: "s".into(),
        options: options(),
        rules: Vec::new(),
    })
    .unwrap();
    assert_eq!((rig.partition.subscription_count(), rig.counts(queue)), (1, (0, 0)));
    assert_eq!(rig.partition.take_changed(), [queue]);
}

/// The events of a call are one batch, and other work waits for it.
#[test]
fn subscriptions_that_become_idle_at_one_time_end_over_several_calls() {
    const COUNT: usize = 500;
    let mut rig = Rig::new(TopicOptions::default());
    for number in 0..COUNT {
        let wanted = SubscriptionOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..options() };
        rig.try_subscribe(&format!("s{number}"), wanted, Vec::new()).unwrap();
    }
    rig.advance(0);
    rig.now = rig.now.plus_ms(2 * IDLE_MS);
    let mut calls = 0;
    while rig.partition.subscription_count() > 0 {
        let before = rig.partition.subscription_count();
        assert_eq!(rig.partition.next_deadline().map(|at| at <= rig.now), Some(true));
        rig.handle(None, Command::Tick);
        let ended = before - rig.partition.subscription_count();
        assert!((1..=100).contains(&ended), "{ended} in one call");
        calls += 1;
    }
    assert!(calls > 1);
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn a_subscription_with_many_messages_that_becomes_idle_ends_in_a_call_of_its_own() {
    let mut rig = Rig::new(TopicOptions::default());
    for name in ["a", "b", "c"] {
        let wanted = SubscriptionOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..options() };
        rig.try_subscribe(name, wanted, Vec::new()).unwrap();
    }
    (0..50).for_each(|_| drop(rig.try_send(vec![message("x"); 100]).unwrap()));
    rig.now = rig.now.plus_ms(2 * IDLE_MS);
    for left in [2, 1, 0] {
        rig.handle(None, Command::Tick);
        assert_eq!(rig.partition.subscription_count(), left);
    }
    assert_eq!(rig.bodies(), 0);
}

#[test]
fn s25_a_topic_is_deleted_as_a_whole_and_its_links_are_detached() {
    let (mut rig, queue) = temporary_topic();
    let receiver = rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
    rig.now = rig.now.plus_ms(IDLE_MS);
    let effects = rig.handle(None, Command::Tick);
    let told = Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted };
    assert_eq!(effects, [told, Effect::Ended(crate::End::Idle)]);
    assert_eq!(rig.try_send(vec![message("late")]), Err(Refusal::EntityDeleted));
    assert_eq!(rig.try_peek(queue, SubQueue::Main).unwrap_err(), Refusal::EntityDeleted);
}

#[test]
fn s29_without_the_option_neither_ends() {
    let (mut rig, _) = rig(None, None);
    rig.send(message("a"));
    assert!(!idles(&mut rig, u64::MAX / 2));
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn the_last_use_survives_a_restart() {
    for (begin, name) in [(temporary_topic as fn() -> _, "topic"), (temporary_subscription, "subscription")] {
        let (mut rig, queue) = begin();
        assert!(!idles(&mut rig, IDLE_MS / 2));
        rig.peek(queue, SubQueue::Main);
        let used_at = rig.now;
        assert!(!idles(&mut rig, IDLE_MS / 2));
        rig.restart();
        let end = rig.partition.next_deadline().unwrap();
        assert!(end <= used_at.plus_ms(IDLE_MS), "{name}: not anew");
        assert!(end >= used_at.plus_ms(IDLE_MS - 60_000), "{name}: at most a minute is lost");
    }
}

/// S-31 lists sends, updates, scheduled messages and operations on subscriptions.
#[test]
fn s31_reading_the_messages_of_the_topic_itself_does_not_keep_it() {
    let kept = SubQueue::TransferDeadLetter;
    let keep = |rig: &mut Rig| {
        let messages = [message("a")].into_iter().collect();
        rig.handle(None, Command::KeepUndelivered { messages, why: crate::DeadLetter::default().into() });
    };
    let (mut rig, _) = temporary_topic();
    assert!(!idles(&mut rig, IDLE_MS - 1));
    keep(&mut rig);
    assert!(!idles(&mut rig, IDLE_MS - 1), "a message was sent by way of it");
    rig.peek(TOPIC, kept);
    let (_, lock) = rig.take(TOPIC, kept, ReceiveMode::PeekLock).unwrap();
    rig.settle(TOPIC, lock.unwrap().token, Settlement::Complete).unwrap();
    let receiver = rig.open(TOPIC, kept, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    assert!(idles(&mut rig, 1));
}
