//! `Peek`: browses in order of number and changes nothing. Includes active (locked or not), deferred (S-39) and scheduled
//! messages, and expired ones that are not removed yet.

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::step::Step;
use super::key_partition::is_quarantined;
use crate::{
    Lock, MessageView, QueueId, QueuePath, Refusal, Reply, RequestId, SequenceNumber, SessionId, SubQueue,
};

/// Maximum number of messages per request, whatever the client asks for; it continues with the last number + 1.
const PEEK_COUNT_MAX: u32 = 4096;

impl Step<'_> {
    pub(in crate::partition) fn peek(
        &mut self,
        request: Option<RequestId>,
        from: SequenceNumber,
        count_max: u32,
        bytes_max: usize,
        source: QueuePath,
        session: Option<Box<str>>,
    ) {
        let queue = match self.browsable(source.queue) {
            Ok(queue) => queue,
            Err(refusal) => return self.reply(request, Reply::Received(Err(refusal))),
        };
        // A page skips the damaged message, so that browsing can continue after it.
        if count_max == 1 && is_quarantined(queue, from) {
            return self.reply(request, Reply::Received(Err(Refusal::MessageDamaged(from.0))));
        }
        let from = from.start(self.state().options.is_partitioned());
        let count_max = count_max.min(PEEK_COUNT_MAX) as usize;
        let views = match session {
            None => show(queue.id, queue.messages.get(source.sub_queue).range(from), count_max, bytes_max),
            Some(id) => {
                let id = SessionId::from(id);
                show(queue.id, of_session(queue, source.sub_queue, &id, from), count_max, bytes_max)
            }
        };
        self.reply(request, Reply::Received(Ok(views)));
    }
}

impl Step<'_> {
    /// A queue or subscription, or a topic, whose browsable messages are those scheduled on it (azure-service-bus 352).
    fn browsable(&self, id: QueueId) -> Result<&Queue, Refusal> {
        let queue = self.state().queue(id).ok_or(Refusal::EntityDeleted)?;
        self.check_receive_allowed(id)?;
        Ok(queue)
    }
}

/// The first of the messages, up to both limits.
fn show<'a>(
    queue: QueueId,
    messages: impl Iterator<Item = (SequenceNumber, &'a Record)>,
    count_max: usize,
    bytes_max: usize,
) -> Vec<(MessageView, Option<Lock>)> {
    let mut total_bytes = 0_usize;
    let mut views = Vec::new();
    for (number, record) in messages {
        total_bytes = total_bytes.saturating_add(record.content_bytes() as usize);
        if views.len() >= count_max || (total_bytes > bytes_max && !views.is_empty()) {
            break;
        }
        views.push((record.view(queue, number), None));
    }
    views
}

/// A session's messages from a number on. Only the main queue of an entity with sessions has an index by session; other
/// sub-queues are scanned.
fn of_session<'a>(
    queue: &'a Queue,
    sub_queue: SubQueue,
    id: &'a SessionId,
    from: SequenceNumber,
) -> Box<dyn Iterator<Item = (SequenceNumber, &'a Record)> + 'a> {
    let messages = queue.messages.get(sub_queue);
    match &queue.sessions {
        Some(sessions) if sub_queue == SubQueue::Main => {
            let numbers = sessions.get(id).into_iter().flat_map(move |session| session.numbers(from));
            Box::new(numbers.filter_map(|number| Some((number, messages.get(number)?))))
        }
        _ => Box::new(messages.range(from).filter(move |(_, record)| record.is_of_session(id))),
    }
}
