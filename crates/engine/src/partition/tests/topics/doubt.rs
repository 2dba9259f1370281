//! Head records of subscriptions that can't be read: the bodies to which they may refer are kept.

use bytes::Bytes;
use peeklock_storage::{Key, PartitionId, Space};

use super::super::rig::message;
use super::rig::{Rig, TOPIC};
use crate::{Command, QueueId, QueuePath, SubQueue, Timestamp, TopicOptions};

fn head(queue: QueueId, number: u64) -> Key {
    Key::new(Space::Head, PartitionId(queue.0), number)
}

/// A topic with two subscriptions that both have the messages 1 to `count`.
fn filled(count: u64) -> (Rig, QueueId, QueueId) {
    let mut rig = Rig::plain();
    let (one, other) = (rig.subscribe("one"), rig.subscribe("other"));
    for number in 1..=count {
        assert_eq!(rig.send(message("content")), number);
    }
    (rig, one, other)
}

/// Restarts with these heads damaged; returns their intact records. The invariants hold without damage only.
fn restart_damaged(rig: &mut Rig, heads: &[Key]) -> Vec<(Key, Bytes)> {
    rig.checks = false;
    let intact =
        heads.iter().map(|key| (*key, rig.store.0.insert(*key, Bytes::from_static(b"\x09")).unwrap()));
    let intact = intact.collect();
    rig.restart();
    intact
}

/// Restarts after the device returns the records again.
fn restart_intact(rig: &mut Rig, heads: Vec<(Key, Bytes)>) {
    rig.store.0.extend(heads);
    rig.restart();
    // Tombstones are removed first.
    rig.advance(1);
    rig.checks = true;
    rig.advance(1);
}

fn stored_bodies(rig: &Rig) -> Vec<u64> {
    rig.store.entries(TOPIC, Space::Body).iter().map(|entry| entry.number).collect()
}

fn tombstones(rig: &Rig) -> Vec<u64> {
    rig.store.entries(TOPIC, Space::Head).iter().map(|entry| entry.number).collect()
}

fn purge(rig: &mut Rig, queue: QueueId) {
    let source = QueuePath { queue, sub_queue: SubQueue::Main };
    let enqueued_until = Timestamp::NEVER;
    rig.ask(Command::DeleteMessages { source, count_max: 4000, enqueued_until, receiver: None });
}

#[test]
fn the_body_of_an_unreadable_copy_outlives_the_other_copies() {
    let (mut rig, one, other) = filled(5);
    let intact = restart_damaged(&mut rig, &[head(one, 3)]);
    for _ in 0..5 {
        rig.complete_one(other);
    }
    for expected in [1, 2, 4, 5] {
        assert_eq!(rig.complete_one(one).body.0, expected);
    }
    // The neighbours may be the same message twice: its copies have consecutive numbers.
    assert_eq!(stored_bodies(&rig), [2, 3, 4]);
    assert_eq!(tombstones(&rig), [2, 3, 4]);
    restart_intact(&mut rig, intact);
    assert_eq!(stored_bodies(&rig), [3]);
    assert_eq!(rig.complete_one(one).body.0, 3);
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (0, 0));
}

/// A body is kept at every start at which the record can't be read.
#[test]
fn bodies_in_doubt_stay_while_the_record_is_unreadable() {
    let (mut rig, one, other) = filled(1);
    restart_damaged(&mut rig, &[head(one, 1)]);
    rig.complete_one(other);
    for _ in 0..3 {
        rig.restart();
        rig.advance(1);
        assert_eq!((stored_bodies(&rig), tombstones(&rig)), (vec![1], vec![1]));
        assert_eq!(rig.partition.counts().size_bytes, 7, "what is kept takes room");
        assert_eq!(rig.partition.next_deadline(), None);
    }
}

#[test]
fn messages_published_after_the_start_are_deleted_as_usual() {
    let (mut rig, one, other) = filled(1);
    restart_damaged(&mut rig, &[head(one, 1)]);
    rig.complete_one(other);
    rig.send(message("later"));
    rig.complete_one(one);
    rig.complete_one(other);
    assert_eq!(stored_bodies(&rig), [1]);
}

#[test]
fn a_purge_keeps_bodies_in_doubt() {
    let (mut rig, one, other) = filled(40);
    let intact = restart_damaged(&mut rig, &[head(one, 20)]);
    purge(&mut rig, other);
    purge(&mut rig, one);
    assert_eq!((stored_bodies(&rig), tombstones(&rig)), (vec![19, 20, 21], vec![19, 20, 21]));
    restart_intact(&mut rig, intact);
    assert_eq!(rig.waiting(one), [20]);
}

