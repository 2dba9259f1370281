//! `CancelScheduled`: by number, only while scheduled, all or none.

use super::super::record::Record;
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
        let records = self.cancellable(numbers)?;
        for (number, record) in numbers.iter().zip(&records) {
            self.remove(self.state().entity.id, *number, SubQueue::Main, record, Removal::Cancelled);
        }
        Ok(())
    }

    /// The scheduled messages of these numbers, if all of them can be cancelled.
    pub(in crate::partition) fn cancellable(
        &self,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Record>, Refusal> {
        check_numbers(numbers)?;
        // Also where sending is disabled (azure-sdk-for-net 22454).
        if !self.takes() {
            self.check_gives(self.state().entity.id)?;
        }
        let scheduled = |number: &SequenceNumber| {
            let record = self.state().entity.messages.get(SubQueue::Main).get(*number);
            let record = record.filter(|record| record.state() == MessageState::Scheduled);
            record.cloned().ok_or(Refusal::MessageNotFound(number.0))
        };
        numbers.iter().map(scheduled).collect()
    }
}
