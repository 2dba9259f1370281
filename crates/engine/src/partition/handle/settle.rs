//! `Settle`: complete, abandon, defer, dead-letter, release; each token on its own.
//!
//! Whoever has the token may settle, on whatever link or connection. An expired message can be settled in every way
//! as long as its lock holds (S-5, S-7, S-21).

use std::sync::Arc;

use super::super::locks::Held;
use super::super::properties::{check_dead_letter, merged};
use super::super::record::Record;
use super::super::step::Step;
use crate::event::{Change, Event, Removal};
use crate::{
    DeadLetter, LockToken, MessageState, Properties, QueueId, Refusal, Reply, RequestId, SettleFailure,
    Settlement, SubQueue,
};

impl Step<'_> {
    pub(in crate::partition) fn settle(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        tokens: &[LockToken],
        settlement: &Settlement,
    ) {
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
        let held = self.held(queue, token)?;
        let message = self.state().record(held.queue, held.sub_queue, held.number);
        let record = message.ok_or(Refusal::MessageLockLost)?.clone();
        match settlement {
            Settlement::Complete => {
                self.remove(queue, held.number, held.sub_queue, &record, Removal::Completed(token));
            }
            Settlement::Abandon { modify } => self.abandon(token, held, record, modify)?,
            Settlement::Defer { modify } => self.defer(token, held, record, modify)?,
            Settlement::DeadLetter { why, modify } => {
                self.dead_letter_by_receiver(token, held, record, why, modify)?;
            }
            Settlement::Release => self.release(token, held, record),
        }
        Ok(())
    }

    /// The lock of this name, if it was taken in this queue and has not ended.
    pub(in crate::partition) fn held(&self, queue: QueueId, token: LockToken) -> Result<Held, Refusal> {
        match self.state().locks.get(token, self.now).filter(|held| held.queue == queue) {
            Some(held) if !held.in_session => Ok(held),
            held => self.held_in_session(queue, held),
        }
    }

    fn abandon(
        &mut self,
        token: LockToken,
        held: Held,
        mut record: Record,
        modify: &Properties,
    ) -> Result<(), Refusal> {
        modify_properties(&mut record, modify)?;
        let change = if modify.is_empty() { Change::Returned } else { Change::ReturnedModified };
        self.fail_delivery(token, held, record, change);
        Ok(())
    }

    /// Counts as a failed delivery, but never dead-letters: the receiver wants to keep the message (S-34, S-40).
    fn defer(
        &mut self,
        token: LockToken,
        held: Held,
        mut record: Record,
        modify: &Properties,
    ) -> Result<(), Refusal> {
        modify_properties(&mut record, modify)?;
        record.count_failed_delivery();
        record.set_place(held.sub_queue, MessageState::Deferred);
        let Held { queue, number, sub_queue: from, .. } = held;
        let (lock, change) = (Some(token), Change::Deferred);
        self.emit(Event::Changed { queue, number, from, record, lock, change });
        Ok(())
    }

    fn dead_letter_by_receiver(
        &mut self,
        token: LockToken,
        held: Held,
        mut record: Record,
        why: &Arc<DeadLetter>,
        modify: &Properties,
    ) -> Result<(), Refusal> {
        if held.sub_queue != SubQueue::Main {
            return Err(Refusal::AlreadyDeadLettered);
        }
        check_dead_letter(why)?;
        modify_properties(&mut record, modify)?;
        record.edit_extra(|extra| extra.dead_letter = Some(Arc::clone(why)));
        self.dead_letter(held.queue, held.number, held.sub_queue, record, Some(token));
        Ok(())
    }
}

/// Merges what a receiver changed over what receivers changed before.
fn modify_properties(record: &mut Record, modify: &Properties) -> Result<(), Refusal> {
    if !modify.is_empty() {
        let modified = merged(record.modified().map_or(&[], |modified| modified.as_slice()), modify)?;
        record.edit_extra(|extra| extra.modified = Some(Arc::new(modified)));
    }
    Ok(())
}
