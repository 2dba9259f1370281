//! `Send`: one message or a batch, all or none; `SendEach`: messages that are sent together, each on its own.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::properties::{HEADER_BYTES_MAX, noted_header_bytes};
use super::super::record::Record;
use super::super::step::Step;
use crate::event::Event;
use crate::{
    DeadLetter, KeyPartition, MessageState, NewMessage, Refusal, Reply, RequestId, SequenceNumber, SubQueue,
};

impl Step<'_> {
    /// Stores messages that were sent via this entity and can't be delivered among its transfer dead letters: whatever its
    /// status, and even if it is full.
    pub(in crate::partition) fn keep_undelivered(
        &mut self,
        request: Option<RequestId>,
        messages: SmallVec<[NewMessage; 1]>,
        why: &Arc<DeadLetter>,
    ) {
        let in_turn = self.partition_in_turn();
        let kept = messages.into_iter().map(|message| self.keep_one(message, in_turn, why)).collect();
        self.reply(request, Reply::Sent(Ok(kept)));
    }

    fn keep_one(
        &mut self,
        message: NewMessage,
        in_turn: KeyPartition,
        why: &Arc<DeadLetter>,
    ) -> SequenceNumber {
        let number = self.state().entity.next_number;
        let partition = self.partition_of(&message, in_turn);
        let content_bytes = u32::try_from(message.content.len()).unwrap_or(u32::MAX);
        let time_to_live_ms =
            self.state().entity.policy.effective_time_to_live_ms(message.asked_life_ms(self.now));
        let mut record = Record::new(self.now, time_to_live_ms, content_bytes);
        record.set_place(SubQueue::TransferDeadLetter, MessageState::Active);
        record.set_partition(partition);
        if let Some(id) = &message.session_id {
            self.set_session(self.state().entity.id, &mut record, id);
        }
        let header_bytes = noted_header_bytes(message.header_bytes);
        record.edit_extra(|extra| {
            extra.header_bytes = header_bytes;
            extra.dead_letter = Some(Arc::clone(why));
        });
        self.emit(Event::Accepted { number, is_reserved: false, record, content: message.content });
        partition.shown(number)
    }

    pub(in crate::partition) fn send(
        &mut self,
        request: Option<RequestId>,
        messages: SmallVec<[NewMessage; 1]>,
    ) {
        let sent = self.take_in(messages);
        self.reply(request, Reply::Sent(sent));
    }

    pub(in crate::partition) fn send_each(&mut self, request: Option<RequestId>, messages: Vec<NewMessage>) {
        self.count_visits(messages.len());
        let sent = messages.into_iter().map(|message| self.take_in_one(message)).collect();
        self.reply(request, Reply::SentEach(sent));
    }

    fn take_in_one(&mut self, message: NewMessage) -> Result<SequenceNumber, Refusal> {
        self.admit(std::slice::from_ref(&message), 0)?;
        let partition = self.partition_of(&message, self.partition_in_turn());
        Ok(partition.shown(self.accept(message, partition)))
    }

    /// Stores messages, all or none.
    pub(super) fn take_in(
        &mut self,
        messages: SmallVec<[NewMessage; 1]>,
    ) -> Result<SmallVec<[SequenceNumber; 1]>, Refusal> {
        self.admit(&messages, 0)?;
        let in_turn = self.partition_in_turn();
        let accept = |message| {
            let partition = self.partition_of(&message, in_turn);
            partition.shown(self.accept(message, partition))
        };
        Ok(messages.into_iter().map(accept).collect())
    }

    /// Checks whether all messages are acceptable and fit, in addition to `other_bytes` of others; returns the sum in bytes.
    pub(in crate::partition) fn admit(
        &self,
        messages: &[NewMessage],
        other_bytes: u64,
    ) -> Result<u64, Refusal> {
        if messages.is_empty() {
            return Err(Refusal::InvalidArgument("The list of messages is empty.".to_owned()));
        }
        // Forwarded messages are accepted whatever the status is (azure-service-bus 666, 743).
        if messages.iter().any(|message| message.origin.is_none()) {
            self.check_send_allowed()?;
        }
        self.check_partition_keys(messages)?;
        let limit_bytes = self.state().options.max_message_size_bytes().min(u64::from(u32::MAX));
        let mut new_bytes = other_bytes;
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
                new_bytes = new_bytes.saturating_add(size_bytes);
            }
        }
        let limit_bytes = self.state().options.max_size_bytes();
        if self.state().size_bytes.saturating_add(new_bytes) > limit_bytes {
            return Err(Refusal::EntityFull { limit_bytes });
        }
        Ok(new_bytes)
    }

    /// Stores or publishes one message. A duplicate is not stored; the answer is the number of the original, so that a client
    /// that repeats a scheduled send without an answer can cancel the message.
    fn accept(&mut self, message: NewMessage, partition: KeyPartition) -> SequenceNumber {
        if let Some(original) = self.original_of(&message) {
            return original;
        }
        let (key, is_reserved) = (message.message_key, message.reserved_number.is_some());
        let number = self.store(message, partition);
        let remembered = if is_reserved && key.is_some() { self.reserve_number() } else { number };
        self.remember(key, remembered, number);
        number
    }

    /// Remembered ids must be in the order of numbers, so the id of a message with an earlier reserved number is remembered
    /// under a new number.
    fn reserve_number(&mut self) -> SequenceNumber {
        let number = self.state().entity.next_number;
        self.emit(Event::NumbersReserved { next: SequenceNumber(number.0.saturating_add(1)) });
        number
    }

    /// Stores one message under the next number, or publishes it.
    fn store(&mut self, message: NewMessage, partition: KeyPartition) -> SequenceNumber {
        // `admit` has refused longer bodies.
        let content_bytes = u32::try_from(message.content.len()).unwrap_or(u32::MAX);
        // A message with a reserved number is activated by its timer, even if it is due.
        let is_reserved = message.reserved_number.is_some();
        let scheduled_enqueue_time =
            message.scheduled_enqueue_time.filter(|at| *at > self.now || is_reserved);
        if self.is_topic() && scheduled_enqueue_time.is_none() {
            return self.publish(message, content_bytes, partition);
        }
        let number = match message.reserved_number {
            Some(shown) => shown.split().1,
            None => self.state().entity.next_number,
        };
        let time_to_live_ms =
            self.state().entity.policy.effective_time_to_live_ms(message.asked_life_ms(self.now));
        let mut record = Record::new(self.now, time_to_live_ms, content_bytes);
        record.set_partition(partition);
        // Rules are evaluated when the message is published, possibly after a restart.
        let rule_properties = message.rule_properties.filter(|_| self.is_topic());
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
                extra.rule_properties = rule_properties;
            });
        }
        if let Some(origin) = message.origin {
            record.edit_extra(|extra| extra.set_forwarding_fields(*origin));
        }
        self.emit(Event::Accepted { number, is_reserved, record, content: message.content });
        number
    }
}
