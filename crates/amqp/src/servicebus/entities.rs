//! What the dialect needs of the engine beside partitions: finding them.

use std::sync::Arc;

use peeklock_engine::runtime::{Namespace, PartitionHandle};
use peeklock_engine::{QueueOptions, ReceiverId, Timestamp};

use super::address::EntityAddress;

/// The entities of a broker. [`Namespace`] is the real one; tests and benchmarks put others behind it.
pub trait Entities: Send + Sync + 'static {
    /// Finds a queue; names match case-insensitively.
    fn queue(&self, name: &str) -> Option<(PartitionHandle, Arc<QueueOptions>)>;

    /// A receiver id never used before in this process.
    fn next_receiver_id(&self) -> ReceiverId;

    /// The broker's clock.
    fn now(&self) -> Timestamp;
}

impl Entities for Namespace {
    fn queue(&self, name: &str) -> Option<(PartitionHandle, Arc<QueueOptions>)> {
        Self::queue(self, name)
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
    /// Options at the time of attach.
    pub(crate) options: Arc<QueueOptions>,
}
