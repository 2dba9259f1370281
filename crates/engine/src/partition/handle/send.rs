//! `Send`: one message or a batch, all or none.

use smallvec::SmallVec;

use super::super::properties::{HEADER_BYTES_MAX, noted_header_bytes};
use super::super::record::Record;
use super::super::step::Step;
use crate::event::Event;
use crate::{MessageState, NewMessage, Refusal, Reply, RequestId, SequenceNumber, SubQueue};

impl Step<'_> {
    pub(in crate::partition) fn send(
        &mut self,
        request: Option<RequestId>,
        messages: SmallVec<[NewMessage; 1]>,
    ) {
        let sent = self.take_in(messages);
        self.reply(request, Reply::Sent(sent));
    }

    /// Stores messages, all or none.
    pub(super) fn take_in(
        &mut self,
        messages: SmallVec<[NewMessage; 1]>,
    ) -> Result<SmallVec<[SequenceNumber; 1]>, Refusal> {
        self.admit(&messages)?;
        Ok(messages.into_iter().map(|message| self.accept(message)).collect())
    }

    /// Whether all of them fit.
    fn admit(&self, messages: &[NewMessage]) -> Result<(), Refusal> {
        if messages.is_empty() {
            return Err(Refusal::InvalidArgument("There is no message in it.".to_owned()));
        }
        self.check_takes()?;
        let limit_bytes = self.options.max_message_size_bytes().min(u64::from(u32::MAX));
        let mut total_bytes = self.state().size_bytes;
        let requires_session = self.state().entity.sessions.is_some();
        for message in messages {
            if requires_session && message.session_id.is_none() {
                return Err(Refusal::SessionIdMissing);
            }
            let size_bytes = message.content.len() as u64;
            if size_bytes > limit_bytes {
                return Err(Refusal::MessageTooLarge { size_bytes, limit_bytes });
            }
            if message.header_bytes as usize > HEADER_BYTES_MAX {
                let (size_bytes, limit_bytes) = (u64::from(message.header_bytes), HEADER_BYTES_MAX as u64);
                return Err(Refusal::HeaderTooLarge { size_bytes, limit_bytes });
            }
            if self.original_of(message).is_none() {
                total_bytes = total_bytes.saturating_add(size_bytes);
            }
        }
        let limit_bytes = self.options.max_size_bytes();
        if total_bytes > limit_bytes {
            return Err(Refusal::EntityFull { limit_bytes });
        }
        Ok(())
    }

    /// Stores or publishes one message; of a duplicate nothing comes but the number of the message it repeats: whoever
    /// schedules one again because no answer came can cancel it.
    fn accept(&mut self, message: NewMessage) -> SequenceNumber {
        if let Some(original) = self.original_of(&message) {
            return original;
        }
        let key = message.message_key;
        let number = self.store(message);
        self.remember(key, number);
        number
    }

    /// Stores one message under the next number, or publishes it.
    fn store(&mut self, message: NewMessage) -> SequenceNumber {
        // `admit` refused longer ones.
        let content_bytes = u32::try_from(message.content.len()).unwrap_or(u32::MAX);
        let scheduled_enqueue_time = message.scheduled_enqueue_time.filter(|at| *at > self.now);
        if self.is_topic() && scheduled_enqueue_time.is_none() {
            return self.publish(message, content_bytes);
        }
        let number = self.state().entity.next_number;
        let time_to_live_ms =
            self.state().entity.policy.effective_time_to_live_ms(message.asked_life_ms(self.now));
        let mut record = Record::new(self.now, time_to_live_ms, content_bytes);
        // Rules are asked when it is published, possibly after a restart.
        let facts = message.facts.filter(|_| self.is_topic());
        if scheduled_enqueue_time.is_some() {
            record.set_place(SubQueue::Main, MessageState::Scheduled);
        }
        if let Some(id) = &message.session_id {
            self.set_session(self.state().entity.id, &mut record, id);
        }
        let header_bytes = noted_header_bytes(message.header_bytes);
        if scheduled_enqueue_time.is_some() || header_bytes > 0 {
            record.edit_extra(|extra| {
                extra.header_bytes = header_bytes;
                extra.scheduled_enqueue_time = scheduled_enqueue_time;
                extra.facts = facts;
            });
        }
        if let Some(origin) = message.origin {
            record.edit_extra(|extra| extra.bring_along(*origin));
        }
        self.emit(Event::Accepted { number, record, content: message.content });
        number
    }
}