/// The deletion of a subscription deletes its unreadable records, and what was kept for them only.
#[test]
fn a_deleted_subscription_is_in_doubt_no_longer() {
    let (mut rig, one, other) = filled(3);
    let third = rig.subscribe("third");
    rig.send(message("content"));
    restart_damaged(&mut rig, &[head(one, 1), head(third, 1)]);
    purge(&mut rig, other);
    purge(&mut rig, one);
    assert_eq!(stored_bodies(&rig), [1, 2, 3, 4]);
    rig.done(Command::DeleteSubscription { queue: one }).unwrap();
    rig.advance(1);
    assert_eq!(stored_bodies(&rig), [1, 2, 3, 4], "the third may have any of them");
    rig.done(Command::DeleteSubscription { queue: third }).unwrap();
    rig.checks = true;
    rig.advance(1);
    assert_eq!((rig.bodies(), tombstones(&rig).len()), (0, 0));
}

/// Nothing names the body of an unreadable copy that was the last one.
#[test]
fn the_last_subscription_in_doubt_takes_the_bodies_that_nothing_names() {
    let (mut rig, one, other) = filled(5);
    for _ in 0..3 {
        rig.complete_one(other);
    }
    let third = rig.subscribe("third");
    let later = Some(rig.now.plus_ms(1000));
    rig.send(crate::NewMessage { scheduled_enqueue_time: later, ..message("later") });
    rig.send(message("content"));
    restart_damaged(&mut rig, &[head(one, 2), head(other, 5)]);
    rig.done(Command::DeleteSubscription { queue: one }).unwrap();
    assert_eq!(stored_bodies(&rig), [1, 2, 3, 4, 5, 6, 7], "the other may have any of them");
    rig.done(Command::DeleteSubscription { queue: other }).unwrap();
    // Those that were kept are deleted by the timers.
    rig.checks = true;
    rig.advance(1);
    assert_eq!(stored_bodies(&rig), [6, 7]);
    rig.advance(1000);
    assert_eq!(stored_bodies(&rig), [6, 7]);
    assert_eq!([rig.complete_one(third).body.0, rig.complete_one(third).body.0], [7, 6]);
}

/// A known limit, found by a simulation: when all records can be read again, nothing says that such a body is left.
#[test]
fn a_body_that_nothing_names_stays_if_the_last_subscription_in_doubt_can_be_read_again() {
    let (mut rig, one, other) = filled(3);
    rig.complete_one(other);
    rig.complete_one(other);
    let intact = restart_damaged(&mut rig, &[head(one, 2), head(other, 3)]);
    rig.done(Command::DeleteSubscription { queue: one }).unwrap();
    assert_eq!(stored_bodies(&rig), [1, 2, 3]);
    rig.store.0.extend(intact.into_iter().filter(|(key, _)| *key == head(other, 3)));
    rig.restart();
    rig.advance(1);
    assert_eq!(rig.complete_one(other).body.0, 3);
    assert_eq!(stored_bodies(&rig), [2]);
}

/// As many as there may be: tombstones are stored a bounded number at a time.
#[test]
fn the_deletion_of_a_large_subscription_keeps_bodies_in_doubt() {
    const COUNT: u64 = 3000;
    let mut rig = Rig::plain();
    rig.checks = false;
    let (one, other) = (rig.subscribe("one"), rig.subscribe("other"));
    for _ in 0..COUNT {
        rig.send(message("content"));
    }
    purge(&mut rig, one);
    rig.send(message("content"));
    let last = COUNT + 1;
    let intact = restart_damaged(&mut rig, &[head(one, last)]);
    rig.done(Command::DeleteSubscription { queue: other }).unwrap();
    assert_eq!(rig.bodies() as u64, last);
    while rig.partition.next_deadline().is_some() {
        let before = tombstones(&rig).len();
        rig.advance(1);
        assert!((1..=1024).contains(&(tombstones(&rig).len() - before)));
    }
    assert_eq!(tombstones(&rig).len() as u64, last);
    rig.store.0.extend(intact);
    rig.restart();
    while rig.partition.next_deadline().is_some() {
        rig.advance(1);
    }
    assert_eq!((stored_bodies(&rig), tombstones(&rig)), (vec![last], vec![]));
    assert_eq!(rig.waiting(one), [last]);
}

#[test]
fn a_scheduled_message_is_never_in_doubt() {
    let mut rig = Rig::plain();
    let one = rig.subscribe("one");
    rig.send(message("content"));
    let later = Some(rig.now.plus_ms(9));
    rig.send(crate::NewMessage { scheduled_enqueue_time: later, ..message("later") });
    let damaged = restart_damaged(&mut rig, &[head(one, 1)]);
    rig.advance(10);
    rig.complete_one(one);
    assert_eq!(stored_bodies(&rig), [1]);
    let restored = rig.store.restore(TopicOptions::default()).unwrap();
    assert_eq!(restored.state.entity.quarantined.len(), 0, "{damaged:?}");
}
