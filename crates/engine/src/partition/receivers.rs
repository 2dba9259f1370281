//! Open receivers: how much each may still get, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::per_sub_queue::PerSubQueue;
use super::selection::Selections;
use crate::{CreditLimit, ReceiveMode, ReceiverId, ReceiverOptions, SubQueue};

/// One open receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiver {
    /// What it reads and how.
    pub(super) options: ReceiverOptions,
    /// What it got since it was opened.
    delivered: CreditLimit,
    limit: CreditLimit,
    /// Whether what was left of the credit is void until it gets a new limit.
    is_drained: bool,
    /// Whether it takes turns with others; a session's holder does not.
    competes: bool,
}

impl Receiver {
    /// Whether its peer asked for more messages: then it makes the queue's time-to-live effective (S-3).
    pub(super) const fn has_credit(&self) -> bool {
        self.delivered.messages < self.limit.messages
    }

    /// Messages for which it has credit left.
    pub(super) const fn credit(&self) -> u64 {
        self.limit.messages.saturating_sub(self.delivered.messages)
    }

    /// Whether it may get a message now.
    pub(super) const fn can_be_served(&self) -> bool {
        self.has_credit() && self.delivered.bytes < self.limit.bytes
    }
}

/// All open receivers of a partition.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    open: BTreeMap<ReceiverId, Receiver>,
    /// Those that can be served, in the order in which they are: round-robin.
    queue: PerSubQueue<VecDeque<ReceiverId>>,
    /// How many have credit.
    active: PerSubQueue<usize>,
    /// Messages that those have credit for, forwarders apart.
    credit: u64,
    draining: BTreeSet<ReceiverId>,
    /// Those with a selector: they take no turns with the others.
    pub(super) selections: Selections,
    /// Drains of receivers with credit that wait for a session. There may be thousands, and none can end before its receiver
    /// has one.
    parked: BTreeSet<ReceiverId>,
}

