//! Every state of a message × every happening, as one table.

use super::rig::{LOCK_MS, QUEUE, Rig, abandon, dead_letter, defer, message, options, path};
use crate::{
    Command, LockToken, MessageState, MessageView, NewMessage, QueueOptions, ReceiveMode, Refusal, Reply,
    SequenceNumber, Settlement, SubQueue,
};

/// The state of message 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Gone,
    Active,
    Locked,
    Deferred,
    DeferredLocked,
    Scheduled,
    Dead,
    DeadLocked,
    DeadDeferred,
    DeadDeferredLocked,
}

pub(super) const STATES: [At; 10] = [
    At::Gone,
    At::Active,
    At::Locked,
    At::Deferred,
    At::DeferredLocked,
    At::Scheduled,
    At::Dead,
    At::DeadLocked,
    At::DeadDeferred,
    At::DeadDeferredLocked,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happening {
    Receive,
    ReceiveAndDelete,
    ReceiveFromDeadLetters,
    ReceiveByNumber,
    ReceiveByNumberFromDeadLetters,
    Complete,
    Abandon,
    Defer,
    DeadLetter,
    Release,
    Renew,
    Cancel,
    LockEnds,
    Expires,
    Restart,
}

pub(super) const HAPPENINGS: [Happening; 15] = [
    Happening::Receive,
    Happening::ReceiveAndDelete,
    Happening::ReceiveFromDeadLetters,
    Happening::ReceiveByNumber,
    Happening::ReceiveByNumberFromDeadLetters,
    Happening::Complete,
    Happening::Abandon,
    Happening::Defer,
    Happening::DeadLetter,
    Happening::Release,
    Happening::Renew,
    Happening::Cancel,
    Happening::LockEnds,
    Happening::Expires,
    Happening::Restart,
];

/// Time to live of message 1: longer than a lock, so that the two can be distinguished.
pub(super) const TIME_TO_LIVE_MS: u64 = LOCK_MS * 3;
const SCHEDULED_AFTER_MS: u64 = LOCK_MS * 10;

/// The state after a happening, and the increase of the delivery count; `None` if nothing changes.
pub(super) fn expected(at: At, happening: Happening) -> Option<(At, u32)> {
    use At::{
        Active, Dead, DeadDeferred, DeadDeferredLocked, DeadLocked, Deferred, DeferredLocked, Gone, Locked,
    };
    match (at, happening) {
        (Active, Happening::Receive) => Some((Locked, 0)),
        (Active, Happening::ReceiveAndDelete | Happening::Expires) => Some((Gone, 0)),
        (Dead, Happening::ReceiveFromDeadLetters) => Some((DeadLocked, 0)),
        (Deferred, Happening::ReceiveByNumber) => Some((DeferredLocked, 0)),
        (DeadDeferred, Happening::ReceiveByNumberFromDeadLetters) => Some((DeadDeferredLocked, 0)),

        (Locked | DeferredLocked | DeadLocked | DeadDeferredLocked, Happening::Complete) => Some((Gone, 0)),
        (Locked | DeferredLocked, Happening::Defer) => Some((Deferred, 1)),
        (DeadLocked | DeadDeferredLocked, Happening::Defer) => Some((DeadDeferred, 0)),
        (Locked | DeferredLocked, Happening::DeadLetter) => Some((Dead, 0)),

        (Locked, Happening::Abandon | Happening::LockEnds) => Some((Active, 1)),
        (DeferredLocked, Happening::Abandon | Happening::LockEnds) => Some((Deferred, 1)),
        (DeadLocked, Happening::Abandon | Happening::LockEnds) => Some((Dead, 0)),
        (DeadDeferredLocked, Happening::Abandon | Happening::LockEnds) => Some((DeadDeferred, 0)),

        (Locked, Happening::Release | Happening::Restart) => Some((Active, 0)),
        (DeferredLocked, Happening::Release | Happening::Restart) => Some((Deferred, 0)),
        (DeadLocked, Happening::Release | Happening::Restart) => Some((Dead, 0)),
        (DeadDeferredLocked, Happening::Release | Happening::Restart) => Some((DeadDeferred, 0)),

        (At::Scheduled, Happening::Cancel) => Some((Gone, 0)),
        _ => None,
    }
}

/// Brings a new message into a state; returns the last lock token, if any, as the second value.
pub(super) fn reach(at: At) -> (Rig, LockToken) {
    // The message must not be removed by a lock that ends after its time to live.
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 100, ..options() });
    let mut token = LockToken(77);
    let scheduled_enqueue_time = (at == At::Scheduled).then(|| rig.now.plus_ms(SCHEDULED_AFTER_MS));
    let time_to_live_ms = Some(TIME_TO_LIVE_MS);
    rig.send(NewMessage { scheduled_enqueue_time, time_to_live_ms, ..message("a") });
    let lock = |rig: &mut Rig, sub_queue| rig.take_one_from(sub_queue).unwrap().1;
    if !matches!(at, At::Active | At::Scheduled) {
        token = lock(&mut rig, SubQueue::Main);
    }
    match at {
        At::Active | At::Scheduled | At::Locked => {}
        At::Gone => rig.settle(token, Settlement::Complete).unwrap(),
        At::Deferred | At::DeferredLocked => rig.settle(token, defer()).unwrap(),
        At::Dead | At::DeadLocked | At::DeadDeferred | At::DeadDeferredLocked => {
            rig.settle(token, dead_letter("bad")).unwrap();
        }
    }
    if matches!(at, At::DeadLocked | At::DeadDeferred | At::DeadDeferredLocked) {
        token = lock(&mut rig, SubQueue::DeadLetter);
    }
    if matches!(at, At::DeadDeferred | At::DeadDeferredLocked) {
        rig.settle(token, defer()).unwrap();
    }
    match at {
        At::DeferredLocked => token = by_number(&mut rig, SubQueue::Main).unwrap(),
        At::DeadDeferredLocked => token = by_number(&mut rig, SubQueue::DeadLetter).unwrap(),
        _ => {}
    }
    (rig, token)
}

