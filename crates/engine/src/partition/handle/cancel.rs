//! `CancelScheduled`: by number, only while scheduled, all or none.

use super::super::record::Record;
use super::super::step::Step;
use super::check_numbers;
use super::key_partition::named;
use crate::event::Removal;
use crate::{MessageState, Refusal, Reply, RequestId, SequenceNumber, SubQueue};

impl Step<'_> {
    pub(in crate::partition) fn cancel_scheduled(
        &mut self,
        request: Option<RequestId>,
        numbers: &[SequenceNumber],
    ) {
        self.count_visits(numbers.len());
        let done = self.try_cancel_scheduled(numbers);
        self.reply(request, Reply::Done(done));
    }

    fn try_cancel_scheduled(&mut self, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        for (number, record) in &self.cancellable(numbers)? {
            self.remove(self.state().entity.id, *number, SubQueue::Main, record, Removal::Cancelled);
        }
        Ok(())
    }

    /// The scheduled messages with these client-visible numbers, with their internal numbers, if all of them can be cancelled.
    pub(in crate::partition) fn cancellable(
        &self,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<(SequenceNumber, Record)>, Refusal> {
        check_numbers(numbers)?;
        // Cancelling is also possible where sending is disabled (azure-sdk-for-net 22454).
        if !self.allows_send() {
            self.check_receive_allowed(self.state().entity.id)?;
        }
        let scheduled = |number: &SequenceNumber| {
            let messages = self.state().entity.messages.get(SubQueue::Main);
            let named = named(*number, |number| messages.get(number));
            let named = named.filter(|(_, record)| record.state() == MessageState::Scheduled);
            let (counted, record) = named.ok_or(Refusal::ScheduledNotFound(number.0))?;
            Ok((counted, record.clone()))
        };
        numbers.iter().map(scheduled).collect()
    }
}
