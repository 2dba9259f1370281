//! Removal of unprocessed messages: expiry, failed delivery, dead-lettering.
//!
//! When a lock ends, the checks are in this order: expired → removed or dead-lettered (S-6, S-20); maximum delivery count
//! reached → dead-lettered; otherwise it is available again at its original position.

use std::sync::Arc;

use super::locks::LockedMessage;
use super::policy::Policy;
use super::reasons::Reason;
use super::record::Record;
use super::step::Step;
use crate::event::{Change, Event, Removal};
use crate::{LockToken, MessageState, QueueId, SequenceNumber, SubQueue};

impl Step<'_> {
    /// Ends a lock after a failed delivery; `record` contains the receiver's changes, but not the failure yet.
    pub(super) fn fail_delivery(
        &mut self,
        token: LockToken,
        held: LockedMessage,
        mut record: Record,
        change: Change,
    ) {
        count_failure(&mut record, held.sub_queue);
        let LockedMessage { queue, number, sub_queue: from, .. } = held;
        let lock = Some(token);
        let policy = self.policy(queue);
        if record.expiry() <= self.now {
            record.hold_back(None);
            self.expire(queue, number, record, lock);
        } else if reaches_maximum(&policy, from, &record) {
            record.hold_back(None);
            mark(&mut record, policy.reasons.deliveries_exceeded());
            self.dead_letter(queue, number, from, record, lock);
        } else {
            self.emit(Event::Changed { queue, number, from, record, lock, change });
        }
    }

    /// Ends a lock of a message that was released: no failed delivery.
    pub(super) fn release(&mut self, token: LockToken, held: LockedMessage, record: Record) {
        if record.expiry() <= self.now {
            self.expire(held.queue, held.number, record, Some(token));
        } else {
            self.emit(Event::Released { token });
        }
    }

    /// Ends an expired message of the main queue, and its lock if it has one.
    pub(super) fn expire(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        mut record: Record,
        lock: Option<LockToken>,
    ) {
        let policy = self.policy(queue);
        if policy.dead_lettering_on_message_expiration {
            mark(&mut record, policy.reasons.expired());
            self.dead_letter(queue, number, SubQueue::Main, record, lock);
        } else {
            self.remove(queue, number, SubQueue::Main, &record, Removal::Expired(lock));
        }
    }

    /// Moves a message whose record has the reason already to the dead-letter queue, in one event, so never partially (S-22).
    /// It keeps its number, times and delivery count (inferred: no source says that they are reset).
    pub(super) fn dead_letter(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        from: SubQueue,
        mut record: Record,
        lock: Option<LockToken>,
    ) {
        record.set_place(SubQueue::DeadLetter, MessageState::Active);
        let change = Change::DeadLettered;
        self.emit(Event::Changed { queue, number, from, record, lock, change });
    }

    /// Removes a message, and its body if nothing else refers to it.
    pub(super) fn remove(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        sub_queue: SubQueue,
        record: &Record,
        removal: Removal,
    ) {
        let body = Some(record.body(number)).filter(|body| self.state().is_last_reference(*body));
        self.emit(Event::Removed { queue, number, sub_queue, body, removal });
    }
}

/// Counts a failed delivery. In a dead-letter queue the count stays as it was when the message was moved there
/// (azure-sdk-for-net 53437; azure-sdk-for-js, `batchReceiver.spec.ts`, "Abandon a message received from dead letter queue").
pub(super) fn count_failure(record: &mut Record, sub_queue: SubQueue) {
    if sub_queue == SubQueue::Main {
        record.count_failed_delivery();
    }
}

/// Whether the last counted failure was that of the last allowed delivery. A dead-letter queue has no maximum.
pub(super) fn reaches_maximum(policy: &Policy, sub_queue: SubQueue, record: &Record) -> bool {
    sub_queue == SubQueue::Main && record.delivery_count() >= policy.max_delivery_count
}

/// Sets the reason; messages without other optional fields share one allocation for it.
pub(super) fn mark(record: &mut Record, reason: &Reason) {
    if record.extra().is_none() {
        record.set_extra(Some(Arc::clone(&reason.extra)));
    } else {
        record.edit_extra(|extra| extra.dead_letter = Some(Arc::clone(&reason.dead_letter)));
    }
}
