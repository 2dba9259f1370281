//! All entities of a broker: found by name, created, kept in the catalogue.

use std::sync::Arc;

use peeklock_storage::Shard;

use super::{Clock, PartitionHandle};
use crate::{QueueOptions, ReceiverId};

/// What a namespace needs beside its shard.
#[derive(Debug, Clone)]
pub struct NamespaceOptions {
    /// Memory for recently written contents, over all partitions, in bytes.
    pub body_cache_bytes: usize,
    /// Seed of the randomness door; `None` draws one from the operating system.
    pub seed: Option<u64>,
}

/// Why a namespace did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store refused.
    #[error(transparent)]
    Storage(#[from] peeklock_storage::Error),
    /// A stored record can't be understood.
    #[error("stored record of partition {partition} can't be read: {reason}")]
    Record {
        /// The partition.
        partition: u64,
        /// What is wrong.
        reason: String,
    },
}

/// All entities; cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    // The runtime's author fills this in.
}

impl Namespace {
    /// Restores every entity from the shard and starts its actor.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(
        shard: Arc<dyn Shard>,
        clock: Arc<dyn Clock>,
        options: NamespaceOptions,
    ) -> Result<Self, StartError> {
        let _ = (shard, clock, options);
        unimplemented!()
    }

    /// Creates a queue, or updates the options of an existing one, durably.
    ///
    /// # Errors
    /// The store's, or an invalid record.
    pub async fn declare_queue(&self, name: &str, options: QueueOptions) -> Result<(), StartError> {
        let _ = (name, options);
        unimplemented!()
    }

    /// Finds a queue; names match case-insensitively.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<(PartitionHandle, Arc<QueueOptions>)> {
        let _ = name;
        unimplemented!()
    }

    /// Names of all queues, sorted.
    #[must_use]
    pub fn queue_names(&self) -> Vec<String> {
        unimplemented!()
    }

    /// A receiver id never used before in this process.
    #[must_use]
    pub fn next_receiver_id(&self) -> ReceiverId {
        unimplemented!()
    }

    /// The clock, for front ends that stamp or compare instants.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        unimplemented!()
    }

    /// Stops all actors once what they have in hand is durable and answered.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
