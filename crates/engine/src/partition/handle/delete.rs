//! `DeleteMessages`: deletes the oldest available messages in one event, without delivering them.
//!
//! Only available messages are visited, in order of their numbers, which is the order in which they were enqueued. So the cost
//! depends on the number of deleted messages, not on the locked, deferred and scheduled ones that stay.

use super::super::queue::Queue;
use super::super::sessions::Sessions;
use super::super::step::Step;
use crate::event::{Deletion, Event};
use crate::{
    DELETE_COUNT_MAX, QueuePath, ReceiverId, Refusal, Reply, RequestId, SequenceNumber, SubQueue, Timestamp,
};

impl Step<'_> {
    pub(in crate::partition) fn delete_messages(
        &mut self,
        request: Option<RequestId>,
        source: QueuePath,
        count_max: u32,
        enqueued_until: Timestamp,
        receiver: Option<ReceiverId>,
    ) {
        let deletion = self.deletion(source, count_max, enqueued_until, receiver);
        let deleted = deletion.map(|deletion| {
            self.count_visits(deletion.numbers.len());
            let count = u32::try_from(deletion.numbers.len()).unwrap_or(count_max);
            if count > 0 {
                self.emit(Event::Deleted(Box::new(deletion)));
            }
            count
        });
        self.reply(request, Reply::Deleted(deleted));
    }

    /// The messages to be deleted.
    fn deletion(
        &self,
        source: QueuePath,
        count_max: u32,
        enqueued_until: Timestamp,
        receiver: Option<ReceiverId>,
    ) -> Result<Deletion, Refusal> {
        if !(1..=DELETE_COUNT_MAX).contains(&count_max) {
            return Err(Refusal::InvalidArgument(format!(
                "The number of messages to delete must be 1 to {DELETE_COUNT_MAX}, not {count_max}."
            )));
        }
        let queue = self.readable(source)?;
        let candidates = self.candidates(queue, source, receiver)?;
        let messages = queue.messages.get(source.sub_queue);
        let (mut numbers, mut bodies) = (Vec::new(), Vec::new());
        for number in candidates {
            let Some(record) = messages.get(number) else { continue };
            // Later messages have later enqueued times.
            if numbers.len() >= count_max as usize || record.enqueued_at() > enqueued_until {
                break;
            }
            numbers.push(number);
            bodies.push(record.body(number));
        }
        let (numbers, bodies) = (numbers.into(), self.state().only_referred_to_by(bodies));
        Ok(Deletion { queue: source.queue, sub_queue: source.sub_queue, numbers, bodies })
    }

    /// Messages that may be deleted, in order of their numbers.
    fn candidates<'a>(
        &self,
        queue: &'a Queue,
        source: QueuePath,
        receiver: Option<ReceiverId>,
    ) -> Result<Box<dyn Iterator<Item = SequenceNumber> + 'a>, Refusal> {
        let sessions = queue.sessions.as_deref().filter(|_| source.sub_queue == SubQueue::Main);
        match (sessions, receiver) {
            (Some(sessions), Some(receiver)) => {
                let id = self.session_held_by(source.queue, receiver)?;
                Ok(Box::new(sessions.get(&id).into_iter().flat_map(|session| session.all_available())))
            }
            (Some(sessions), None) => Ok(Box::new(Sessions::all_available(sessions))),
            (None, Some(_)) => Err(Refusal::SessionNotSupported),
            (None, None) => Ok(Box::new(queue.messages.get(source.sub_queue).all_available())),
        }
    }
}
