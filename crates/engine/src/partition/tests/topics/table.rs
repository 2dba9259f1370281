//! The table of message states applies to a copy in a subscription as well; more can happen to a copy.

use super::super::rig::{abandon, dead_letter, defer, message};
use super::super::table::{At, HAPPENINGS, Happening, STATES, TIME_TO_LIVE_MS, expected, place};
use super::rig::{LOCK_MS, Rig, options};
use crate::{
    Command, DEFAULT_RULE, LockToken, NewMessage, QueueId, QueuePath, ReceiveMode, Refusal, Reply,
    SequenceNumber, Settlement, SubQueue, SubscriptionOptions,
};

/// Happenings that exist only with subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    /// The other subscription's copy is completed.
    OtherCompleted,
    OtherDeleted,
    /// The rule that matched the message.
    RuleRemoved,
    /// The options are declared again.
    Updated,
    Deleted,
}

const AROUND: [Around; 5] =
    [Around::OtherCompleted, Around::OtherDeleted, Around::RuleRemoved, Around::Updated, Around::Deleted];

/// Message 1 of a subscription, and another subscription with the same message.
struct Copy {
    rig: Rig,
    queue: QueueId,
    other: QueueId,
    /// The last lock token.
    token: LockToken,
}

fn many_deliveries() -> SubscriptionOptions {
    SubscriptionOptions { max_delivery_count: 100, ..options() }
}

impl Copy {
    /// Brings a new copy into a state.
    fn at(at: At) -> Self {
        let mut rig = Rig::plain();
        let [queue, other] =
            ["a", "b"].map(|name| rig.try_subscribe(name, many_deliveries(), Vec::new()).unwrap());
        rig.send(NewMessage { time_to_live_ms: Some(TIME_TO_LIVE_MS), ..message("x") });
        let mut copy = Self { rig, queue, other, token: LockToken(77) };
        if at != At::Active {
            copy.token = copy.lock(SubQueue::Main).unwrap();
        }
        match at {
            At::Active | At::Locked => {}
            At::Gone => copy.settle(Settlement::Complete).unwrap(),
            At::Deferred | At::DeferredLocked => copy.settle(defer()).unwrap(),
            At::Dead | At::DeadLocked | At::DeadDeferred | At::DeadDeferredLocked => {
                copy.settle(dead_letter("bad")).unwrap();
            }
            At::Scheduled => panic!("scheduled messages are their topic's"),
        }
        if matches!(at, At::DeadLocked | At::DeadDeferred | At::DeadDeferredLocked) {
            copy.token = copy.lock(SubQueue::DeadLetter).unwrap();
        }
        if matches!(at, At::DeadDeferred | At::DeadDeferredLocked) {
            copy.settle(defer()).unwrap();
        }
        match at {
            At::DeferredLocked => copy.token = copy.by_number(SubQueue::Main).unwrap(),
            At::DeadDeferredLocked => copy.token = copy.by_number(SubQueue::DeadLetter).unwrap(),
            _ => {}
        }
        copy
    }

    fn lock(&mut self, sub_queue: SubQueue) -> Option<LockToken> {
        let (_, lock) = self.rig.take(self.queue, sub_queue, ReceiveMode::PeekLock)?;
        lock.map(|lock| lock.token)
    }

    fn by_number(&mut self, sub_queue: SubQueue) -> Result<LockToken, Refusal> {
        let (numbers, mode) = (vec![SequenceNumber(1)], ReceiveMode::PeekLock);
        let source = QueuePath { queue: self.queue, sub_queue };
        match self.rig.ask(Command::ReceiveDeferred {
            numbers,
            source,
            mode,
            receiver: None,
            bytes_max: usize::MAX,
        }) {
            Reply::Received(received) => received.map(|received| received[0].1.unwrap().token),
            other => panic!("{other:?}"),
        }
    }

    fn settle(&mut self, settlement: Settlement) -> Result<(), Refusal> {
        self.rig.settle(self.queue, self.token, settlement)
    }

    fn renew(&mut self) -> bool {
        let command = Command::RenewLocks { queue: self.queue, tokens: vec![self.token] };
        matches!(self.rig.ask(command), Reply::Renewed(Ok(_)))
    }

