//! The only writer of [`State`]: total, without clock, randomness or errors. An event about a missing object changes nothing.

use std::sync::Arc;

use super::Record;
use super::duplicates::Remembered;
use super::locks::LockedMessage;
use super::policy::Policy;
use super::queue::Queue;
use super::selection::SelectionChange;
use super::state::{State, Watched};
use crate::event::{Deletion, Event, Removal};
use crate::{
    CreditLimit, EntityOptions, LockToken, QueueId, ReceiveMode, ReceiverId, ReceiverOptions, SequenceNumber,
    SubQueue, Timestamp,
};

impl State {
    /// Applies `event` to the state.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Accepted { number, record, .. } => {
                self.refer(record.body(*number), 1, record.content_bytes());
                self.insert(self.entity.id, *number, record.clone());
            }
            Event::Activated { scheduled, number, record } => {
                self.remove(self.entity.id, SubQueue::Main, *scheduled);
                self.insert(self.entity.id, *number, record.clone());
            }
            Event::Changed { queue, number, from, record, lock, .. } => {
                self.end_lock(*lock);
                self.change(*queue, *number, *from, record);
            }
            Event::Removed { queue, number, sub_queue, removal, .. } => {
                self.remove_with_body(*queue, *number, *sub_queue, *removal);
            }
            Event::Deleted(deletion) => self.delete(deletion),
            Event::Locked { queue, number, sub_queue, token, until, receiver, in_session, counts } => {
                self.count_delivery(*receiver, *queue, *sub_queue, *number);
                self.set_lock(*queue, *sub_queue, *number, Some(*token));
                let (queue, sub_queue, number) = (*queue, *sub_queue, *number);
                let (receiver, until, in_session, counts) = (*receiver, *until, *in_session, *counts);
                let held = LockedMessage { queue, sub_queue, number, receiver, until, in_session, counts };
                self.locks.insert(*token, held);
            }
            Event::Renewed { token, until } => self.locks.prolong(*token, *until),
            Event::Released { token } => self.end_lock(Some(*token)),
            Event::ReceiverOpened { receiver, options } => self.open(*receiver, *options),
            Event::CreditSet { receiver, limit, drain } => self.set_credit(*receiver, *limit, *drain),
            Event::CreditDrained { receiver } => self.drained(*receiver),
            Event::Selection { receiver, change } => self.change_selection(*receiver, change),
            Event::ReceiverClosed { receiver } => self.close(*receiver),
            Event::Watched { watcher, queue, sends } => {
                self.watchers.insert(*watcher, Watched { queue: *queue, sends: *sends });
            }
            Event::Used { queue, at, stored } => {
                if let Some(queue) = self.queue_mut(*queue) {
                    queue.used_at = *at;
                    if *stored {
                        queue.used_at_stored = *at;
                    }
                }
            }
            Event::Remembered { .. } | Event::Forgotten { .. } => self.apply_to_duplicates(event),
            Event::OptionsChanged { options } => self.change_options(options),
            Event::Ended => self.ended = true,
            Event::BodyKept { body, .. } => self.tombstone_stored(*body),
            Event::TombstoneRemoved { queue, number, .. } => self.remove_tombstone(*queue, *number),
            Event::Quarantined { .. } | Event::NotDelivered { .. } => self.apply_damage(event),
            Event::NumbersReserved { next } => self.reserve_numbers(*next),
            Event::Published(published) => self.published(published),
            Event::SubscriptionSet(subscription) => self.set_subscription(subscription),
            Event::SubscriptionRemoved { queue, .. } => self.remove_subscription(*queue),
            Event::SessionAwaited { .. }
            | Event::SessionNotAwaited { .. }
            | Event::SessionLocked { .. }
            | Event::SessionTaken { .. }
            | Event::SessionRenewed { .. }
            | Event::SessionUnlocked { .. }
            | Event::SessionStateSet { .. } => self.apply_to_sessions(event),
        }
    }

    fn change_options(&mut self, options: &Arc<EntityOptions>) {
        self.options = Arc::clone(options);
        self.forwarding_changed = true;
        if let Some(entity) = self.queue_mut(self.entity.id) {
            entity.policy = Arc::new(Policy::from(&**options));
            // An update counts as use (S-30, S-31), like a creation: the next processing of the queue records it.
            entity.used_at = Timestamp::default();
        }
    }

    fn apply_to_duplicates(&mut self, event: &Event) {
        let Some(duplicates) = &mut self.duplicates else { return };
        match event {
            Event::Remembered { number, original, key, at } => {
                duplicates.remember(Remembered { key: *key, at: *at, number: *number }, *original);
            }
            Event::Forgotten { last, .. } => duplicates.forget(*last),
            _ => {}
        }
    }

    fn reserve_numbers(&mut self, next: SequenceNumber) {
        self.numbers_reserved = next;
        self.entity.next_number = self.entity.next_number.max(next);
    }

    /// Voids the rest of a receiver's credit.
    fn drained(&mut self, receiver: ReceiverId) {
        if let Some(queue) = self.source_of_mut(receiver) {
            queue.receivers.drained(receiver);
            queue.credit_changed(receiver);
        }
    }

    fn source_of_mut(&mut self, receiver: ReceiverId) -> Option<&mut Queue> {
        self.queue_mut(*self.receiver_queues.get(&receiver)?)
    }

    fn open(&mut self, receiver: ReceiverId, options: ReceiverOptions) {
        if let Some(queue) = self.queue_mut(options.source.queue) {
            let forwards = options.mode == ReceiveMode::Forward;
            let competes = queue.sessions.is_none() || options.source.sub_queue != SubQueue::Main || forwards;
            queue.receivers.open(receiver, options, competes);
            if forwards {
                *queue.forwarders.get_mut(options.source.sub_queue) = Some(receiver);
            }
            self.receiver_queues.insert(receiver, options.source.queue);
        }
    }

    fn remove_tombstone(&mut self, queue: QueueId, number: SequenceNumber) {
        if let Some((body, content_bytes)) = self.tombstones.remove(&(queue, number)) {
            self.unrefer(body, content_bytes);
        }
    }

    fn set_credit(&mut self, receiver: ReceiverId, limit: CreditLimit, drain: bool) {
        if let Some(queue) = self.source_of_mut(receiver) {
            queue.receivers.set_limit(receiver, limit, drain);
            queue.credit_changed(receiver);
            if queue.sessions.as_ref().is_some_and(|sessions| sessions.waiters.get(receiver).is_some()) {
                queue.receivers.park(receiver);
            }
        }
    }

    fn close(&mut self, receiver: ReceiverId) {
        if let Some(queue) = self.source_of_mut(receiver) {
            if let Some(sessions) = &mut queue.sessions {
                sessions.receiver_closed(receiver);
            }
            queue.receivers.close(receiver);
            queue.forwarders.let_go(receiver);
            self.receiver_queues.remove(&receiver);
        }
        self.watchers.remove(&receiver);
    }

    /// Replaces the record of a message, possibly moving it to another sub-queue.
    fn change(&mut self, queue: QueueId, number: SequenceNumber, from: SubQueue, record: &Record) {
        if from != record.sub_queue() {
            self.remove(queue, from, number);
            self.insert(queue, number, record.clone());
        } else {
            self.replace(queue, number, record.clone());
        }
    }

    /// Removes a message, and its body if nothing else refers to it.
    fn remove_with_body(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        sub_queue: SubQueue,
        removal: Removal,
    ) {
        match removal {
            Removal::Completed(token) | Removal::Expired(Some(token)) => {
                self.locks.remove(token);
            }
            Removal::Expired(None) | Removal::Cancelled => {}
        }
        if let Some(record) = self.remove(queue, sub_queue, number) {
            self.unrefer(record.body(number), record.content_bytes());
        }
    }

    /// Removes several messages, none of which is locked.
    fn delete(&mut self, deletion: &Deletion) {
        for number in &deletion.numbers {
            if let Some(record) = self.remove(deletion.queue, deletion.sub_queue, *number) {
                self.unrefer(record.body(*number), record.content_bytes());
            }
        }
    }

    /// Records a delivery to a receiver.
    fn count_delivery(
        &mut self,
        receiver: Option<ReceiverId>,
        queue: QueueId,
        sub_queue: SubQueue,
        number: SequenceNumber,
    ) {
        let (Some(receiver), Some(queue)) = (receiver, self.queue_mut(queue)) else { return };
        let record = queue.messages.get(sub_queue).get(number);
        let content_bytes = record.map_or(0, |record| u64::from(record.content_bytes()));
        queue.receivers.served(receiver, content_bytes);
        queue.receivers.selections.delivered(receiver, number);
        queue.credit_changed(receiver);
    }

    /// Updates a receiver's selection: it has a selector, its owner examines messages, or has examined them.
    fn change_selection(&mut self, receiver: ReceiverId, change: &SelectionChange) {
        let Some(queue) = self.source_of_mut(receiver) else { return };
        match change {
            SelectionChange::Begun => queue.receivers.select(receiver),
            SelectionChange::Shown(numbers) => queue.show(receiver, numbers),
            SelectionChange::Examined(matching) => queue.receivers.selections.examined(receiver, matching),
        }
    }

    /// Takes a message out of delivery, or records that it did not reach its receiver.
    fn apply_damage(&mut self, event: &Event) {
        match event {
            Event::Quarantined { queue, number, sub_queue, lock } => {
                self.end_lock(*lock);
                let record = sub_queue.and_then(|sub_queue| self.remove(*queue, sub_queue, *number));
                if let Some(queue) = self.queue_mut(*queue) {
                    queue.quarantined.insert(*number, record);
                }
            }
            Event::NotDelivered { receiver, content_bytes } => {
                if let Some(queue) = self.source_of_mut(*receiver) {
                    queue.receivers.not_served(*receiver, *content_bytes);
                    queue.credit_changed(*receiver);
                }
            }
            _ => {}
        }
    }

    /// Ends the lock of a message.
    fn end_lock(&mut self, token: Option<LockToken>) {
        if let Some(held) = token.and_then(|token| self.locks.remove(token)) {
            self.set_lock(held.queue, held.sub_queue, held.number, None);
        }
    }
}
