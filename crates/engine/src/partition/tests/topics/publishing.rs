use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::super::Outputs;
use super::super::super::step::VISITS_PER_COPY;
use super::super::rig::{dead_letter, defer, message, with_ttl};
use super::rig::{Rig, label, labelled, options, rule, with_sessions};
use crate::{
    Command, Event, Filter, NewMessage, ReceiveMode, Refusal, Settlement, SubQueue, SubscriptionOptions,
    TopicOptions,
};

#[test]
fn every_subscription_gets_its_own_copy_of_one_stored_content() {
    let mut rig = Rig::plain();
    let subscriptions = ["a", "b", "c"].map(|name| rig.subscribe(name));
    assert_eq!(rig.send(message("hello")), 1);
    assert_eq!(rig.send(message("again")), 2);
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (2, 10));
    for queue in subscriptions {
        let views = rig.peek(queue, SubQueue::Main);
        let numbers: Vec<_> = views.iter().map(|view| (view.sequence_number.0, view.body.0)).collect();
        assert_eq!(numbers, [(1, 1), (2, 2)]);
    }
    for (left, queue) in subscriptions.into_iter().enumerate().map(|(index, queue)| (2 - index, queue)) {
        assert_eq!(rig.complete_one(queue).body.0, 1);
        assert_eq!(rig.bodies(), if left == 0 { 1 } else { 2 }, "the body is deleted with its last copy");
    }
    assert_eq!(rig.partition.counts().size_bytes, 5);
}

#[test]
fn copies_of_a_message_share_their_rare_facts_also_after_a_restart() {
    let mut rig = Rig::plain();
    let (a, b) = (rig.subscribe("a"), rig.subscribe("b"));
    rig.send(NewMessage { session_id: Some("s".into()), ..message("x") });
    for _ in 0..2 {
        let state = &rig.partition.state;
        let extra = |queue| {
            let record = state.record(queue, SubQueue::Main, crate::SequenceNumber(1)).unwrap();
            std::sync::Arc::as_ptr(record.extra().unwrap())
        };
        assert_eq!(extra(a), extra(b));
        rig.restart();
    }
}

#[test]
fn a_subscription_numbers_its_messages_without_gaps() {
    let mut rig = Rig::plain();
    let some = rig.subscribe_to("some", label("x"));
    for (content, of) in [("1", "x"), ("2", "y"), ("3", "x")] {
        rig.send(labelled(content, of));
    }
    let views = rig.peek(some, SubQueue::Main);
    let numbers: Vec<_> = views.iter().map(|view| (view.sequence_number.0, view.body.0)).collect();
    assert_eq!(numbers, [(1, 1), (2, 3)]);
    for _ in 0..2 {
        rig.complete_one(some);
    }
    rig.restart();
    rig.send(labelled("4", "x"));
    assert_eq!(rig.take_one(some).unwrap().0.sequence_number.0, 3, "numbers are never given out twice");
}

#[test]
fn a_message_without_a_matching_rule_is_accepted_and_not_stored() {
    let mut rig = Rig::plain();
    assert_eq!(rig.send(message("nobody listens")), 1);
    rig.subscribe_to("x", label("x"));
    let before = rig.store.0.clone();
    assert_eq!(rig.send(labelled("unwanted", "y")), 2);
    assert_eq!(rig.store.0, before);
    assert_eq!(rig.partition.counts().size_bytes, 0);
    assert!(rig.events.iter().all(|event| event.durability() == crate::Durability::Volatile));
    assert_eq!(rig.send(labelled("wanted", "x")), 3);
}

#[test]
fn s16_the_least_of_message_topic_and_subscription_life_counts() {
    let limits = [None, Some(10_000), Some(20_000), Some(30_000)];
    for topic in limits {
        let mut rig =
            Rig::new(TopicOptions { default_message_time_to_live_ms: topic, ..TopicOptions::default() });
        let queues: Vec<_> = limits
            .iter()
            .enumerate()
            .map(|(index, limit)| {
                let options = SubscriptionOptions { default_message_time_to_live_ms: *limit, ..options() };
                (*limit, rig.try_subscribe(&index.to_string(), options, Vec::new()).unwrap())
            })
            .collect();
        for sent in limits {
            rig.send(NewMessage { time_to_live_ms: sent, ..message("x") });
            for (limit, queue) in &queues {
                let expected = [sent, topic, *limit].into_iter().flatten().min();
                let view = rig.peek(*queue, SubQueue::Main).pop().unwrap();
                assert_eq!(view.time_to_live_ms, expected, "{sent:?} {topic:?} {limit:?}");
                assert_eq!(view.expires_at, rig.now.plus_ms(expected.unwrap_or(u64::MAX)));
                rig.complete_one(*queue);
            }
        }
    }
}

