//! What a target gets.

use std::sync::Arc;

use super::Forwarder;
use crate::names::name_key;
use crate::{
    Delivery, EntityOptions, Forwarded, MessageKey, NewMessage, Origin, PartitionKey, PropertyChanges,
    SubQueue, Timestamp,
};

impl Forwarder {
    /// The message as the target is to store it; `None` for what is no forwarder's delivery.
    pub(super) fn transfer(&self, delivery: &Delivery, to: &EntityOptions) -> Option<NewMessage> {
        let departing = delivery.departing.as_deref()?;
        let (view, content) = (&delivery.message.view, &delivery.message.content);
        let earlier = view.forwarded.as_deref();
        // What a topic's copy shows as its first number is the topic's.
        let number = if departing.is_copy { view.shown_number_of_topic() } else { view.shown_number() };
        let is_dead = departing.source.sub_queue != SubQueue::Main;
        let source = if is_dead {
            // In lower case, as NServiceBus' tests assert of the service.
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
            // Time does not count among dead letters (semantics §9): from there a message goes with its whole life, which
            // begins anew at the target (azure-sdk-for-net 6748, MassTransit 4827).
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

/// When an action wants a message to become available: ignored where the action is, honoured where the message goes on to
/// (semantics §12.6). So is a message id that an action set: duplicates are looked for at the target by what the message shows,
/// never among the copies of the subscription.
fn scheduled_by_action(changes: &PropertyChanges) -> Option<Timestamp> {
    changes.scheduled_enqueue_time_ms.flatten().map(Timestamp)
}
