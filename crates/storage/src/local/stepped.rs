//! The store without threads: a test does their work step by step, in an order of its choice.
//!
//! It is the production code (writer, readers, keeper, cleaner); only the order of execution is determined from
//! outside. So a history of a whole broker over the real log is a function of its seed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::filesystem::{Filesystem, Lock};
use super::format::RECORD_HEADER_BYTES;
use super::options::LocalOptions;
use super::shard::{LocalShard, ScrubDamageSender, Workers};
use super::store::take_directory;
use super::{cleaner, keeper, reader};
use crate::{
    Batch, Commit, Error, Key, Lease, Limits, PartitionId, Partitions, Pressure, Read, Scan, Shard, ShardId,
    Space,
};

/// Rounds of keeper and cleaner that a writer runs when it needs room.
const ROUNDS: usize = 2;

/// Disk usage of the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of the records that are alive.
    pub live_bytes: u64,
    /// Bytes of the segment files that are no longer appended to.
    pub sealed_bytes: u64,
    /// Number of segments being filled or prepared. Each has the normal size, or that of a larger batch.
    pub open_segments: usize,
}

/// An open data directory whose work is done by [`SteppedStore::write`], [`SteppedStore::keep`] and
/// [`SteppedStore::clean`]. Reads and scans are answered immediately.
///
/// Dropping it is like killing the process; [`SteppedStore::close`] ends it cleanly.
#[derive(Debug)]
pub struct SteppedStore {
    shard: LocalShard,
    workers: Mutex<Workers>,
    /// Batches submitted and not answered.
    queued: AtomicUsize,
    _lock: Box<dyn Lock>,
}

impl SteppedStore {
    /// Locks and opens the data directory at `path`, created if missing.
    ///
    /// # Errors
    /// As [`super::LocalStore::open`] and [`crate::Store::acquire`].
    pub fn open(
        filesystem: Arc<dyn Filesystem>,
        path: impl AsRef<Path>,
        options: LocalOptions,
    ) -> Result<Self, Error> {
        let (directory, lock) = take_directory(filesystem, path.as_ref(), &options)?;
        let (shard, workers) = LocalShard::open_stepped(directory, options, ScrubDamageSender::default())?;
        let shared = Arc::downgrade(&workers.shared);
        workers.shared.stepped.set(move || {
            let Some(shared) = shared.upgrade() else { return };
            for _ in 0..ROUNDS {
                keeper::round(&shared);
                cleaner::clean_once(&shared, shared.is_short());
            }
        });
        Ok(Self { shard, workers: Mutex::new(workers), queued: AtomicUsize::new(0), _lock: lock })
    }

    /// The lease of this shard with another handle, `shard`, which wraps this one.
    #[must_use]
    pub fn lease(&self, shard: Arc<dyn Shard>) -> Lease {
        Lease::new(ShardId(0), shard, self.shard.epoch(), self.shard.loss())
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits at most `batches_max` of the queued batches as one frame; returns how many it answered, 0 when there is
    /// nothing to do.
    pub fn write(&self, batches_max: usize) -> usize {
        let Workers { writer, write_requests, .. } = &mut *self.workers();
        let answered = writer.step(write_requests, batches_max);
        self.queued.fetch_sub(answered, Ordering::Relaxed);
        answered
    }

    /// Does the work of the writer after a time without batches.
    pub fn idle(&self) {
        self.workers().writer.idle();
    }

    /// Batches submitted and not answered.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// One round of the keeper: seals, frees, recycles, prepares.
    pub fn keep(&self) {
        keeper::round(&self.workers().shared);
    }

    /// Cleans one run of segments; returns false when none is worth it or cleaning failed. `is_eager` includes runs
    /// with little garbage.
    pub fn clean(&self, is_eager: bool) -> bool {
        cleaner::clean_once(&self.workers().shared, is_eager)
    }

    /// The reason why the handle is dead, if it is.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.workers().shared.fatal_error.get().cloned()
    }

    /// Disk usage of the segments.
    #[must_use]
    pub fn disk_use(&self) -> DiskUse {
        let workers = self.workers();
        let state = workers.shared.state();
        let open: Vec<u64> = state
            .segments
            .in_order()
            .filter(|segment| segment.sealed_end.is_none())
            .map(|segment| segment.file.capacity)
            .collect();
        DiskUse {
            live_bytes: state.segments.in_order().map(|segment| segment.live_bytes).sum(),
            sealed_bytes: state.segments.capacity_bytes() - open.iter().sum::<u64>(),
            open_segments: open.len(),
        }
    }

    /// All live keys, each partition's in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let workers = self.workers();
        let state = workers.shared.state();
        let entries = state.index.partitions().flat_map(|(space, partition)| {
            let numbers = state.index.range(space, partition, 0);
            numbers.map(move |(number, _)| Key::new(space, partition, number))
        });
        entries.collect()
    }

    /// Locations of the live values of a space in sealed segments, which are read only on request: file, offset and
    /// length.
    #[must_use]
    pub fn sealed_values(&self, space: Space) -> Vec<(Key, PathBuf, u64, u32)> {
        let workers = self.workers();
        let state = &*workers.shared.state();
        let partitions = state.index.partitions().filter(|(found, _)| *found == space);
        let values = partitions.flat_map(|(space, partition)| {
            state.index.range(space, partition, 0).filter_map(move |(number, location)| {
                let segment = state.segments.get(location.segment).filter(|one| one.sealed_end.is_some())?;
                let offset = u64::from(location.offset) + u64::from(RECORD_HEADER_BYTES);
                let key = Key::new(space, partition, number);
                Some((key, segment.file.path.clone(), offset, location.value_len()))
            })
        });
        values.collect()
    }

    /// Commits the queued batches and records a clean end, like a broker that is stopped.
    pub fn close(self) {
        while self.write(usize::MAX) > 0 {}
        let workers = self.workers();
        if workers.shared.fatal_error.get().is_none() {
            self.shard.leave_closed(workers.writer.active());
        }
    }

    fn answer_reads(&self) {
        let workers = self.workers();
        while let Ok(request) = workers.read_requests.try_recv() {
            reader::answer(&workers.shared, request);
        }
    }
}

impl Shard for SteppedStore {
    fn submit(&self, batch: Batch) -> Commit {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.shard.submit(batch)
    }

    fn resume(&self, partition: PartitionId) {
        self.shard.resume(partition);
    }

    fn read(&self, keys: Vec<Key>) -> Read {
        let answer = self.shard.read(keys);
        self.answer_reads();
        answer
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        let answer = self.shard.scan(space, partition, from);
        self.answer_reads();
        answer
    }

    fn partitions(&self) -> Partitions {
        self.shard.partitions()
    }

    fn limits(&self) -> Limits {
        self.shard.limits()
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        self.shard.pressure()
    }
}
