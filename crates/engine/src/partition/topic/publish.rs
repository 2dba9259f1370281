//! Publishes messages: at once, or when their scheduled time comes.

use std::sync::Arc;

use super::super::properties::noted_header_bytes;
use super::super::record::Extra;
use super::super::step::{CHANGED_BYTES_PER_CALL_MAX, Step, VISITS_PER_COPY};
use super::original::Original;
use crate::event::{Event, Publication};
use crate::{BodyRef, KeyPartition, NewMessage, SequenceNumber, SessionId, SubQueue};

impl Step<'_> {
    /// Whether the entity is a topic.
    pub(in crate::partition) const fn is_topic(&self) -> bool {
        self.state().topic.is_some()
    }

    /// Publishes a message under the topic's next number.
    pub(in crate::partition) fn publish(
        &mut self,
        message: NewMessage,
        content_bytes: u32,
        partition: KeyPartition,
    ) -> SequenceNumber {
        let number = self.state().entity.next_number;
        let body = BodyRef(number.0);
        let time_to_live_ms = message.asked_life_ms(self.now);
        let mut extra = Extra {
            body: Some(body),
            session_id: message.session_id.map(SessionId::from),
            header_bytes: noted_header_bytes(message.header_bytes),
            ..Extra::default()
        };
        if let Some(origin) = message.origin {
            extra.set_forwarding_fields(*origin);
        }
        let copies = self.copies(&Original {
            number,
            partition,
            body,
            content_bytes,
            time_to_live_ms,
            scheduled_enqueue_time: message.scheduled_enqueue_time,
            rule_properties: message.rule_properties,
            extra: Arc::new(extra),
        });
        self.emit(Event::Published(Box::new(Publication {
            number,
            content: (!copies.is_empty()).then_some(message.content),
            scheduled: None,
            body,
            content_bytes,
            copies,
        })));
        number
    }

    /// Publishes a scheduled message as if it were sent now: rules are evaluated now, and its time to live starts (S-9).
    pub(in crate::partition) fn publish_scheduled(&mut self, scheduled: SequenceNumber) {
        let visits_before = self.visits();
        let entity = &self.state().entity;
        let Some(record) = entity.messages.get(SubQueue::Main).get(scheduled) else { return };
        let (number, body) = (entity.next_number, record.body(scheduled));
        let (content_bytes, partition) = (record.content_bytes(), record.partition());
        let mut extra = record.extra().map(|extra| Extra::clone(extra)).unwrap_or_default();
        let (rule_properties, scheduled_enqueue_time) =
            (extra.rule_properties.take(), extra.scheduled_enqueue_time.take());
        extra.body = Some(body);
        let copies = self.copies(&Original {
            number,
            partition,
            body,
            content_bytes,
            time_to_live_ms: record.time_to_live_ms(),
            scheduled_enqueue_time,
            rule_properties,
            extra: Arc::new(extra),
        });
        // Rules that match nothing take time as well.
        let effort = self.visits().saturating_sub(visits_before) / VISITS_PER_COPY;
        self.copies_left = self.copies_left.saturating_sub(effort.max(1));
        if self.changed_bytes_left < CHANGED_BYTES_PER_CALL_MAX / 2 {
            // The next message may need as much.
            self.copies_left = 0;
        }
        // Copies share the properties of a forwarded message in memory only.
        copies.iter().for_each(|copy| self.count_timer_bytes(&copy.record));
        self.emit(Event::Published(Box::new(Publication {
            number,
            content: None,
            scheduled: Some(scheduled),
            body,
            content_bytes,
            copies,
        })));
    }
}