impl Receivers {
    /// Receivers in order of id, behind one.
    pub(super) fn after(&self, after: Option<ReceiverId>) -> impl Iterator<Item = (ReceiverId, &Receiver)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.open.range((from, Bound::Unbounded)).map(|(id, receiver)| (*id, receiver))
    }

    /// Whether none has credit or drains: then nothing follows from what happens to messages.
    pub(super) fn are_quiet(&self) -> bool {
        self.draining.is_empty()
            && [SubQueue::Main, SubQueue::DeadLetter, SubQueue::TransferDeadLetter]
                .into_iter()
                .all(|sub_queue| !self.is_active(sub_queue))
    }

    /// Whether a sub-queue has an active listener: a receiver with credit left (S-3; bytes play no part).
    pub(super) fn is_active(&self, sub_queue: SubQueue) -> bool {
        *self.active.get(sub_queue) > 0
    }

    /// Messages for which they have credit left, those that forward apart.
    pub(super) const fn credit(&self) -> u64 {
        self.credit
    }

    /// Whose turn it is, and how it takes messages.
    pub(super) fn next(&self, sub_queue: SubQueue) -> Option<(ReceiverId, ReceiveMode)> {
        let receiver = *self.queue.get(sub_queue).front()?;
        Some((receiver, self.open.get(&receiver)?.options.mode))
    }

    /// One that is open.
    pub(super) fn get(&self, receiver: ReceiverId) -> Option<&Receiver> {
        self.open.get(&receiver)
    }

    /// A draining receiver whose drain is complete: its credit is used up, or `is_dry` says that nothing is left for it
    /// in its sub-queue.
    pub(super) fn next_drained(&self, is_dry: impl Fn(ReceiverId, SubQueue) -> bool) -> Option<ReceiverId> {
        self.draining.iter().copied().find(|id| {
            self.open.get(id).is_some_and(|receiver| {
                !receiver.has_credit() || is_dry(*id, receiver.options.source.sub_queue)
            })
        })
    }

    /// Those that read by themselves where somebody forwards.
    pub(super) fn others_than_forwarders(&self, is_forwarded: impl Fn(SubQueue) -> bool) -> Vec<ReceiverId> {
        let others = self.open.iter().filter(|(_, receiver)| {
            receiver.options.mode != ReceiveMode::Forward && is_forwarded(receiver.options.source.sub_queue)
        });
        others.map(|(id, _)| *id).collect()
    }

    /// Adds a receiver without credit; one that does not compete is served by whoever knows what it gets.
    pub(super) fn open(&mut self, receiver: ReceiverId, options: ReceiverOptions, competes: bool) {
        let (delivered, limit) = (CreditLimit::default(), CreditLimit::default());
        self.open.insert(receiver, Receiver { options, delivered, limit, is_drained: false, competes });
    }

    /// A receiver has a selector: it is served what matches.
    pub(super) fn select(&mut self, id: ReceiverId) {
        let Some(receiver) = self.open.get_mut(&id) else { return };
        receiver.competes = false;
        let sub_queue = receiver.options.source.sub_queue;
        self.queue.get_mut(sub_queue).retain(|queued| *queued != id);
        self.selections.add(id, sub_queue);
    }

    /// Sets how far a receiver may be served.
    pub(super) fn set_limit(&mut self, receiver: ReceiverId, limit: CreditLimit, drain: bool) {
        self.change(receiver, |receiver| {
            receiver.limit = limit;
            receiver.is_drained = false;
        });
        if drain && self.open.contains_key(&receiver) {
            self.draining.insert(receiver);
        } else {
            self.draining.remove(&receiver);
        }
    }

    /// A receiver waits for a session: a drain of what it asks for is not looked at until [`Self::unpark`].
    pub(super) fn park(&mut self, receiver: ReceiverId) {
        self.parked.remove(&receiver);
        if self.open.get(&receiver).is_some_and(Receiver::has_credit) && self.draining.remove(&receiver) {
            self.parked.insert(receiver);
        }
    }

    /// A receiver waits no longer.
    pub(super) fn unpark(&mut self, receiver: ReceiverId) {
        if self.parked.remove(&receiver) {
            self.draining.insert(receiver);
        }
    }

    /// Counts a delivery; the receiver's next turn comes after everybody else's.
    pub(super) fn served(&mut self, receiver: ReceiverId, content_bytes: u64) {
        if let Some(open) = self.open.get(&receiver) {
            let queue = self.queue.get_mut(open.options.source.sub_queue);
            if queue.front() == Some(&receiver) {
                queue.rotate_left(1);
            }
        }
        self.change(receiver, |receiver| {
            receiver.delivered.messages = receiver.delivered.messages.saturating_add(1);
            receiver.delivered.bytes = receiver.delivered.bytes.saturating_add(content_bytes);
        });
    }

    /// Takes a delivery back that never reached its receiver. Credit that a drain has made void stays void.
    pub(super) fn not_served(&mut self, receiver: ReceiverId, content_bytes: u64) {
        self.change(receiver, |receiver| {
            receiver.delivered.messages = receiver.delivered.messages.saturating_sub(1);
            receiver.delivered.bytes = receiver.delivered.bytes.saturating_sub(content_bytes);
            if receiver.is_drained {
                receiver.limit.messages = receiver.limit.messages.saturating_sub(1);
            }
        });
    }

    /// Ends a drain: the rest of the credit is void.
    pub(super) fn drained(&mut self, receiver: ReceiverId) {
        self.change(receiver, |receiver| {
            receiver.limit.messages = receiver.delivered.messages;
            receiver.is_drained = true;
        });
        self.draining.remove(&receiver);
    }

    /// Removes a receiver.
    pub(super) fn close(&mut self, receiver: ReceiverId) {
        self.change(receiver, |receiver| receiver.limit = CreditLimit::default());
        self.draining.remove(&receiver);
        self.parked.remove(&receiver);
        self.selections.remove(receiver);
        self.open.remove(&receiver);
    }

    /// Changes a receiver's counts and keeps the queue and the number of active ones true.
    fn change(&mut self, id: ReceiverId, change: impl FnOnce(&mut Receiver)) {
        let Some(receiver) = self.open.get_mut(&id) else { return };
        let before = *receiver;
        change(receiver);
        let after = *receiver;
        let sub_queue = after.options.source.sub_queue;
        let active = self.active.get_mut(sub_queue);
        match (before.has_credit(), after.has_credit()) {
            (false, true) => *active += 1,
            (true, false) => *active -= 1,
            _ => {}
        }
        if after.options.mode != ReceiveMode::Forward {
            // Limits are totals and may be as large as a number gets: the sum wraps, and comes back.
            self.credit = self.credit.wrapping_add(after.credit()).wrapping_sub(before.credit());
        }
        if !after.competes {
            return;
        }
        let queue = self.queue.get_mut(sub_queue);
        match (before.can_be_served(), after.can_be_served()) {
            (false, true) => queue.push_back(id),
            (true, false) if queue.back() == Some(&id) => {
                queue.pop_back();
            }
            (true, false) => queue.retain(|queued| *queued != id),
            _ => {}
        }
    }
}
