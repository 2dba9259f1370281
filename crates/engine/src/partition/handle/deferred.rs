//! `ReceiveDeferred`: by number, all or none (S-40, S-41). Deferred messages do not expire (S-36).

use super::super::record::Record;
use super::super::step::Step;
use super::check_numbers;
use crate::event::Removal;
use crate::{
    Lock, MessageState, MessageView, ReceiveMode, Refusal, Reply, RequestId, SequenceNumber, SubQueue,
};

impl Step<'_> {
    pub(in crate::partition) fn receive_deferred(
        &mut self,
        request: Option<RequestId>,
        numbers: &[SequenceNumber],
        sub_queue: SubQueue,
        mode: ReceiveMode,
    ) {
        let received = self.find_deferred(numbers, sub_queue).map(|records| {
            let pairs = numbers.iter().zip(&records);
            pairs.map(|(number, record)| self.take_deferred(*number, record, mode)).collect()
        });
        self.reply(request, Reply::Received(received));
    }

    fn find_deferred(&self, numbers: &[SequenceNumber], sub_queue: SubQueue) -> Result<Vec<Record>, Refusal> {
        check_numbers(numbers)?;
        let messages = self.state().messages.get(sub_queue);
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
        number: SequenceNumber,
        record: &Record,
        mode: ReceiveMode,
    ) -> (MessageView, Option<Lock>) {
        let view = record.view(number);
        let lock = match mode {
            ReceiveMode::PeekLock => Some(self.lock(number, record.sub_queue(), None)),
            ReceiveMode::ReceiveAndDelete => {
                self.remove(number, record.sub_queue(), record, Removal::Received(None));
                None
            }
        };
        (view, lock)
    }
}
