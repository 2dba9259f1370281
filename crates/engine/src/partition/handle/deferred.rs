//! `ReceiveDeferred`: by number, all or none (S-40, S-41).
//!
//! Deferred messages don't expire by themselves (S-36). One that is requested after its time-to-live expires then, and is
//! not found: "once they are expired and you try to receive them, they will be moved to the DLQ at that time"
//! (azure-sdk-for-net 30252, confirmed by the service's team). It is dropped if the queue does not dead-letter expired
//! messages.

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::step::Step;
use super::check_numbers;
use super::key_partition::{is_quarantined, named};
use crate::{
    Lock, MessageState, MessageView, QueueId, QueuePath, RECEIVE_DEFERRED_BYTES_MAX, ReceiveMode, ReceiverId,
    Refusal, Reply, RequestId, SequenceNumber, SessionId, SubQueue,
};

impl Step<'_> {
    pub(in crate::partition) fn receive_deferred(
        &mut self,
        request: Option<RequestId>,
        numbers: &[SequenceNumber],
        (source, receiver): (QueuePath, Option<ReceiverId>),
        mode: ReceiveMode,
        bytes_max: usize,
    ) {
        self.count_visits(numbers.len());
        let received = self.find_deferred(numbers, (source, receiver), bytes_max).map(|records| {
            let take = |(number, record): &_| self.take_deferred(source.queue, *number, record, mode);
            records.iter().map(take).collect()
        });
        self.reply(request, Reply::Received(received));
    }

    fn find_deferred(
        &mut self,
        numbers: &[SequenceNumber],
        (source, receiver): (QueuePath, Option<ReceiverId>),
        bytes_max: usize,
    ) -> Result<Vec<(SequenceNumber, Record)>, Refusal> {
        check_numbers(numbers)?;
        let queue = self.readable(source)?;
        let session = self.session_for_deferred(source, receiver)?;
        let look_up = |shown: &SequenceNumber| deferred(queue, source, session.as_ref(), *shown);
        let mut found: Vec<_> = numbers.iter().map(look_up).collect();
        if source.sub_queue == SubQueue::Main {
            self.expire_found(source.queue, &mut found);
        }
        let queue = self.readable(source)?;
        let or_refusal = |(shown, found): (&SequenceNumber, Option<_>)| match found {
            Some(found) => Ok(found),
            None if is_quarantined(queue, *shown) => Err(Refusal::MessageDamaged(shown.0)),
            None => Err(Refusal::DeferredNotFound(shown.0)),
        };
        let records: Vec<_> = numbers.iter().zip(found).map(or_refusal).collect::<Result<_, _>>()?;
        let bytes: u64 = records.iter().map(|(_, record)| u64::from(record.content_bytes())).sum();
        if records.len() > 1 && bytes > RECEIVE_DEFERRED_BYTES_MAX as u64 {
            return Err(Refusal::InvalidArgument(format!(
                "The messages take {bytes} bytes; at most {RECEIVE_DEFERRED_BYTES_MAX} are returned at once: request fewer."
            )));
        }
        if records.len() > 1 && bytes > bytes_max as u64 {
            return Err(Refusal::MemoryShort);
        }
        Ok(records)
    }

    /// Ends those of the requested messages that have expired, up to the limits of one call; they are not found any more.
    fn expire_found(&mut self, queue: QueueId, found: &mut [Option<(SequenceNumber, Record)>]) {
        for found in found {
            if let Some((number, record)) = found.take_if(|(_, record)| record.expires_at() <= self.now)
                && self.may_expire()
            {
                self.count_expiry(&record);
                self.expire(queue, number, record, None);
            }
        }
    }

    /// The session whose messages may be received; `None` for any, if there are no sessions.
    fn session_for_deferred(
        &self,
        source: QueuePath,
        receiver: Option<ReceiverId>,
    ) -> Result<Option<SessionId>, Refusal> {
        if self.sessions(source.queue).is_none() || source.sub_queue != SubQueue::Main {
            return Ok(None);
        }
        self.session_held_by(source.queue, receiver.ok_or(Refusal::SessionLockLost)?).map(Some)
    }

    fn take_deferred(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        record: &Record,
        mode: ReceiveMode,
    ) -> (MessageView, Option<Lock>) {
        let view = record.view(queue, number);
        (view, Some(self.lock(queue, number, record.sub_queue(), (None, mode))))
    }
}

/// The deferred message with a number as shown to clients, unless it is locked or of another session than `session`.
fn deferred(
    queue: &Queue,
    source: QueuePath,
    session: Option<&SessionId>,
    shown: SequenceNumber,
) -> Option<(SequenceNumber, Record)> {
    let messages = queue.messages.get(source.sub_queue);
    let (number, record) = named(shown, |number| messages.get(number))?;
    let is_available = record.state() == MessageState::Deferred
        && !messages.is_locked(number)
        && session.is_none_or(|session| record.is_of_session(session));
    is_available.then(|| (number, record.clone()))
}
