//! `Settle`: complete, abandon (at once or with a delay), defer, dead-letter, release; each token on its own.
//!
//! Possession of the token is enough to settle, on any link or connection. An expired message can be settled in every way as
//! long as its lock holds (S-5, S-7, S-21).

use std::sync::Arc;

use super::super::ending::{count_failure, mark, reaches_maximum};
use super::super::locks::LockedMessage;
use super::super::properties::{HEADER_BYTES_MAX, exceeds_header, merged};
use super::super::record::Record;
use super::super::step::Step;
use crate::event::{Change, Event, Removal};
use crate::{
    DeadLetter, LockToken, MessageState, Properties, Property, QueueId, Refusal, Reply, RequestId,
    SettleFailure, Settlement, SubQueue, Timestamp,
};

impl Step<'_> {
    pub(in crate::partition) fn settle(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        tokens: &[LockToken],
        settlement: &Settlement,
    ) {
        self.count_visits(tokens.len());
        let mut failures = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            if let Err(refusal) = self.settle_one(queue, *token, settlement) {
                failures.push(SettleFailure { index, refusal });
            }
        }
        self.reply(request, Reply::Settled(failures));
    }

    /// A refused settlement leaves the lock as it is.
    fn settle_one(
        &mut self,
        queue: QueueId,
        token: LockToken,
        settlement: &Settlement,
    ) -> Result<(), Refusal> {
        let (held, mut record) = self.check_settlement(queue, token, settlement)?;
        self.count_rewritten(&record, settlement)?;
        if let Settlement::DeadLetter { why, .. } = settlement
            && held.sub_queue != SubQueue::Main
        {
            self.set_aside(token, held, record, why);
            return Ok(());
        }
        if !self.modify(token, held, &mut record, settlement) {
            return Ok(());
        }
        match settlement {
            Settlement::Complete => {
                self.remove(queue, held.number, held.sub_queue, &record, Removal::Completed(token));
            }
            Settlement::Abandon { modify } => {
                let change = if modify.is_empty() { Change::Returned } else { Change::ReturnedModified };
                self.fail_delivery(token, held, record, change);
            }
            Settlement::Postpone { until, .. } => self.postpone(token, held, record, *until),
            Settlement::Defer { .. } => self.defer(token, held, record),
            Settlement::DeadLetter { why, .. } => {
                record.edit_extra(|extra| extra.dead_letter = Some(Arc::clone(why)));
                self.dead_letter(queue, held.number, held.sub_queue, record, Some(token));
            }
            Settlement::Release => self.release(token, held, record),
        }
        Ok(())
    }

    /// Refuses to rewrite more than fits into one batch of the store; the receiver may repeat the settlement.
    fn count_rewritten(&mut self, record: &Record, settlement: &Settlement) -> Result<(), Refusal> {
        if matches!(settlement, Settlement::Complete | Settlement::Release) {
            return Ok(());
        }
        let left = self.rewritten_bytes_left.checked_sub(record.variable_bytes());
        self.rewritten_bytes_left = left.ok_or(Refusal::MemoryShort)?;
        Ok(())
    }

    /// The locked message, if this settlement is possible.
    pub(in crate::partition) fn check_settlement(
        &self,
        queue: QueueId,
        token: LockToken,
        settlement: &Settlement,
    ) -> Result<(LockedMessage, Record), Refusal> {
        // A message that never reached its receiver can be released whatever the status is.
        if *settlement != Settlement::Release {
            self.check_receive_allowed(queue)?;
        }
        let held = self.held(queue, token)?;
        let message = self.state().record(held.queue, held.sub_queue, held.number);
        let record = message.ok_or(Refusal::MessageLockLost)?.clone();
        if held.sub_queue != SubQueue::Main {
            if matches!(settlement, Settlement::DeadLetter { .. }) {
                // Only a forwarder, whose locks don't end, may do this: it found no target for the message.
                let forwards = held.until == Timestamp::NEVER && held.sub_queue == SubQueue::DeadLetter;
                return if forwards { Ok((held, record)) } else { Err(Refusal::AlreadyDeadLettered) };
            }
            if modified(&record, settlement).is_err() {
                return Err(Refusal::InvalidArgument(format!(
                    "The modified properties would make the message's header larger than {HEADER_BYTES_MAX} bytes."
                )));
            }
        }
        Ok((held, record))
    }

    /// The lock with this token, if it belongs to this queue and has not ended.
    pub(in crate::partition) fn held(
        &self,
        queue: QueueId,
        token: LockToken,
    ) -> Result<LockedMessage, Refusal> {
        match self.state().locks.get(token, self.now).filter(|held| held.queue == queue) {
            Some(held) if !held.in_session => Ok(held),
            held => self.held_in_session(queue, held),
        }
    }

    /// Applies a receiver's property changes, unless they make the header too large: then the message is dead-lettered without
    /// them. In a dead-letter queue, that was refused before.
    fn modify(
        &mut self,
        token: LockToken,
        held: LockedMessage,
        record: &mut Record,
        settlement: &Settlement,
    ) -> bool {
        match modified(record, settlement) {
            Ok(None) => true,
            Ok(Some(modified)) => {
                record.edit_extra(|extra| extra.modified = Some(Arc::new(modified)));
                true
            }
            Err(HeaderTooLarge) => {
                mark(record, self.policy(held.queue).reasons.header_size_exceeded());
                self.dead_letter(held.queue, held.number, held.sub_queue, record.clone(), Some(token));
                false
            }
        }
    }

    /// Moves a dead letter that can't be forwarded to the transfer dead-letter queue. It keeps its dead-letter reason, if it
    /// has one: receivers may dead-letter without.
    fn set_aside(
        &mut self,
        token: LockToken,
        held: LockedMessage,
        mut record: Record,
        why: &Arc<DeadLetter>,
    ) {
        let present = record.extra().and_then(|extra| extra.dead_letter.as_deref());
        if present.is_none_or(|why| why.reason.is_none() && why.description.is_none()) {
            record.edit_extra(|extra| extra.dead_letter = Some(Arc::clone(why)));
        }
        record.set_place(SubQueue::TransferDeadLetter, MessageState::Active);
        let LockedMessage { queue, number, sub_queue: from, .. } = held;
        let (lock, change) = (Some(token), Change::DeadLettered);
        self.emit(Event::Changed { queue, number, from, record, lock, change });
    }

    /// Counts a failed delivery and holds the message back at its place, unless it expires or reaches the maximum delivery
    /// count.
    fn postpone(&mut self, token: LockToken, held: LockedMessage, mut record: Record, until: Timestamp) {
        if until > self.now && record.state() == MessageState::Active {
            record.hold_back(Some(until));
        }
        self.fail_delivery(token, held, record, Change::ReturnedModified);
    }

    /// Counts a failed delivery and sets the message aside (S-34, S-40), unless it reaches the maximum delivery count
    /// (azure-service-bus 375). Expiry has no effect on it (S-36).
    fn defer(&mut self, token: LockToken, held: LockedMessage, mut record: Record) {
        let LockedMessage { queue, number, sub_queue: from, .. } = held;
        count_failure(&mut record, from);
        let policy = self.policy(queue);
        let change = if reaches_maximum(&policy, from, &record) {
            mark(&mut record, policy.reasons.deliveries_exceeded());
            record.set_place(SubQueue::DeadLetter, MessageState::Active);
            Change::DeferralDeadLettered
        } else {
            record.set_place(from, MessageState::Deferred);
            Change::Deferred
        };
        let lock = Some(token);
        self.emit(Event::Changed { queue, number, from, record, lock, change });
    }
}

/// The changed properties would exceed the header's limit.
struct HeaderTooLarge;

/// The properties changed by receivers, including this settlement; `None` if it changes none.
fn modified(record: &Record, settlement: &Settlement) -> Result<Option<Properties>, HeaderTooLarge> {
    let (modify, why) = changes(settlement);
    if modify.is_empty() && why.is_none() {
        return Ok(None);
    }
    let modified = merged(record.modified().map_or(&[], |modified| modified.as_slice()), modify);
    if exceeds_header(record.extra().map(Arc::as_ref), &modified, why) {
        return Err(HeaderTooLarge);
    }
    Ok((!modify.is_empty()).then_some(modified))
}

/// The property changes and the dead-letter reason of a settlement.
fn changes(settlement: &Settlement) -> (&[Property], Option<&DeadLetter>) {
    match settlement {
        Settlement::Complete | Settlement::Release => (&[], None),
        Settlement::Abandon { modify }
        | Settlement::Postpone { modify, .. }
        | Settlement::Defer { modify } => (modify, None),
        Settlement::DeadLetter { why, modify } => (modify, Some(why)),
    }
}