#[test]
fn a_batch_is_all_or_none() {
    let options = TopicOptions { max_message_size_bytes: 5, max_size_bytes: 12, ..TopicOptions::default() };
    let mut rig = Rig::new(options);
    let queues = [rig.subscribe("a"), rig.subscribe("b")];
    assert_eq!(rig.try_send(vec![message("one"), message("two")]), Ok(vec![1, 2]));
    let too_large = Refusal::MessageTooLarge { size_bytes: 6, limit_bytes: 5 };
    assert_eq!(rig.try_send(vec![message("ok"), message("longer")]), Err(too_large));
    let full = Refusal::EntityFull { limit_bytes: 12 };
    assert_eq!(rig.try_send(vec![message("four"), message("fours")]), Err(full));
    for queue in queues {
        assert_eq!(rig.counts(queue), (2, 0));
    }
    assert_eq!(rig.send(message("again")), 3, "each content counts once, however many copies there are");
}

#[test]
fn copies_are_independent_of_each_other() {
    let mut rig = Rig::plain();
    let queues = ["dead", "deferred", "expired", "locked", "plain"];
    let [dead, deferred, expired, locked, plain] = queues.map(|name| rig.subscribe(name));
    rig.send(with_ttl("x", 1_000));
    let (_, token) = rig.take_one(dead).unwrap();
    assert_eq!(
        rig.settle(plain, token, Settlement::Complete),
        Err(Refusal::MessageLockLost),
        "another's token"
    );
    rig.settle(dead, token, dead_letter("bad")).unwrap();
    let (_, token) = rig.take_one(deferred).unwrap();
    rig.settle(deferred, token, defer()).unwrap();
    let (_, token) = rig.take_one(locked).unwrap();
    rig.advance(1_000);
    assert_eq!(rig.counts(expired), (1, 0), "no receiver (S-3)");
    assert!(rig.take_one(expired).is_none());
    assert_eq!(rig.counts(expired), (0, 0));
    assert_eq!(
        [dead, deferred, locked, plain].map(|queue| rig.counts(queue)),
        [(0, 1), (1, 0), (1, 0), (1, 0)]
    );
    rig.settle(locked, token, Settlement::Complete).unwrap();
    rig.restart();
    assert_eq!(rig.bodies(), 1);
    let (view, _) = rig.take(dead, SubQueue::DeadLetter, ReceiveMode::ReceiveAndDelete).unwrap();
    assert_eq!(view.dead_letter.unwrap().reason.as_deref(), Some("bad"));
}

#[test]
fn expiry_dead_letters_in_the_subscriptions_that_want_it() {
    let mut rig = Rig::plain();
    let keeping = SubscriptionOptions { dead_lettering_on_message_expiration: true, ..options() };
    let keeping = rig.try_subscribe("keeping", keeping, Vec::new()).unwrap();
    let dropping = rig.subscribe("dropping");
    rig.send(with_ttl("x", 10));
    rig.now = rig.now.plus_ms(10);
    assert!(rig.take_one(keeping).is_none());
    assert!(rig.take_one(dropping).is_none());
    assert_eq!((rig.counts(keeping), rig.counts(dropping)), ((0, 1), (0, 0)));
}

#[test]
fn a_lock_that_ends_returns_the_copy_to_its_own_subscription() {
    let mut rig = Rig::plain();
    let options = SubscriptionOptions { max_delivery_count: 1, ..options() };
    let once = rig.try_subscribe("once", options, Vec::new()).unwrap();
    let often = rig.subscribe("often");
    rig.send(message("x"));
    rig.take_one(once).unwrap();
    rig.take_one(often).unwrap();
    rig.advance(super::rig::LOCK_MS);
    assert_eq!((rig.counts(once), rig.counts(often)), ((0, 1), (1, 0)));
    let dead = rig.peek(once, SubQueue::DeadLetter).pop().unwrap();
    assert_eq!(dead.dead_letter.unwrap().reason.as_deref(), Some("MaxDeliveryCountExceeded"));
    assert_eq!(rig.take_one(often).unwrap().0.delivery_count, 1);
}

#[test]
fn waiting_receivers_of_every_subscription_are_served_at_once() {
    let mut rig = Rig::plain();
    let queues = ["a", "b", "c"].map(|name| rig.subscribe(name));
    let receivers = queues.map(|queue| {
        let receiver = rig.open(queue, SubQueue::Main, ReceiveMode::ReceiveAndDelete);
        rig.credit(receiver, 10, false);
        receiver
    });
    let effects = rig.handle(None, crate::Command::Send { messages: smallvec::smallvec![message("x")] });
    let served = super::super::rig::deliveries(effects);
    let mut to: Vec<_> = served.iter().map(|(to, ..)| *to).collect();
    to.sort_unstable();
    assert_eq!(to, receivers);
    let mut bodies = Vec::new();
    for (_, view, lock) in served {
        rig.settle(view.queue, lock.unwrap().token, Settlement::Complete).unwrap();
        bodies.extend(rig.events.iter().flat_map(Event::removed_bodies).copied());
    }
    assert_eq!(bodies, [crate::BodyRef(1)], "the last removal names the content, no other does");
    assert_eq!(rig.bodies(), 0);
}

