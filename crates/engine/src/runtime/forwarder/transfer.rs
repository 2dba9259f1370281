//! Converts a delivery to the step that moves it: the target stores a message, the source completes its own.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Forwarder, counted_bytes};
use crate::names::name_key;
use crate::runtime::joint::{Unit, UnitStep};
use crate::runtime::{EntityRef, PartitionHandle};
use crate::{
    Command, Delivery, Departing, EntityOptions, Forwarded, MessageKey, MessageView, NewMessage, Origin,
    PartitionKey, PropertyChanges, RuleProperties, Settlement, SubQueue, Timestamp,
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

    /// The unit that stores a message in the target and completes it in the source; `None` if the delivery is not a
    /// forwarder's.
    pub(super) fn unit(&self, delivery: &Delivery, target: &EntityRef) -> Option<Unit> {
        let messages = SmallVec::from_iter([self.transfer(delivery, &target.options)?]);
        let tokens = SmallVec::from_iter([delivery.message.lock.as_ref()?.token]);
        let complete = Command::Settle { queue: self.source.queue, tokens, settlement: Settlement::Complete };
        let step =
            |entity: &PartitionHandle, command| UnitStep { entity: entity.clone(), command, via: None };
        let arrive = step(&target.partition, Command::Send { messages });
        Some(Unit { steps: SmallVec::from_buf([arrive, step(&self.handle, complete)]) })
    }

    /// The message for the target.
    fn transfer(&self, delivery: &Delivery, to: &EntityOptions) -> Option<NewMessage> {
        let departing = delivery.departing.as_deref()?;
        let (view, content) = (&delivery.message.view, &delivery.message.content);
        let is_dead = departing.source.sub_queue != SubQueue::Main;
        let is_topic = matches!(to, EntityOptions::Topic(_));
        let reads_properties = is_topic || to.requires_duplicate_detection() || to.is_partitioned();
        let rule_properties =
            if reads_properties { self.routes.rule_properties(content, view) } else { None };
        let (message_key, partition_key) = keys(rule_properties.as_deref(), departing, to);
        Some(NewMessage {
            content: content.clone(),
            time_to_live_ms: view.time_to_live_ms.filter(|_| is_dead),
            session_id: departing.session_id.as_deref().map(Box::from),
            header_bytes: departing.header_bytes,
            scheduled_enqueue_time: view.changes.as_deref().and_then(scheduled_by_action),
            message_key,
            partition_key,
            rule_properties: rule_properties.filter(|_| is_topic),
            origin: Some(Box::new(self.origin(view, departing))),
            ..NewMessage::default()
        })
    }

    /// What the message keeps of its time in the source.
    fn origin(&self, view: &MessageView, departing: &Departing) -> Origin {
        let earlier = view.forwarded.as_deref();
        // Copies of a topic's message show the topic's sequence number as their original one.
        let number = if departing.is_copy { view.shown_number_of_topic() } else { view.shown_number() };
        let is_dead = departing.source.sub_queue != SubQueue::Main;
        let dead_letter_source = if is_dead {
            // In lower case, because NServiceBus' tests assert this of Service Bus.
            Some(Arc::from(name_key(&self.name)))
        } else {
            earlier.and_then(|earlier| earlier.dead_letter_source.clone())
        };
        Origin {
            forwarded: Arc::new(Forwarded {
                enqueued_sequence_number: earlier.map_or(number, |earlier| earlier.enqueued_sequence_number),
                hops: earlier.map_or(0, |earlier| earlier.hops).saturating_add(1),
                dead_letter_source,
            }),
            // Messages don't expire in dead-letter queues (semantics §9). Forwarded from there, a message has its full time
            // to live again at the target (azure-sdk-for-net 6748, MassTransit 4827).
            expires_at: if is_dead { Timestamp::NEVER } else { view.expires_at },
            changes: view.changes.clone(),
            modified: view.modified.clone(),
            dead_letter: view.dead_letter.clone(),
        }
    }
}

/// The keys for duplicate detection and for the partition, as far as the target needs them.
fn keys(
    properties: Option<&RuleProperties>,
    departing: &Departing,
    to: &EntityOptions,
) -> (Option<MessageKey>, Option<PartitionKey>) {
    let id = properties
        .filter(|_| to.requires_duplicate_detection())
        .and_then(|properties| properties.message_id.as_deref());
    if to.is_partitioned() {
        let partition_key = properties.and_then(|properties| properties.partition_key.as_deref());
        PartitionKey::of_message(departing.session_id.as_deref(), partition_key, id)
    } else {
        (id.map(MessageKey::of), None)
    }
}

/// The scheduled enqueue time set by an action: ignored in the subscription, honoured at the forwarding target (semantics
/// §12.6). Likewise, a message id set by an action counts for duplicate detection at the target, never among the copies of
/// the subscription.
fn scheduled_by_action(changes: &PropertyChanges) -> Option<Timestamp> {
    changes.scheduled_enqueue_time_ms.flatten().map(Timestamp)
}
