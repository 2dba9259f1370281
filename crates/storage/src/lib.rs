//! Durable storage: an ordered key-value interface with atomic batches and one fenced writer per shard.
//!
//! This crate stores bytes and knows nothing about messages. A [`Store`] grants the [`Lease`] of a [`Shard`] (the set
//! of partitions that share one log) to one owner at a time. A shard accepts [`Batch`]es, keeps the order of those that
//! share a partition, applies each of them atomically across all partitions, and resolves the [`Commit`] of a batch
//! once it is durable.

mod batch;
mod checksum;
pub mod cluster;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod conformance;
pub mod copy;
mod error;
mod exercise;
mod index;
mod key;
mod lease;
pub mod local;
mod memory;
mod metrics;
mod queue;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), expect(dead_code, reason = "some are for the tests of this crate"))]
mod samples;
mod shard;
mod waiting;

pub use batch::{Batch, Operation};
pub use error::{Error, Place};
#[doc(hidden)]
pub use exercise::stored_file as exercise;
pub use key::{Key, PartitionId, Space};
pub use lease::{Epoch, Lease};
#[cfg(any(test, feature = "testing"))]
pub use local::{DiskUse, SimulatedDisk, SteppedStore};
pub use local::{LocalOptions, LocalStore, ScrubDamage, StorageFigures};
pub use memory::MemoryStore;
pub use metrics::{StorageBytes, StorageMetrics};
pub use shard::{
    Acquiring, Commit, CommitNotifier, DamagedEntry, Entry, Limits, Page, Partitions, PartitionsNotifier,
    Pressure, Read, ReadNotifier, Scan, ScanNotifier, Shard, ShardId, Store, commit, partitions, read, scan,
};
