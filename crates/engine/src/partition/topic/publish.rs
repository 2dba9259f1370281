//! Messages on their way through a topic: at once, or when their time has come.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::properties::noted_header_bytes;
use super::super::record::{Extra, Record};
use super::super::step::Step;
use super::shares::shares;
use crate::event::{Event, Publication, SubscriptionCopy};
use crate::{
    Arrival, BodyRef, EntityOptions, Facts, MessageState, NewMessage, Origin, QueueId, SequenceNumber,
    SubQueue, Subject,
};

/// What the copies of a message have in common.
struct Original {
    body: BodyRef,
    content_bytes: u32,
    time_to_live_ms: Option<u64>,
    session_id: Option<Arc<str>>,
    header_bytes: u32,
    facts: Option<Arc<Facts>>,
    /// What a forwarded message brings along.
    origin: Option<Box<Origin>>,
}

impl Step<'_> {
    /// Whether the entity is a topic.
    pub(in crate::partition) const fn is_topic(&self) -> bool {
        matches!(self.options, EntityOptions::Topic(_))
    }

    /// Publishes a message under the topic's next number.
    pub(in crate::partition) fn publish(
        &mut self,
        message: NewMessage,
        content_bytes: u32,
    ) -> SequenceNumber {
        let number = self.state().entity.next_number;
        let original = Original {
            body: BodyRef(number.0),
            content_bytes,
            time_to_live_ms: self.asked_life_ms(&message),
            session_id: message.session_id.map(Arc::from),
            header_bytes: noted_header_bytes(message.header_bytes),
            facts: message.facts,
            origin: message.origin,
        };
        let copies = self.copies(&original);
        self.emit(Event::Published(Box::new(Publication {
            number,
            content: (!copies.is_empty()).then_some(message.content),
            scheduled: None,
            body: original.body,
            content_bytes,
            copies,
        })));
        number
    }

    /// Publishes a scheduled message as if it were sent now: rules are asked now, and its time-to-live starts (S-9).
    pub(in crate::partition) fn publish_scheduled(&mut self, scheduled: SequenceNumber) {
        let entity = &self.state().entity;
        let Some(record) = entity.messages.get(SubQueue::Main).get(scheduled) else { return };
        let extra = record.extra();
        let original = Original {
            body: record.body(scheduled),
            content_bytes: record.content_bytes(),
            time_to_live_ms: record.time_to_live_ms(),
            session_id: record.session_id().cloned(),
            header_bytes: extra.map_or(0, |extra| extra.header_bytes),
            facts: extra.and_then(|extra| extra.facts.clone()),
            origin: None,
        };
        let number = entity.next_number;
        let copies = self.copies(&original);
        self.copies_left = self.copies_left.saturating_sub(copies.len().max(1));
        self.emit(Event::Published(Box::new(Publication {
            number,
            content: None,
            scheduled: Some(scheduled),
            body: original.body,
            content_bytes: original.content_bytes,
            copies,
        })));
    }

    /// One copy for each share of each subscription; what copies have alike they share.
    fn copies(&self, original: &Original) -> SmallVec<[SubscriptionCopy; 1]> {
        let mut copies: SmallVec<[SubscriptionCopy; 1]> = SmallVec::new();
        let state = self.state();
        let Some(topic) = &state.topic else { return copies };
        // The least of the message's, the topic's and the subscription's life counts (S-16).
        let time_to_live_ms = state.entity.policy.effective_time_to_live_ms(original.time_to_live_ms);
        let mut extras = Extras::new(original);
        let nothing = Facts::default();
        let facts = original.facts.as_deref().unwrap_or(&nothing);
        let subject = Subject { facts, arrival: Arrival::default() };
        for share in topic.subscriptions().flat_map(|each| shares(each, &subject)) {
            let Some(queue) = state.queue(share.queue) else { continue };
            let policy = &queue.policy;
            let time_to_live_ms = policy.effective_time_to_live_ms(time_to_live_ms);
            let mut record = Record::new(self.now, time_to_live_ms, original.content_bytes);
            if policy.requires_session && original.session_id.is_none() {
                record.set_place(SubQueue::DeadLetter, MessageState::Active);
                record.set_extra(Some(extras.without_session(&policy.reasons.session_id_missing)));
            } else {
                record.set_extra(Some(Arc::clone(&extras.plain)));
            }
            let number = next_number(&copies, share.queue, queue.next_number);
            copies.push(SubscriptionCopy { queue: share.queue, number, record });
        }
        copies
    }
}

/// The next number of a subscription that may have got copies of this message already.
fn next_number(copies: &[SubscriptionCopy], queue: QueueId, unused: SequenceNumber) -> SequenceNumber {
    match copies.last() {
        Some(last) if last.queue == queue => SequenceNumber(last.number.0.saturating_add(1)),
        _ => unused,
    }
}

/// The rare facts of a message's copies.
struct Extras {
    plain: Arc<Extra>,
    /// For subscriptions with sessions, when the message has no session id.
    without_session: Option<Arc<Extra>>,
}

impl Extras {
    fn new(original: &Original) -> Self {
        let mut plain = Extra {
            body: Some(original.body),
            session_id: original.session_id.clone(),
            header_bytes: original.header_bytes,
            ..Extra::default()
        };
        if let Some(origin) = &original.origin {
            plain.bring_along(Origin::clone(origin));
        }
        Self { plain: Arc::new(plain), without_session: None }
    }

    fn without_session(&mut self, reason: &super::super::reasons::Reason) -> Arc<Extra> {
        let plain = &self.plain;
        let extra = self.without_session.get_or_insert_with(|| {
            let dead_letter = Some(Arc::clone(&reason.dead_letter));
            Arc::new(Extra { dead_letter, ..Extra::clone(plain) })
        });
        Arc::clone(extra)
    }
}
