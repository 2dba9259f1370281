//! `Peek`: browses in order of number and changes nothing. Shows what is active (locked or not), deferred (S-39) and
//! scheduled, and what is past its expiry but not collected yet.

use super::super::step::Step;
use crate::{QueuePath, Reply, RequestId, SequenceNumber};

/// Messages shown at most, whatever is asked: a reader comes back with the last number + 1.
const PEEK_COUNT_MAX: u32 = 4096;

impl Step<'_> {
    pub(in crate::partition) fn peek(
        &mut self,
        request: Option<RequestId>,
        from: SequenceNumber,
        count_max: u32,
        bytes_max: usize,
        source: QueuePath,
        _session: Option<Box<str>>,
    ) {
        let queue = match self.readable(source.queue) {
            Ok(queue) => queue,
            Err(refusal) => return self.reply(request, Reply::Received(Err(refusal))),
        };
        let count_max = count_max.min(PEEK_COUNT_MAX) as usize;
        let mut total_bytes = 0_usize;
        let mut views = Vec::new();
        for (number, record) in queue.messages.get(source.sub_queue).range(from) {
            total_bytes = total_bytes.saturating_add(record.content_bytes() as usize);
            if views.len() >= count_max || (total_bytes > bytes_max && !views.is_empty()) {
                break;
            }
            views.push((record.view(source.queue, number), None));
        }
        self.reply(request, Reply::Received(Ok(views)));
    }
}
