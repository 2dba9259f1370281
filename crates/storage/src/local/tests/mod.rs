//! The whole store over a simulated disk, and over a real one where that matters.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::directory::Directory;
use super::filesystem::{Filesystem, SimulatedDisk};
use super::store::take_directory;
use super::{LocalOptions, LocalStore};
use crate::samples::{QUEUE, body, complete, head, send, value};
use crate::{Batch, Error, Key, PartitionId, Shard, ShardId, Space};

mod backup;
mod basics;
mod cleaning;
mod conformance;
mod corruption;
mod descriptors;
mod errno;
mod failing;
mod fairness;
mod faults;
mod figures;
mod frames;
mod growth;
mod later;
mod listing;
mod oracle;
mod preparing;
mod reading;
mod replaying;
mod room;
mod salvage;
mod salvage_interrupted;
mod schedules;
mod scrubbing;
mod sweep;

const DIRECTORY: &str = "/data";

/// Small limits, so that a few dozen messages fill several segments.
fn options() -> LocalOptions {
    LocalOptions { segment_bytes: 8 << 10, ..LocalOptions::default() }
}

/// A new directory for [`super::shard::LocalShard`], with the file of its lock.
fn new_directory(disk: &SimulatedDisk, options: &LocalOptions) -> Directory {
    take_directory(disk.mount(), Path::new(DIRECTORY), options).unwrap().0
}

/// Another disk with the same files, all of them durable.
fn copy(original: &SimulatedDisk) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mount = disk.mount();
    mount.create_directory(Path::new(DIRECTORY)).unwrap();
    for path in original.paths() {
        mount.create(&path).unwrap();
        disk.set_bytes(&path, original.bytes(&path));
    }
    mount.sync_directory(Path::new(DIRECTORY)).unwrap();
    disk
}

fn open(disk: &SimulatedDisk) -> (LocalStore, Arc<dyn Shard>) {
    try_open(disk).unwrap()
}

fn try_open(disk: &SimulatedDisk) -> Result<(LocalStore, Arc<dyn Shard>), Error> {
    open_with(disk, options())
}

fn open_with(disk: &SimulatedDisk, options: LocalOptions) -> Result<(LocalStore, Arc<dyn Shard>), Error> {
    let store = LocalStore::open_on(disk.mount(), DIRECTORY, options)?;
    let shard = acquire(&store)?;
    Ok((store, shard))
}

fn acquire(store: &LocalStore) -> Result<Arc<dyn Shard>, Error> {
    Ok(Arc::clone(store.acquire_now(ShardId(0))?.shard()))
}

/// The seed from `PEEKLOCK_STORAGE_SEED`, or a new one; it is printed.
fn seed() -> u64 {
    let given = std::env::var("PEEKLOCK_STORAGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| super::RealFilesystem.draw_salt() >> 8);
    println!("PEEKLOCK_STORAGE_SEED={seed}");
    seed
}

/// Every live entry, by scanning.
async fn contents(shard: &dyn Shard, partitions: &[PartitionId]) -> Result<BTreeMap<Key, Bytes>, Error> {
    let mut found = BTreeMap::new();
    for space in Space::ALL {
        for partition in partitions {
            let mut from = Some(0);
            while let Some(number) = from {
                let page = shard.scan(space, *partition, number).await?;
                // Damaged entries are left out; others may be readable the next time.
                let is_transient = |error: &Error| !matches!(error, Error::Corrupt { .. });
                let mut errors = page.damaged.into_iter().map(|damaged| damaged.error);
                if let Some(error) = errors.find(is_transient) {
                    return Err(error);
                }
                from = page.next;
                found.extend(
                    page.entries
                        .into_iter()
                        .map(|entry| (Key::new(space, *partition, entry.number), entry.value)),
                );
            }
        }
    }
    Ok(found)
}

/// Sends message `number` like a broker whose disk is full for a while: repeatedly until it is accepted. Returns false
/// once the handle is dead.
async fn send_patiently(shard: &dyn Shard, number: u64) -> bool {
    submit_patiently(shard, || send(number)).await
}

/// Whether a batch was refused because the store could not grow.
fn is_for_a_while(error: &Error) -> bool {
    matches!(error, Error::Full { .. }) || error.is_outage()
}

/// Like [`send_patiently`], with any batch of the queue.
async fn submit_patiently(shard: &dyn Shard, batch: impl Fn() -> Batch) -> bool {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        match shard.submit(batch()).await {
            Ok(()) => return true,
            Err(error) if is_for_a_while(&error) => shard.resume(QUEUE),
            Err(_) => return false,
        }
        assert!(std::time::Instant::now() < deadline, "a batch is never accepted: {:?}", batch());
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Waits for a condition that another thread brings about.
async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}
