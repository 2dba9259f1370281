//! Deletion of idle queues: S-25 to S-32.

use super::rig::{QUEUE, Rig, message, options};
use crate::{
    Command, CreditLimit, Effect, Event, NewMessage, QueueOptions, ReceiveMode, Refusal, Reply, Settlement,
    SubQueue, Timestamp,
};

const IDLE_MS: u64 = 300_000;

fn temporary() -> Rig {
    let mut rig = Rig::new(QueueOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..options() });
    rig.advance(0);
    rig
}

/// Advances the time, one tick at a time as the runtime would; true if the queue ended.
fn idles(rig: &mut Rig, ms: u64) -> bool {
    let end = rig.now.plus_ms(ms);
    loop {
        let next = rig.partition.next_deadline().filter(|at| *at <= end);
        rig.now = next.unwrap_or(end).max(rig.now);
        let effects = rig.handle(None, Command::Tick);
        if effects.contains(&Effect::Ended(crate::End::Idle)) {
            return true;
        }
        if next.is_none() {
            return false;
        }
    }
}

#[test]
fn s26_an_unused_queue_ends_after_the_whole_duration_and_not_before() {
    let mut rig = temporary();
    assert!(!idles(&mut rig, IDLE_MS - 1));
    assert!(idles(&mut rig, 1));
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn s29_without_the_option_a_queue_lives_for_ever_and_notes_nothing() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    assert!(rig.events.iter().all(|event| !matches!(event, Event::Used { .. })));
    assert!(!idles(&mut rig, u64::MAX / 2));
}

#[test]
fn s25_a_deleted_entity_refuses_every_command_and_detaches_its_links() {
    let mut rig = temporary();
    rig.send(message("a"));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let watcher = crate::ReceiverId(77);
    rig.handle(None, Command::Watch { watcher, queue: QUEUE, sends: false });
    rig.now = rig.now.plus_ms(IDLE_MS);
    let effects = rig.handle(None, Command::Tick);
    let closed = |receiver| Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted };
    assert_eq!(effects, [closed(receiver), closed(watcher), Effect::Ended(crate::End::Idle)]);
    assert_eq!(rig.try_send(vec![message("b")]), Err(Refusal::EntityDeleted));
    let open = Command::OpenReceiver {
        receiver: crate::ReceiverId(78),
        options: crate::ReceiverOptions {
            source: super::rig::path(SubQueue::Main),
            mode: ReceiveMode::PeekLock,
        },
        session: None,
    };
    assert_eq!(rig.ask(open), Reply::Opened(Err(Refusal::EntityDeleted)));
    assert!(!idles(&mut rig, IDLE_MS * 3), "only once");
}

#[test]
fn s26_a_command_that_comes_at_the_very_end_is_refused() {
    let mut rig = temporary();
    rig.now = rig.now.plus_ms(IDLE_MS);
    assert_eq!(rig.try_send(vec![message("late")]), Err(Refusal::EntityDeleted));
}

/// A use, and its name in a failure.
type Use = (&'static str, fn(&mut Rig));

#[test]
fn s30_sends_receives_peeks_settlements_and_updates_start_the_time_anew() {
    let uses: [Use; 6] = [
        ("send", |rig| {
            rig.send(message("b"));
        }),
        ("receive", |rig| {
            rig.take_one().unwrap();
        }),
        ("receive without result", |rig| {
            rig.take_one_from(SubQueue::DeadLetter);
        }),
        ("peek", |rig| {
            rig.peek(SubQueue::Main);
        }),
        ("peek at dead letters", |rig| {
            rig.peek(SubQueue::DeadLetter);
        }),
        ("update", |rig| {
            let changed =
                QueueOptions { max_delivery_count: 3, auto_delete_on_idle_ms: Some(IDLE_MS), ..options() };
            rig.change_options(changed);
        }),
    ];
    for (name, use_it) in uses {
        let mut rig = temporary();
        rig.send(message("a"));
        assert!(!idles(&mut rig, IDLE_MS - 1), "{name}");
        use_it(&mut rig);
        assert!(!idles(&mut rig, IDLE_MS - 1), "{name}");
        assert!(idles(&mut rig, 1), "{name}");
    }
}

#[test]
fn s30_settling_is_part_of_receiving() {
    let mut rig = Rig::new(QueueOptions { auto_delete_on_idle_ms: Some(1000), ..options() });
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    assert!(!idles(&mut rig, 999));
    assert_eq!(rig.settle(token, Settlement::Complete), Ok(()));
    assert!(!idles(&mut rig, 999));
    assert!(idles(&mut rig, 1));
}

#[test]
fn s30_a_listener_keeps_a_queue_and_its_leaving_starts_the_time() {
    let mut rig = temporary();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    assert!(!idles(&mut rig, IDLE_MS * 10));
    rig.handle(None, Command::CloseReceiver { receiver });
    assert!(!idles(&mut rig, IDLE_MS - 1));
    assert!(idles(&mut rig, 1));
}

#[test]
fn s30_a_listener_whose_credit_is_used_up_listens_no_longer() {
    let mut rig = temporary();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::ReceiveAndDelete);
    rig.credit(receiver, 1, false);
    assert!(!idles(&mut rig, IDLE_MS * 2));
    rig.send(message("a"));
    assert!(!idles(&mut rig, IDLE_MS - 1), "delivering was a use");
    assert!(idles(&mut rig, 1));
}

