//! Open receivers: their credit and their turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::per_sub_queue::PerSubQueue;
use super::selection::Selections;
use crate::{CreditLimit, ReceiveMode, ReceiverId, ReceiverOptions, SubQueue};

/// One open receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiver {
    /// The source and the mode.
    pub(super) options: ReceiverOptions,
    /// Messages and bytes delivered since it was opened.
    delivered: CreditLimit,
    limit: CreditLimit,
    /// Whether the rest of the credit is void until it gets a new limit.
    is_drained: bool,
    /// Whether it takes turns with others; a session's holder does not.
    competes: bool,
}

impl Receiver {
    /// Whether it has message credit left: then it makes the queue's time to live effective (S-3).
    pub(super) const fn has_credit(&self) -> bool {
        self.delivered.messages < self.limit.messages
    }

    /// Remaining credit, in messages.
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
    /// Receivers that can be served, in round-robin order.
    queue: PerSubQueue<VecDeque<ReceiverId>>,
    /// Number of receivers with credit.
    active: PerSubQueue<usize>,
    /// Sum of their remaining credit in messages, without forwarders.
    credit: u64,
    draining: BTreeSet<ReceiverId>,
    /// Receivers with a selector: they take no turns with the others.
    pub(super) selections: Selections,
    /// Drains of receivers with credit that wait for a session. There may be thousands, and none can complete before its
    /// receiver has a session.
    parked: BTreeSet<ReceiverId>,
}

impl Receivers {
    /// Receivers in order of id, after a given one.
    pub(super) fn after(&self, after: Option<ReceiverId>) -> impl Iterator<Item = (ReceiverId, &Receiver)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.open.range((from, Bound::Unbounded)).map(|(id, receiver)| (*id, receiver))
    }

    /// Whether none has credit or drains: then changes of messages have no effect on receivers.
    pub(super) fn are_quiet(&self) -> bool {
        self.draining.is_empty() && SubQueue::ALL.into_iter().all(|sub_queue| !self.is_active(sub_queue))
    }

    /// Whether a sub-queue has an active listener: a receiver with message credit left (S-3; byte limits are ignored).
    pub(super) fn is_active(&self, sub_queue: SubQueue) -> bool {
        *self.active.get(sub_queue) > 0
    }

    /// Sum of the remaining credit in messages, without forwarders.
    pub(super) const fn credit(&self) -> u64 {
        self.credit
    }

    /// The receiver whose turn it is, and its mode.
    pub(super) fn next(&self, sub_queue: SubQueue) -> Option<(ReceiverId, ReceiveMode)> {
        let receiver = *self.queue.get(sub_queue).front()?;
        Some((receiver, self.open.get(&receiver)?.options.mode))
    }

    /// An open receiver.
    pub(super) fn get(&self, receiver: ReceiverId) -> Option<&Receiver> {
        self.open.get(&receiver)
    }

    /// Whether a drain of it is unanswered.
    pub(super) fn is_draining(&self, receiver: ReceiverId) -> bool {
        self.draining.contains(&receiver) || self.parked.contains(&receiver)
    }

    /// A draining receiver whose drain is complete: its credit is used up, in messages or bytes, or `is_dry` reports that no
    /// message is left for it.
    pub(super) fn next_drained(&self, is_dry: impl Fn(ReceiverId, SubQueue) -> bool) -> Option<ReceiverId> {
        self.draining.iter().copied().find(|id| {
            self.open.get(id).is_some_and(|receiver| {
                !receiver.can_be_served() || is_dry(*id, receiver.options.source.sub_queue)
            })
        })
    }

    /// Receivers other than forwarders on sub-queues that are forwarded.
    pub(super) fn others_than_forwarders(&self, is_forwarded: impl Fn(SubQueue) -> bool) -> Vec<ReceiverId> {
        let others = self.open.iter().filter(|(_, receiver)| {
            receiver.options.mode != ReceiveMode::Forward && is_forwarded(receiver.options.source.sub_queue)
        });
        others.map(|(id, _)| *id).collect()
    }

    /// Adds a receiver without credit. One that does not compete is served by its session or its selection.
    pub(super) fn open(&mut self, receiver: ReceiverId, options: ReceiverOptions, competes: bool) {
        let (delivered, limit) = (CreditLimit::default(), CreditLimit::default());
        self.open.insert(receiver, Receiver { options, delivered, limit, is_drained: false, competes });
    }

    /// Marks a receiver as having a selector: it gets matching messages only.
    pub(super) fn select(&mut self, id: ReceiverId) {
        let Some(receiver) = self.open.get_mut(&id) else { return };
        receiver.competes = false;
        let sub_queue = receiver.options.source.sub_queue;
        self.queue.get_mut(sub_queue).retain(|queued| *queued != id);
        self.selections.add(id, sub_queue);
    }

    /// Sets a receiver's credit.
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

    /// Marks a receiver as waiting for a session: its drain is not processed until [`Self::unpark`].
    pub(super) fn park(&mut self, receiver: ReceiverId) {
        self.parked.remove(&receiver);
        if self.open.get(&receiver).is_some_and(Receiver::can_be_served) && self.draining.remove(&receiver) {
            self.parked.insert(receiver);
        }
    }

    /// Ends the waiting of a receiver.
    pub(super) fn unpark(&mut self, receiver: ReceiverId) {
        if self.parked.remove(&receiver) {
            self.draining.insert(receiver);
        }
    }

    /// Counts a delivery and moves the receiver to the end of the round-robin queue.
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

    /// Undoes a delivery that never reached its receiver. Credit that a drain has voided stays void.
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

    /// Changes a receiver's counts and updates the round-robin queue and the sums.
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
            // Limits are totals up to the maximum of the type: the sum may wrap, which later subtractions undo.
            self.credit = self.credit.wrapping_add(after.credit()).wrapping_sub(before.credit());
        }
        if !after.competes {
            if after.can_be_served() {
                self.selections.mark(id);
            }
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
