//! Bytes that survive: an ordered key-value face with atomic batches and one fenced writer per shard.
//!
//! This crate knows bytes, not messages. A [`Store`] hands out a [`Shard`] (the set of partitions that share
//! one log); a shard takes [`Batch`]es, keeps the order of those that concern the same partition, applies each of them
//! atomically across all partitions, and resolves the [`Commit`] of a batch once it is durable.

mod batch;
mod error;
mod key;
pub mod local;
mod memory;
mod shard;

pub use batch::{Batch, Operation};
pub use error::Error;
pub use key::{Key, PartitionId, Space};
pub use local::{LocalOptions, LocalStore, ScrubDamage};
#[cfg(any(test, feature = "testing"))]
pub use local::{SimulatedDisk, SteppedStore};
pub use memory::MemoryStore;
pub use shard::{
    Commit, CommitNotifier, DamagedEntry, Entry, Limits, Page, Pressure, Read, ReadNotifier, Scan,
    ScanNotifier, Shard, ShardId, Store, commit, read, scan,
};