fn by_number(rig: &mut Rig, sub_queue: SubQueue) -> Result<LockToken, Refusal> {
    let numbers = vec![SequenceNumber(1)];
    let command = Command::ReceiveDeferred {
        numbers,
        source: path(sub_queue),
        mode: ReceiveMode::PeekLock,
        receiver: None,
        bytes_max: usize::MAX,
    };
    match rig.ask(command) {
        Reply::Received(received) => received.map(|received| received[0].1.unwrap().token),
        other => panic!("{other:?}"),
    }
}

/// Makes it happen; returns whether the partition accepted it.
pub(super) fn happen(rig: &mut Rig, token: LockToken, happening: Happening) -> bool {
    match happening {
        Happening::Receive => rig.take_one().is_some(),
        Happening::ReceiveAndDelete => !rig.take(SubQueue::Main, ReceiveMode::ReceiveAndDelete, 1).is_empty(),
        Happening::ReceiveFromDeadLetters => rig.take_one_from(SubQueue::DeadLetter).is_some(),
        Happening::ReceiveByNumber => by_number(rig, SubQueue::Main).is_ok(),
        Happening::ReceiveByNumberFromDeadLetters => by_number(rig, SubQueue::DeadLetter).is_ok(),
        Happening::Complete => rig.settle(token, Settlement::Complete).is_ok(),
        Happening::Abandon => rig.settle(token, abandon()).is_ok(),
        Happening::Defer => rig.settle(token, defer()).is_ok(),
        Happening::DeadLetter => rig.settle(token, dead_letter("worse")).is_ok(),
        Happening::Release => rig.settle(token, Settlement::Release).is_ok(),
        Happening::Renew => {
            matches!(
                rig.ask(Command::RenewLocks { queue: QUEUE, tokens: vec![token] }),
                Reply::Renewed(Ok(_))
            )
        }
        Happening::Cancel => {
            let numbers = vec![SequenceNumber(1)];
            rig.ask(Command::CancelScheduled { numbers }) == Reply::Done(Ok(()))
        }
        Happening::LockEnds => {
            rig.advance(LOCK_MS);
            true
        }
        Happening::Expires => {
            // The holder of a lock renews it meanwhile.
            rig.advance(LOCK_MS - 1);
            rig.ask(Command::RenewLocks { queue: QUEUE, tokens: vec![token] });
            rig.advance(LOCK_MS - 1);
            rig.ask(Command::RenewLocks { queue: QUEUE, tokens: vec![token] });
            rig.advance(LOCK_MS - 1);
            rig.ask(Command::RenewLocks { queue: QUEUE, tokens: vec![token] });
            rig.advance(3);
            rig.take_one();
            true
        }
        Happening::Restart => {
            rig.restart();
            true
        }
    }
}

/// The state of a message.
pub(super) fn place(view: &MessageView, locked: bool) -> At {
    match (view.sub_queue, view.state, locked) {
        (SubQueue::Main, MessageState::Active, false) => At::Active,
        (SubQueue::Main, MessageState::Active, true) => At::Locked,
        (SubQueue::Main, MessageState::Deferred, false) => At::Deferred,
        (SubQueue::Main, MessageState::Deferred, true) => At::DeferredLocked,
        (SubQueue::Main, MessageState::Scheduled, _) => At::Scheduled,
        (_, MessageState::Active, false) => At::Dead,
        (_, MessageState::Active, true) => At::DeadLocked,
        (_, MessageState::Deferred, false) => At::DeadDeferred,
        (_, MessageState::Deferred, true) => At::DeadDeferredLocked,
        (_, MessageState::Scheduled, _) => panic!("scheduled in a dead-letter queue"),
    }
}

/// The state of message 1, and its number of failed deliveries.
pub(super) fn observe(rig: &mut Rig) -> (At, u32) {
    for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
        if let Some(view) = rig.peek(sub_queue).pop() {
            let locked = rig.partition.state.entity.messages.get(sub_queue).is_locked(view.sequence_number);
            return (place(&view, locked), view.delivery_count);
        }
    }
    (At::Gone, 0)
}

#[test]
fn every_state_answers_every_happening_as_the_table_says() {
    for at in STATES {
        for happening in HAPPENINGS {
            let (mut rig, token) = reach(at);
            let (before, count) = observe(&mut rig);
            assert_eq!(before, at);
            let accepted = happen(&mut rig, token, happening);
            let (after, grown) = match expected(at, happening) {
                Some((At::Gone, _)) => (At::Gone, 0),
                Some((after, more)) => (after, count + more),
                None => (at, count),
            };
            assert_eq!(observe(&mut rig), (after, grown), "{at:?} × {happening:?}");
            let passive = [Happening::LockEnds, Happening::Expires, Happening::Restart];
            if !passive.contains(&happening) && happening != Happening::Renew {
                assert_eq!(accepted, expected(at, happening).is_some(), "{at:?} × {happening:?}");
            }
            if happening == Happening::Renew {
                let locked = [At::Locked, At::DeferredLocked, At::DeadLocked, At::DeadDeferredLocked];
                assert_eq!(accepted, locked.contains(&at), "{at:?} × {happening:?}");
            }
        }
    }
}
