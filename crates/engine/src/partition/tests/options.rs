//! `ChangeOptions`: options change in order with other commands, by an event that repeats the change.

use std::sync::Arc;

use super::rig::{Durable, LOCK_MS, QUEUE, Rig, abandon, message, options, with_ttl};
use crate::partition::Partition;
use crate::{
    Command, Durability, EntityStatus, Event, LockToken, QueueOptions, Refusal, Reply, Settlement, SubQueue,
    Timestamp,
};

fn renewed(rig: &mut Rig, token: LockToken) -> Timestamp {
    match rig.ask(Command::RenewLocks { queue: QUEUE, tokens: vec![token] }) {
        Reply::Renewed(Ok(until)) => until[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lower_maximum_counts_failures_that_are_there() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    for _ in 0..2 {
        let (_, token) = rig.take_one().unwrap();
        rig.settle(token, abandon()).unwrap();
    }
    rig.change_options(QueueOptions { max_delivery_count: 2, ..options() });
    assert_eq!(rig.counts(), (1, 0, 0), "only the next failure is one too many");
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, abandon()).unwrap();
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn a_lock_keeps_its_end_and_is_renewed_by_the_new_duration() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.change_options(QueueOptions { lock_duration_ms: LOCK_MS / 2, ..options() });
    rig.advance(LOCK_MS - 1);
    let until = renewed(&mut rig, token);
    assert_eq!(until, rig.now.plus_ms(LOCK_MS / 2));
}

/// Commands are carried out in order: timers that are due before the options change fire under the earlier ones.
#[test]
fn due_timers_use_the_options_before_a_change() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..options() });
    rig.send(message("a"));
    rig.take_one().unwrap();
    rig.now = rig.now.plus_ms(LOCK_MS);
    rig.change_options(options());
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn messages_that_expire_later_go_where_the_new_options_say() {
    let mut rig = Rig::new(options());
    rig.send(with_ttl("a", 1_000));
    rig.change_options(QueueOptions { dead_lettering_on_message_expiration: true, ..options() });
    rig.advance(1_000);
    assert!(rig.take_one().is_none());
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn a_queue_that_is_larger_than_it_may_be_now_keeps_its_messages_and_takes_no_more() {
    let mut rig = Rig::new(options());
    rig.send(message("abc"));
    rig.change_options(QueueOptions { max_size_bytes: 2, ..options() });
    assert_eq!(rig.try_send(vec![message("d")]), Err(Refusal::EntityFull { limit_bytes: 2 }));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, Settlement::Complete).unwrap();
    rig.send(message("d"));
}

/// Without the command, the random numbers and the clock, the events lead to the same state. The event is not written: the
/// catalogue's record is the only one.
#[test]
fn events_repeat_a_change_of_options() {
    let mut rig = Rig::new(options());
    let mut repeated = Partition::new(QUEUE, options());
    let changed = QueueOptions {
        max_delivery_count: 1,
        default_message_time_to_live_ms: Some(500),
        status: EntityStatus::SendDisabled,
        ..options()
    };
    let mut changes = 0;
    let mut repeat = |rig: &Rig| {
        for event in &rig.events {
            repeated.state.apply(event);
            if let Event::OptionsChanged { .. } = event {
                changes += 1;
                assert_eq!(event.durability(), Durability::Volatile);
            }
        }
    };
    rig.send(message("a"));
    repeat(&rig);
    rig.change_options(changed.clone());
    repeat(&rig);
    let receiver = rig.open(SubQueue::Main, crate::ReceiveMode::PeekLock);
    repeat(&rig);
    rig.credit(receiver, 1, false);
    repeat(&rig);
    rig.advance(LOCK_MS);
    repeat(&rig);
    assert_eq!(changes, 1);
    assert_eq!((rig.counts(), rig.try_send(vec![message("b")])), ((0, 1, 0), Err(Refusal::EntityDisabled)));
    assert_eq!(repeated.state.options, Arc::new(changed.into()));
    assert_eq!(Durable::of(&repeated), Durable::of(&rig.partition));
}