#[test]
fn messages_without_session_go_to_the_dead_letters_of_subscriptions_with_sessions() {
    let mut rig = Rig::plain();
    let sessions = rig.try_subscribe("sessions", with_sessions(), Vec::new()).unwrap();
    let picky = vec![rule("r", label("x"))];
    let picky = rig.try_subscribe("picky", with_sessions(), picky).unwrap();
    let plain = rig.subscribe("plain");
    rig.send(message("no session"));
    rig.send(NewMessage { session_id: Some("".into()), ..message("the empty session") });
    assert_eq!([sessions, picky, plain].map(|queue| rig.counts(queue)), [(1, 1), (0, 0), (2, 0)]);
    let dead = rig.peek(sessions, SubQueue::DeadLetter).pop().unwrap();
    assert_eq!((dead.sequence_number.0, dead.body.0, dead.delivery_count), (1, 1, 0));
    let why = dead.dead_letter.unwrap();
    assert_eq!(why.reason.as_deref(), Some("Session id is null."));
    assert_eq!(
        why.description.as_deref(),
        Some("Session enabled entity doesn't allow a message whose session identifier is null.")
    );
    rig.restart();
    assert_eq!(rig.counts(sessions), (1, 1));
}

/// The largest header that may be sent leaves no room for receivers' changes (§9), in every copy, whether scheduled or not,
/// and after a restart.
#[test]
fn copies_remember_a_large_header() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    let large = NewMessage { header_bytes: 60_000, ..message("x") };
    rig.send(NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(5)), ..large.clone() });
    rig.send(large);
    rig.advance(5);
    rig.restart();
    let records = rig.partition.state.queue(queue).unwrap().all_messages();
    let headers: Vec<u32> = records.map(|(_, record)| record.extra().unwrap().header_bytes).collect();
    assert_eq!(headers, [60_000, 60_000]);
}

#[test]
fn a_batch_sees_one_set_of_rules_and_the_next_one_another() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe_to("x", Filter::False);
    rig.try_send(vec![message("1"), message("2")]).unwrap();
    rig.done(crate::Command::AddRule { queue, rule: rule("all", Filter::True) }).unwrap();
    rig.try_send(vec![message("3"), message("4")]).unwrap();
    rig.done(crate::Command::RemoveRule { queue, name: "ALL".into() }).unwrap();
    rig.send(message("5"));
    assert_eq!(rig.waiting(queue), [3, 4]);
}

#[test]
fn a_message_asks_no_rule_of_a_subscription_that_was_deleted() {
    let mut rig = Rig::plain();
    let queues = ["a", "b"].map(|name| rig.subscribe(name));
    let asked = |rig: &Rig| rig.partition.count_copies(rig.now, 0, &message("x"));
    assert_eq!((asked(&rig), rig.partition.copies_max()), (2, 2));
    rig.done(crate::Command::DeleteSubscription { queue: queues[0] }).unwrap();
    assert_eq!((asked(&rig), rig.partition.copies_max()), (1, 1));
    rig.restart();
    assert_eq!((asked(&rig), rig.partition.copies_max()), (1, 1));
}

#[test]
fn as_many_copies_are_expected_as_there_will_be() {
    let mut rig =
        Rig::new(TopicOptions { default_message_time_to_live_ms: Some(60_000), ..TopicOptions::default() });
    let conditions = [
        "newid() <> '00000000-0000-0000-0000-000000000000'",
        "sys.TimeToLive = '00:01:00'",
        "sys.ScheduledEnqueueTimeUtc IS NOT NULL",
        "sys.SequenceNumber = sys.EnqueuedSequenceNumber",
    ];
    let mut names = ["a", "b", "c", "d"].into_iter();
    let queues =
        conditions.map(|sql| rig.subscribe_to(names.next().unwrap(), Filter::sql(sql, Vec::new()).unwrap()));
    let sent = NewMessage { scheduled_enqueue_time: Some(rig.now), ..message("x") };
    let expected = rig.partition.count_copies(rig.now, 0, &sent);
    rig.send(sent);
    let copies = queues.map(|queue| rig.waiting(queue).len());
    assert_eq!((expected, copies), (4, [1; 4]));
}

/// A turn ends after a number of visits: a copy takes as long as several of them.
#[test]
fn copies_count_as_visits() {
    let mut rig = Rig::plain();
    for number in 0..10 {
        rig.subscribe(&format!("s{number}"));
    }
    let (mut outputs, mut random) = (Outputs::default(), StdRng::seed_from_u64(1));
    let command = Command::Send { messages: [message("x")].into_iter().collect() };
    rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    assert!(outputs.visits >= 10 * VISITS_PER_COPY, "{}", outputs.visits);
}
