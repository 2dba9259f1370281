//! `CancelScheduled`: by number, only while scheduled, all or none.

use super::super::step::Step;
use super::check_numbers;
use crate::event::Removal;
use crate::{MessageState, Refusal, Reply, RequestId, SequenceNumber, SubQueue};

impl Step<'_> {
    pub(in crate::partition) fn cancel_scheduled(
        &mut self,
        request: Option<RequestId>,
        numbers: &[SequenceNumber],
    ) {
        let done = self.try_cancel_scheduled(numbers);
        self.reply(request, Reply::Done(done));
    }

    fn try_cancel_scheduled(&mut self, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        check_numbers(numbers)?;
        self.check_takes()?;
        let mut records = Vec::with_capacity(numbers.len());
        for number in numbers {
            match self.state().entity.messages.get(SubQueue::Main).get(*number) {
                Some(record) if record.state() == MessageState::Scheduled => records.push(record.clone()),
                _ => return Err(Refusal::MessageNotFound(number.0)),
            }
        }
        for (number, record) in numbers.iter().zip(&records) {
            self.remove(self.state().entity.id, *number, SubQueue::Main, record, Removal::Cancelled);
        }
        Ok(())
    }
}
