//! A call writes a bounded number of bytes: it is one batch of the store.

use peeklock_storage::Batch;

use super::rig::{ID, LOCK_MS, QUEUE, Rig, message, options, path, with_ttl};
use super::rig_sessions::{of_with_ttl, with_sessions};
use crate::partition::persist;
use crate::partition::properties::HEADER_BYTES_MAX;
use crate::partition::step::{REWRITTEN_BYTES_MAX, TIMER_BYTES_PER_CALL_MAX};
use crate::{
    Command, DeadLetter, Event, LockToken, MessageAction, NewMessage, Property, QueueOptions, ReceiveMode,
    Refusal, Reply, SequenceNumber, Settlement, SubQueue, Timestamp,
};

const COUNT: usize = 60;
const LIFE_MS: u64 = 10 * LOCK_MS;
/// Room for keys, counters and the fixed parts of the records of one call.
const FIXED_BYTES: usize = 8 << 10;

/// Nearly as many bytes of properties as a message may have.
fn large() -> Vec<Property> {
    vec![Property { name: "p".into(), value: vec![7; HEADER_BYTES_MAX - 1024].into() }]
}

fn bytes(events: &[Event]) -> usize {
    let mut batch = Batch::new();
    persist(ID, events, &mut batch);
    batch.value_bytes()
}

/// Ticks until nothing is due, at least twice.
fn run_out(rig: &mut Rig) {
    let mut calls = 0;
    while rig.partition.next_deadline().is_some_and(|at| at <= rig.now) {
        rig.handle(None, Command::Tick);
        let written = bytes(&rig.events);
        let most = TIMER_BYTES_PER_CALL_MAX + HEADER_BYTES_MAX + FIXED_BYTES;
        assert!(written <= most, "{written} bytes in one call");
        assert!(written > 0, "each call gets on");
        calls += 1;
    }
    assert!(calls > 2, "{calls} calls");
}

/// A rig with messages that have large changed properties.
fn with_messages(options: QueueOptions, message: &NewMessage) -> Rig {
    let mut rig = Rig::new(options);
    rig.try_send(vec![message.clone(); COUNT]).unwrap();
    for token in take_all(&mut rig) {
        rig.settle(token, Settlement::Abandon { modify: large() }).unwrap();
    }
    rig
}

fn take_all(rig: &mut Rig) -> Vec<LockToken> {
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, COUNT as u64);
    taken.into_iter().map(|(_, lock)| lock.unwrap().token).collect()
}

#[test]
fn locks_that_end_together() {
    let mut rig = with_messages(options(), &message("a"));
    assert_eq!(take_all(&mut rig).len(), COUNT);
    rig.now = rig.now.plus_ms(LOCK_MS);
    run_out(&mut rig);
    assert_eq!(rig.take(SubQueue::Main, ReceiveMode::PeekLock, 99).len(), COUNT);
}

#[test]
fn hold_backs_that_end_together() {
    let mut rig = with_messages(options(), &message("a"));
    let until = rig.now.plus_ms(LOCK_MS);
    for token in take_all(&mut rig) {
        rig.settle(token, Settlement::Postpone { modify: Vec::new(), until }).unwrap();
    }
    rig.now = until;
    run_out(&mut rig);
    assert_eq!(take_all(&mut rig).len(), COUNT);
}

#[test]
fn messages_that_expire_together() {
    let options = QueueOptions { dead_lettering_on_message_expiration: true, ..options() };
    let mut rig = with_messages(options, &with_ttl("a", LIFE_MS));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.now = rig.now.plus_ms(LIFE_MS);
    rig.credit(receiver, 1, false);
    assert!(bytes(&rig.events) <= TIMER_BYTES_PER_CALL_MAX + HEADER_BYTES_MAX + FIXED_BYTES);
    run_out(&mut rig);
    assert_eq!(rig.counts(), (0, COUNT as u64, 0));
}

#[test]
fn messages_of_a_session_whose_lock_ends_and_that_expire_together() {
    let options = QueueOptions { dead_lettering_on_message_expiration: true, ..with_sessions() };
    let mut rig = Rig::new(options);
    rig.try_send(vec![of_with_ttl("s", "a", LIFE_MS); COUNT]).unwrap();
    let (receiver, tokens) = rig.accept_and_take("s", COUNT as u64);
    for token in tokens {
        rig.settle(token, Settlement::Abandon { modify: large() }).unwrap();
    }
    assert_eq!(rig.take_in_session(receiver, 2 * COUNT as u64).len(), COUNT);
    rig.now = rig.now.plus_ms(LOCK_MS);
    run_out(&mut rig);
    rig.close(receiver);
    rig.now = Timestamp(1_000_000 + LIFE_MS);
    let receiver = rig.accept("s");
    rig.credit(receiver, 1, false);
    run_out(&mut rig);
    assert_eq!(rig.counts(), (0, COUNT as u64, 0));
}

/// Locked messages with large properties, some more than a call may rewrite.
fn more_than_a_call_rewrites() -> (Rig, Vec<LockToken>) {
    let count = REWRITTEN_BYTES_MAX / large()[0].value.len() + 2;
    let mut rig = Rig::new(QueueOptions { max_size_bytes: u64::MAX, ..options() });
    rig.try_send(vec![message("a"); count]).unwrap();
    for _ in 0..2 {
        let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, count as u64);
        let tokens: Vec<_> = taken.into_iter().map(|(_, lock)| lock.unwrap().token).collect();
        if rig.peek(SubQueue::Main)[0].modified.is_some() {
            return (rig, tokens);
        }
        let settlement = Settlement::Abandon { modify: large() };
        rig.handle(None, Command::Settle { queue: QUEUE, tokens: tokens.into(), settlement });
    }
    panic!("nothing is modified");
}

#[test]
fn a_settlement_of_more_than_a_call_rewrites_is_refused_for_the_rest() {
    let (mut rig, tokens) = more_than_a_call_rewrites();
    let count = tokens.len();
    let settlement = Settlement::Abandon { modify: Vec::new() };
    let settle = Command::Settle { queue: QUEUE, tokens: tokens.clone().into(), settlement };
    let Reply::Settled(failures) = rig.ask(settle) else { panic!() };
    assert!(bytes(&rig.events) <= REWRITTEN_BYTES_MAX + 64 * count);
    let failed: Vec<_> = failures.iter().map(|failure| failure.index).collect();
    assert!(!failed.is_empty() && failed.len() < 5, "{failed:?}");
    assert!(failures.iter().all(|failure| failure.refusal == Refusal::MemoryShort));
    rig.settle(tokens[failed[0]], Settlement::Complete).unwrap();
}

#[test]
fn an_action_on_more_than_a_call_rewrites_is_refused() {
    let (mut rig, tokens) = more_than_a_call_rewrites();
    let settlement = Settlement::Release;
    rig.handle(None, Command::Settle { queue: QUEUE, tokens: tokens.clone().into(), settlement });
    let act = |count: usize| Command::ActOnMessages {
        source: path(SubQueue::Main),
        numbers: (1..=count as u64).map(SequenceNumber).collect(),
        action: MessageAction::DeadLetter(DeadLetter::default().into()),
    };
    assert!(matches!(rig.ask(act(tokens.len())), Reply::Done(Err(Refusal::InvalidArgument(_)))));
    assert_eq!(rig.ask(act(100)), Reply::Done(Ok(())));
}
