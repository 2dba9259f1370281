//! `ReceiveDeferred`: by number, all or none (S-40, S-41). Deferred messages do not expire (S-36).

use super::super::record::Record;
use super::super::step::Step;
use super::check_numbers;
use crate::event::Removal;
use crate::{
    Lock, MessageState, MessageView, QueueId, QueuePath, ReceiveMode, ReceiverId, Refusal, Reply, RequestId,
    SequenceNumber,
};

impl Step<'_> {
    pub(in crate::partition) fn receive_deferred(
        &mut self,
        request: Option<RequestId>,
        numbers: &[SequenceNumber],
        source: QueuePath,
        mode: ReceiveMode,
        _receiver: Option<ReceiverId>,
    ) {
        let received = self.find_deferred(numbers, source).map(|records| {
            let pairs = numbers.iter().zip(&records);
            pairs.map(|(number, record)| self.take_deferred(source.queue, *number, record, mode)).collect()
        });
        self.reply(request, Reply::Received(received));
    }

    fn find_deferred(&self, numbers: &[SequenceNumber], source: QueuePath) -> Result<Vec<Record>, Refusal> {
        check_numbers(numbers)?;
        let queue = self.readable(source.queue)?;
        let messages = queue.messages.get(source.sub_queue);
        let deferred = |number: &SequenceNumber| match messages.get(*number) {
            Some(record) if record.state() == MessageState::Deferred && !messages.is_locked(*number) => {
                Ok(record.clone())
            }
            _ => Err(Refusal::MessageNotFound(number.0)),
        };
        numbers.iter().map(deferred).collect()
    }

    fn take_deferred(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        record: &Record,
        mode: ReceiveMode,
    ) -> (MessageView, Option<Lock>) {
        let view = record.view(queue, number);
        let lock = match mode {
            ReceiveMode::PeekLock => Some(self.lock(queue, number, record.sub_queue(), None)),
            ReceiveMode::ReceiveAndDelete => {
                self.remove(queue, number, record.sub_queue(), record, Removal::Received(None));
                None
            }
        };
        (view, lock)
    }
}
