//! Converts a delivery to the message that the target stores.

use std::sync::Arc;

use super::{Forwarder, counted_bytes};
use crate::names::name_key;
use crate::{
    Delivery, EntityOptions, Forwarded, MessageKey, NewMessage, Origin, PartitionKey, PropertyChanges,
    SubQueue, Timestamp,
};

impl Forwarder {
    /// Puts back messages for which there was no room: they are the first of the next batch.
    pub(super) fn put_back(&mut self, left: Vec<Delivery>) {
        for delivery in left.into_iter().rev() {
            self.done.messages -= 1;
            self.done.bytes -= counted_bytes(&delivery);
            self.waiting.push_front(delivery);
        }
    }

    /// The message for the target; `None` if the delivery is not a forwarder's.
    pub(super) fn transfer(&self, delivery: &Delivery, to: &EntityOptions) -> Option<NewMessage> {
        let departing = delivery.departing.as_deref()?;
        let (view, content) = (&delivery.message.view, &delivery.message.content);
        let earlier = view.forwarded.as_deref();
        // Copies of a topic's message show the topic's sequence number as their original one.
        let number = if departing.is_copy { view.shown_number_of_topic() } else { view.shown_number() };
        let is_dead = departing.source.sub_queue != SubQueue::Main;
        let source = if is_dead {
            // In lower case, because NServiceBus' tests assert this of Service Bus.
            Some(Arc::from(name_key(&self.name)))
        } else {
            earlier.and_then(|earlier| earlier.dead_letter_source.clone())
        };
        let forwarded = Forwarded {
            enqueued_sequence_number: earlier.map_or(number, |earlier| earlier.enqueued_sequence_number),
            hops: earlier.map_or(0, |earlier| earlier.hops).saturating_add(1),
            dead_letter_source: source,
        };
        let is_topic = matches!(to, EntityOptions::Topic(_));
        let (wants_key, is_partitioned) = (to.requires_duplicate_detection(), to.is_partitioned());
        let read = || self.routes.rule_properties(content, view);
        let origin = Origin {
            forwarded: Arc::new(forwarded),
            // Messages don't expire in dead-letter queues (semantics §9). Forwarded from there, a message has its full time
            // to live again at the target (azure-sdk-for-net 6748, MassTransit 4827).
            expires_at: if is_dead { Timestamp::NEVER } else { view.expires_at },
            changes: view.changes.clone(),
            modified: view.modified.clone(),
            dead_letter: view.dead_letter.clone(),
        };
        let rule_properties = if is_topic || wants_key || is_partitioned { read() } else { None };
        let seen = rule_properties.as_ref();
        let id = seen.filter(|_| wants_key).and_then(|seen| seen.message_id.as_deref());
        let (message_key, partition_key) = if is_partitioned {
            let partition_key = seen.and_then(|seen| seen.partition_key.as_deref());
            PartitionKey::of_message(departing.session_id.as_deref(), partition_key, id)
        } else {
            (id.map(MessageKey::of), None)
        };
        Some(NewMessage {
            content: content.clone(),
            time_to_live_ms: view.time_to_live_ms.filter(|_| is_dead),
            session_id: departing.session_id.as_deref().map(Box::from),
            header_bytes: departing.header_bytes,
            scheduled_enqueue_time: view.changes.as_deref().and_then(scheduled_by_action),
            message_key,
            partition_key,
            rule_properties: rule_properties.filter(|_| is_topic),
            origin: Some(Box::new(origin)),
            ..NewMessage::default()
        })
    }
}

/// The scheduled enqueue time set by an action: ignored in the subscription, honoured at the forwarding target (semantics
/// §12.6). Likewise, a message id set by an action counts for duplicate detection at the target, never among the copies of
/// the subscription.
fn scheduled_by_action(changes: &PropertyChanges) -> Option<Timestamp> {
    changes.scheduled_enqueue_time_ms.flatten().map(Timestamp)
}
