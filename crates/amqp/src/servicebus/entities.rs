//! What the dialect needs of the engine beside partitions: finding them.

use std::sync::Arc;

use peeklock_engine::runtime::{EntityRef, Namespace, PartitionHandle, SubscriptionRef};
use peeklock_engine::{EntityOptions, QueueId, QueuePath, ReceiverId, Timestamp};

use super::address::EntityAddress;

/// The entities of a broker. [`Namespace`] is the real one; tests and benchmarks put others behind it.
pub trait Entities: Send + Sync + 'static {
    /// Finds a queue or topic; names match case-insensitively.
    fn entity(&self, name: &str) -> Option<EntityRef>;

    /// Finds a subscription of a topic; names match case-insensitively.
    fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef>;

    /// A receiver id never used before in this process.
    fn next_receiver_id(&self) -> ReceiverId;

    /// The broker's clock.
    fn now(&self) -> Timestamp;
}

impl Entities for Namespace {
    fn entity(&self, name: &str) -> Option<EntityRef> {
        Self::entity(self, name)
    }

    fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef> {
        Self::subscription(self, topic, name)
    }

    fn next_receiver_id(&self) -> ReceiverId {
        Self::next_receiver_id(self)
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }
}

/// An entity that a link is attached to.
#[derive(Debug)]
pub(crate) struct Entity {
    /// As resolved.
    pub(crate) address: EntityAddress,
    /// Identifies the management node: links with the same key answer each other.
    pub(crate) node: Box<str>,
    /// Full address, for error texts.
    pub(crate) uri: String,
    /// Where commands go.
    pub(crate) partition: PartitionHandle,
    /// Names the queue or subscription in commands; of a topic, what is scheduled on it.
    pub(crate) queue: QueueId,
    /// Options of the queue or topic at the time of attach.
    pub(crate) options: Arc<EntityOptions>,
}

impl Entity {
    /// The queue inside the entity that the address names.
    pub(crate) fn source(&self) -> QueuePath {
        QueuePath { queue: self.queue, sub_queue: self.address.sub_queue }
    }
}