    /// Makes it happen; returns whether the partition accepted it.
    fn happen(&mut self, happening: Happening) -> bool {
        match happening {
            Happening::Receive => self.lock(SubQueue::Main).is_some(),
            Happening::ReceiveAndDelete => {
                self.rig.take(self.queue, SubQueue::Main, ReceiveMode::ReceiveAndDelete).is_some()
            }
            Happening::ReceiveFromDeadLetters => self.lock(SubQueue::DeadLetter).is_some(),
            Happening::ReceiveByNumber => self.by_number(SubQueue::Main).is_ok(),
            Happening::ReceiveByNumberFromDeadLetters => self.by_number(SubQueue::DeadLetter).is_ok(),
            Happening::Complete => self.settle(Settlement::Complete).is_ok(),
            Happening::Abandon => self.settle(abandon()).is_ok(),
            Happening::Defer => self.settle(defer()).is_ok(),
            Happening::DeadLetter => self.settle(dead_letter("worse")).is_ok(),
            Happening::Release => self.settle(Settlement::Release).is_ok(),
            Happening::Renew => self.renew(),
            Happening::Cancel => {
                let numbers = vec![SequenceNumber(1)];
                self.rig.done(Command::CancelScheduled { numbers }).is_ok()
            }
            Happening::LockEnds => {
                self.rig.advance(LOCK_MS);
                true
            }
            Happening::Expires => {
                // The holder of a lock renews it meanwhile.
                for _ in 0..3 {
                    self.rig.advance(LOCK_MS - 1);
                    self.renew();
                }
                self.rig.advance(3);
                self.lock(SubQueue::Main);
                true
            }
            Happening::Restart => {
                self.rig.restart();
                true
            }
        }
    }

    fn happen_around(&mut self, around: Around) {
        let (queue, other) = (self.queue, self.other);
        match around {
            Around::OtherCompleted => {
                self.rig.complete_one(other);
            }
            Around::OtherDeleted => self.rig.done(Command::DeleteSubscription { queue: other }).unwrap(),
            Around::RuleRemoved => {
                self.rig.done(Command::RemoveRule { queue, name: DEFAULT_RULE.into() }).unwrap();
            }
            Around::Updated => {
                let options = SubscriptionOptions { lock_duration_ms: LOCK_MS * 2, ..many_deliveries() };
                let (name, rules) = ("a".into(), Vec::new());
                self.rig
                    .done(Command::DeclareSubscription {
                        intent: crate::Intent::Declare,
                        queue,
                        name,
                        options,
                        rules,
                    })
                    .unwrap();
            }
            Around::Deleted => self.rig.done(Command::DeleteSubscription { queue }).unwrap(),
        }
    }

    /// Its state, and its number of failed deliveries.
    fn observe(&mut self) -> (At, u32) {
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            let seen = self.rig.try_peek(self.queue, sub_queue).unwrap_or_default().pop();
            if let Some(view) = seen {
                let queue = self.rig.partition.state.queue(self.queue).unwrap();
                let locked = queue.messages.get(sub_queue).is_locked(view.sequence_number);
                return (place(&view, locked), view.delivery_count);
            }
        }
        (At::Gone, 0)
    }
}

fn states() -> impl Iterator<Item = At> {
    STATES.into_iter().filter(|at| *at != At::Scheduled)
}

#[test]
fn every_state_of_a_copy_answers_every_happening_as_the_table_says() {
    for at in states() {
        for happening in HAPPENINGS {
            let mut copy = Copy::at(at);
            let (before, count) = copy.observe();
            assert_eq!(before, at);
            let accepted = copy.happen(happening);
            let (after, grown) = match expected(at, happening) {
                Some((At::Gone, _)) => (At::Gone, 0),
                Some((after, more)) => (after, count + more),
                None => (at, count),
            };
            assert_eq!(copy.observe(), (after, grown), "{at:?} × {happening:?}");
            let passive = [Happening::LockEnds, Happening::Expires, Happening::Restart, Happening::Renew];
            if !passive.contains(&happening) {
                assert_eq!(accepted, expected(at, happening).is_some(), "{at:?} × {happening:?}");
            }
            if !matches!(happening, Happening::Expires) {
                assert!(copy.rig.take_one(copy.other).is_some(), "the other copy is untouched");
            }
        }
    }
}

#[test]
fn a_copy_changes_its_state_only_with_its_own_subscription() {
    for at in states() {
        for around in AROUND {
            let mut copy = Copy::at(at);
            let before = copy.observe();
            copy.happen_around(around);
            let after = if around == Around::Deleted { (At::Gone, 0) } else { before };
            assert_eq!(copy.observe(), after, "{at:?} × {around:?}");
            let locked = [At::Locked, At::DeferredLocked, At::DeadLocked, At::DeadDeferredLocked];
            let settled = locked.contains(&at) && around != Around::Deleted;
            assert_eq!(copy.settle(Settlement::Complete).is_ok(), settled, "{at:?} × {around:?}");
        }
    }
}
