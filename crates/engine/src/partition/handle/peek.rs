//! `Peek`: browses in order of number and changes nothing. Includes active (locked or not), deferred (S-39) and scheduled
//! messages, and expired ones that are not removed yet.

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::step::Step;
use super::super::unfinished::{Unfinished, VISITS_PER_CALL_MAX};
use super::key_partition::is_quarantined;
use crate::{
    Lock, MessageView, QueueId, QueuePath, Refusal, Reply, RequestId, SequenceNumber, SessionId, SubQueue,
};

/// Maximum number of messages per request, whatever the client asks for; it continues with the last number + 1.
const PEEK_COUNT_MAX: u32 = 4096;

/// The rest of a `Peek` of one session.
#[derive(Debug)]
pub struct SessionBrowsing {
    source: QueuePath,
    session: SessionId,
    /// The internal number at which it continues.
    from: SequenceNumber,
    count_max: usize,
    bytes_max: usize,
}

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
        let messages = queue.messages.get(source.sub_queue);
        let views = match (session.map(SessionId::from), &queue.sessions) {
            (None, _) => show(queue.id, messages.range(from), count_max, bytes_max),
            (Some(session), Some(sessions)) if source.sub_queue == SubQueue::Main => {
                let numbers = sessions.get(&session).into_iter().flat_map(|session| session.numbers(from));
                let of_session = numbers.filter_map(|number| Some((number, messages.get(number)?)));
                show(queue.id, of_session, count_max, bytes_max)
            }
            (Some(session), _) => {
                let browsing = SessionBrowsing { source, session, from, count_max, bytes_max };
                return self.continue_browsing(request, browsing);
            }
        };
        self.count_visits(views.len());
        self.reply(request, Reply::Received(Ok(views)));
    }

    /// Only the main queue of an entity with sessions has an index by session; in other sub-queues, all messages are visited. A
    /// page that is not empty ends with the call, as if its size were used up.
    pub(in crate::partition) fn continue_browsing(
        &mut self,
        request: Option<RequestId>,
        browsing: SessionBrowsing,
    ) {
        let queue = match self.browsable(browsing.source.queue) {
            Ok(queue) => queue,
            Err(refusal) => return self.reply(request, Reply::Received(Err(refusal))),
        };
        let (mut visits, mut last) = (0, browsing.from);
        let messages = queue.messages.get(browsing.source.sub_queue).range(browsing.from);
        let of_session = messages.take(VISITS_PER_CALL_MAX).filter(|(number, record)| {
            (visits, last) = (visits + 1, *number);
            record.is_of_session(&browsing.session)
        });
        let views = show(queue.id, of_session, browsing.count_max, browsing.bytes_max);
        self.count_visits(visits);
        if views.is_empty() && visits >= VISITS_PER_CALL_MAX {
            let from = SequenceNumber(last.0.saturating_add(1));
            return self.interrupt(request, Unfinished::Peek(SessionBrowsing { from, ..browsing }));
        }
        self.reply(request, Reply::Received(Ok(views)));
    }
}

impl Step<'_> {
    /// A queue or subscription, or a topic, whose browsable messages are those scheduled on it (azure-service-bus 352), and
    /// its transfer dead letters.
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
