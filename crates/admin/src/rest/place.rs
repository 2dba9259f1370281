//! The entity of an operation.

use peeklock_access::EntityNode;
use peeklock_engine::runtime::{Namespace, PartitionHandle};
use peeklock_engine::{EntityOptions, QueuePath, SubQueue};
use peeklock_message::delivery::Origin;
use peeklock_message::submission::RequiredProperties;

use super::operation::{Operation, Verb};
use super::refusal;
use crate::error::Error;

/// An entity that was found.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its address in the request.
    pub entity: EntityNode,
    /// The partition that gets its commands.
    pub partition: PartitionHandle,
    /// The queue in commands.
    pub source: QueuePath,
    /// Properties of sent messages that the entity needs.
    pub wanted: RequiredProperties,
    /// Properties of the entity that affect its messages as receivers get them.
    pub origin: Origin,
    /// Largest encoded message accepted; of a subscription, its topic's.
    pub message_bytes_max: u64,
    /// Whether it is a topic itself, or a queue inside it; clients can only receive its transfer dead letters.
    pub is_topic: bool,
}

impl Place {
    /// Looks up the entity of an operation.
    ///
    /// # Errors
    /// 410 if it does not exist, 400 if it does not support the operation.
    pub(super) fn find(namespace: &Namespace, operation: &Operation) -> Result<Self, Error> {
        let Operation { entity, verb } = operation;
        let place = Self::of(namespace, entity).ok_or_else(|| {
            let text = format!("The messaging entity '{}' could not be found.", entity.entity_path());
            refusal::gone(text)
        })?;
        place.check(verb)?;
        Ok(place)
    }

    /// The place with this address, if the entity exists.
    #[must_use]
    pub fn of(namespace: &Namespace, entity: &EntityNode) -> Option<Self> {
        let found = match &entity.subscription {
            Some(name) => namespace
                .subscription(&entity.name, name)
                .map(|found| (found.partition, found.queue, found.options.requires_session, found.topic)),
            None => namespace.entity(&entity.name).map(|found| {
                let requires_session =
                    matches!(&*found.options, EntityOptions::Queue(queue) if queue.requires_session);
                (found.partition, found.queue, requires_session, found.options)
            }),
        };
        let (partition, queue, sessions, options) = found?;
        let copies = entity.subscription.is_some();
        let is_topic = !copies && matches!(*options, EntityOptions::Topic(_));
        Some(Self {
            entity: entity.clone(),
            partition,
            source: QueuePath { queue, sub_queue: entity.sub_queue },
            wanted: RequiredProperties::by(&options),
            origin: Origin { sessions, copies, partitioned: options.is_partitioned() },
            message_bytes_max: options.max_message_size_bytes(),
            is_topic,
        })
    }

    /// Checks whether the entity supports an operation.
    fn check(&self, verb: &Verb) -> Result<(), Error> {
        let is_subscription = self.entity.subscription.is_some();
        let reason = match (verb, self.source.sub_queue) {
            (Verb::Send, _) if is_subscription => {
                "Messages can't be sent to a subscription: send to its topic."
            }
            (Verb::Send, SubQueue::DeadLetter | SubQueue::TransferDeadLetter) => {
                "Messages can't be sent to a dead-letter queue directly."
            }
            (Verb::Send, SubQueue::Main) => return Ok(()),
            (_, SubQueue::Main | SubQueue::DeadLetter) if self.is_topic => {
                "Messages can't be received from a topic: receive from one of its subscriptions."
            }
            _ => return Ok(()),
        };
        Err(Error::bad_request(reason))
    }
}