#[test]
fn s30_a_pending_scheduled_message_keeps_a_queue_and_its_activation_is_a_use() {
    let mut rig = temporary();
    let at = rig.now.plus_ms(IDLE_MS * 5);
    rig.send(NewMessage { scheduled_enqueue_time: Some(at), ..message("later") });
    assert!(!idles(&mut rig, IDLE_MS * 5));
    assert_eq!(rig.counts(), (1, 0, 0));
    assert!(!idles(&mut rig, IDLE_MS - 1));
    assert!(idles(&mut rig, 1));
}

#[test]
fn attaching_without_asking_for_messages_is_no_use() {
    let mut rig = temporary();
    assert!(!idles(&mut rig, IDLE_MS - 1));
    rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.handle(None, Command::Watch { watcher: crate::ReceiverId(50), queue: QUEUE, sends: false });
    assert!(idles(&mut rig, 1));
}

#[test]
fn a_restart_neither_cuts_the_time_short_nor_starts_it_anew() {
    let mut rig = temporary();
    assert!(!idles(&mut rig, IDLE_MS / 2));
    rig.send(message("a"));
    assert!(!idles(&mut rig, IDLE_MS / 2));
    rig.restart();
    let used_at = rig.now.0 - IDLE_MS / 2;
    let end = rig.partition.next_deadline().unwrap();
    assert!(end <= Timestamp(used_at + IDLE_MS), "not anew");
    assert!(end >= Timestamp(used_at + IDLE_MS - 60_000), "at most a minute is lost");
}

#[test]
fn a_restart_under_a_listener_loses_at_most_a_minute_of_its_use() {
    let mut rig = temporary();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    assert!(!idles(&mut rig, IDLE_MS * 7));
    let killed_at = rig.now;
    rig.restart();
    assert!(rig.partition.next_deadline().unwrap() >= killed_at.plus_ms(IDLE_MS - 60_000));
}

#[test]
fn a_restart_under_a_listener_loses_no_second_minute_if_it_came_before_its_use_was_stored() {
    let mut rig = temporary();
    assert!(!idles(&mut rig, 59_999));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    assert!(!idles(&mut rig, 59_998));
    let killed_at = rig.now;
    rig.restart();
    assert!(rig.partition.next_deadline().unwrap() >= killed_at.plus_ms(IDLE_MS - 60_000));
}

#[test]
fn use_is_stored_coarsely() {
    let mut rig = temporary();
    let mut stored = 0;
    for _ in 0..600 {
        rig.now = rig.now.plus_ms(1000);
        rig.send(message("a"));
        stored += rig.events.iter().filter(|event| matches!(event, Event::Used { stored: true, .. })).count();
    }
    assert_eq!(stored, 10, "once a minute in ten minutes");
    rig.now = rig.now.plus_ms(1);
    let limit = CreditLimit { messages: 1, bytes: 0 };
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.handle(None, Command::Credit { receiver, limit, drain: false });
    assert!(rig.events.iter().any(|event| matches!(event, Event::Used { stored: false, .. })));
}
