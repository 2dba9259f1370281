//! The store of a simulated broker: memory, or the real log on a simulated disk.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use peeklock_storage::local::{Call, Event, Fault};
use peeklock_storage::{
    Batch, Commit, DiskUse, Error, Key, Lease, LocalOptions, MemoryStore, Pressure, Shard, ShardId,
    SimulatedDisk, Space, SteppedStore, Store,
};

use super::steps::DiskStep;
use super::strategies::EMFILE;
use crate::wrapped::forward;

const DIRECTORY: &str = "/data";
const SEGMENT: &str = ".segment";
/// So small that a history fills, frees and cleans many segments.
const SEGMENT_BYTES: u32 = 8 << 10;

/// Rounds after which keeper and cleaner have nothing left to do.
const ROUNDS_MAX: usize = 64;
/// Maximum bytes of sealed segments per byte of live records, plus some segments whose garbage is tolerated.
const BYTES_PER_LIVE_BYTE: u64 = 4;
const SEGMENTS_BESIDE: u64 = 9;
/// The one being filled, two prepared ones, and one opened for a larger batch.
const OPEN_SEGMENTS_MAX: usize = 4;

/// Whether nothing happened because the store could not grow, or not be written.
pub(super) fn is_for_a_while(error: &Error) -> bool {
    matches!(error, Error::Full { .. }) || error.is_outage()
}

/// A store whose batches the simulation commits one by one.
#[derive(Clone)]
pub(super) enum Storage {
    Memory(MemoryStore),
    Log(Machine),
}

/// A disk, and the store that has it open.
#[derive(Clone, Default)]
pub(super) struct Machine(Arc<Mutex<MachineState>>);

#[derive(Default)]
struct MachineState {
    disk: SimulatedDisk,
    /// The bytes that were flipped.
    rotten: Vec<Rotten>,
    open: Option<Arc<SteppedShard>>,
}

/// A byte of a value that was flipped.
struct Rotten {
    key: Key,
    path: PathBuf,
    /// Offset of the value in the file.
    value_at: u64,
    /// Offset of the byte in the file.
    at: u64,
    /// The byte after that.
    byte: u8,
}

/// A stepped store that commits at once unless its batches are held.
struct SteppedShard {
    store: SteppedStore,
    /// Number of power cuts and kills of the disk before it was opened.
    ends: u64,
    is_held: AtomicBool,
}

impl SteppedShard {
    /// Writes all queued batches, and runs a round of the keeper.
    fn finish(&self) {
        while self.store.write(usize::MAX) > 0 {}
        self.store.keep();
    }

    fn finish_unless_held(&self) {
        if !self.is_held.load(Ordering::Relaxed) {
            self.finish();
        }
    }
}

impl Machine {
    fn open(&self) -> Option<Arc<SteppedShard>> {
        self.0.lock().unwrap().open.clone()
    }

    fn disk(&self) -> SimulatedDisk {
        self.0.lock().unwrap().disk.clone()
    }

    fn acquire(&self) -> Lease {
        let mut state = self.0.lock().unwrap();
        assert!(state.open.is_none(), "the last process still has the directory open");
        // Some reads are completed at once, others later.
        state.disk.set_cached(|offset| offset / 512 % 2 == 0);
        let options = LocalOptions {
            segment_bytes: SEGMENT_BYTES,
            value_bytes_max: 64 << 20,
            clean_bytes_per_second: u64::MAX,
            ..LocalOptions::default()
        };
        let store = SteppedStore::open(state.disk.mount(), DIRECTORY, options).expect("the store opens");
        let ends = state.disk.ends();
        let shard = Arc::new(SteppedShard { store, ends, is_held: AtomicBool::new(false) });
        state.open = Some(Arc::clone(&shard));
        let leased = Arc::clone(&shard);
        shard.store.lease(leased)
    }

    /// Ends the process and loses everything that it had not written.
    fn crash(&self, seed: u64) {
        let disk = self.disk();
        // One in four is a killed process: the page cache survives.
        if seed.is_multiple_of(4) {
            disk.kill();
        } else {
            disk.crash(seed);
        }
        let open = self.0.lock().unwrap().open.take();
        // Queued batches are answered with errors, because the disk is gone.
        open.iter().for_each(|open| while open.store.write(usize::MAX) > 0 {});
    }

    fn step(&self, step: DiskStep) {
        let Some(open) = self.open() else { return };
        match step {
            DiskStep::Keep => open.store.keep(),
            DiskStep::Idle => open.store.idle(),
            DiskStep::Clean { is_eager } => {
                open.store.clean(is_eager);
            }
            DiskStep::Plan { call, pass, event } => self.disk().plan(call, DIRECTORY, pass, event),
            DiskStep::FailReads(count, errno) => {
                let call = if errno == EMFILE { Call::Open } else { Call::Read };
                (0..count).for_each(|_| self.disk().plan(Some(call), SEGMENT, 0, Event::Fail(errno)));
            }
            DiskStep::Rot(..) | DiskStep::RotHead(..) => {}
        }
    }

    /// Flips a byte of a value in one of these partitions; returns its key and the value before.
    fn rot(&self, which: usize, byte: usize, (space, partitions): (Space, &[u64])) -> Option<(Key, Vec<u8>)> {
        let mut values = self.open()?.store.sealed_values(space);
        values.retain(|(key, ..)| partitions.contains(&key.partition.0));
        let at = which.checked_rem(values.len())?;
        let (key, path, offset, length) = values.swap_remove(at);
        let start = usize::try_from(offset).unwrap();
        let length = usize::try_from(length).unwrap();
        let content = self.disk().bytes(&path)[start..start + length].to_vec();
        let at = offset + (byte % length) as u64;
        let before = self.byte(&path, at);
        self.disk().rot(&path, at);
        let byte = self.byte(&path, at);
        let rotten = &mut self.0.lock().unwrap().rotten;
        let is_flipped = |rotten: &Rotten| (&rotten.path, rotten.at, rotten.byte) == (&path, at, before);
        match rotten.iter().position(is_flipped) {
            // It is the original one again.
            Some(twice) => drop(rotten.swap_remove(twice)),
            None => rotten.push(Rotten { key, path, value_at: offset, at, byte }),
        }
        Some((key, content))
    }

    fn byte(&self, path: &Path, at: u64) -> u8 {
        self.disk().bytes(path)[usize::try_from(at).unwrap()]
    }

    /// Flips all bytes of damaged attributes back that still belong to the same values.
    fn repair_heads(&self) {
        let Some(open) = self.open() else { return };
        let values = open.store.sealed_values(Space::Head);
        let rotten = std::mem::take(&mut self.0.lock().unwrap().rotten);
        for Rotten { key, path, value_at, at, byte } in rotten {
            let is_there =
                |value: &(Key, PathBuf, u64, u32)| (&value.0, &value.1, value.2) == (&key, &path, value_at);
            if values.iter().any(is_there) && self.byte(&path, at) == byte {
                self.disk().rot(&path, at);
            }
        }
    }
}

impl Storage {
    pub(super) async fn acquire(&self) -> Lease {
        match self {
            Self::Memory(store) => store.acquire(ShardId(0)).await.unwrap(),
            Self::Log(machine) => machine.acquire(),
        }
    }

    /// Holds batches submitted from now on.
    pub(super) fn hold(&self) {
        match self {
            Self::Memory(store) => store.hold(),
            Self::Log(machine) => {
                machine.open().iter().for_each(|open| open.is_held.store(true, Ordering::Relaxed));
            }
        }
    }

    /// Commits the oldest held batch, if there is one.
    pub(super) fn release_one(&self) {
        match self {
            Self::Memory(store) => {
                store.release_one();
            }
            Self::Log(machine) => machine.open().iter().for_each(|open| {
                open.store.write(1);
            }),
        }
    }

    /// Releases all held batches, and clears all faults.
    pub(super) fn release_all(&self) {
        match self {
            Self::Memory(store) => store.release_all(),
            Self::Log(machine) => machine.open().iter().for_each(|open| {
                machine.disk().clear_faults();
                open.is_held.store(false, Ordering::Relaxed);
                open.finish();
            }),
        }
    }

    /// A round of the keeper, which otherwise runs by itself: only then does a full store accept messages again.
    pub(super) fn patrol(&self) {
        if let Self::Log(machine) = self {
            machine.open().iter().for_each(|open| open.store.keep());
        }
    }

    /// Cancels all planned faults.
    pub(super) fn clear_faults(&self) {
        if let Self::Log(machine) = self {
            machine.disk().clear_faults();
        }
    }

    /// Whether the store reports that it is full, or can not be written.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Log(machine) => {
                machine.open().is_some_and(|open| *open.pressure().borrow() != Pressure::Normal)
            }
        }
    }

    /// Batches that are not answered yet.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Memory(store) => store.held(),
            Self::Log(machine) => machine.open().map_or(0, |open| open.store.queued()),
        }
    }

    /// The next batch is refused for lack of space.
    pub(super) fn fill_up(&self) {
        match self {
            Self::Memory(store) => store.fail_next(Error::Full { reason: "simulated".to_owned() }),
            Self::Log(machine) => machine.disk().inject(Fault::NoSpace, SEGMENT),
        }
    }

    /// Ends the process without warning; `seed` determines which unsynced data a disk loses.
    pub(super) fn crash(&self, seed: u64) {
        match self {
            Self::Memory(store) => store.crash(),
            Self::Log(machine) => machine.crash(seed),
        }
    }

    /// Whether the last commits have an unknown outcome, so that the process has to end.
    pub(super) fn is_in_doubt(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Log(machine) => {
                let ends = machine.disk().ends();
                machine.open().is_some_and(|open| open.store.failure().is_some() || open.ends != ends)
            }
        }
    }

    pub(super) fn step(&self, step: DiskStep) {
        if let Self::Log(machine) = self {
            machine.step(step);
        }
    }

    /// Flips a byte of a value of this space in one of these partitions, in a read-only segment; returns its key and the
    /// value before.
    pub(super) fn rot(&self, which: usize, byte: usize, from: (Space, &[u64])) -> Option<(Key, Vec<u8>)> {
        match self {
            Self::Memory(_) => None,
            Self::Log(machine) => machine.rot(which, byte, from),
        }
    }

    /// Undoes the damage to attributes.
    pub(super) fn repair_heads(&self) {
        if let Self::Log(machine) = self {
            machine.repair_heads();
        }
    }

    /// Checks that disk usage is in proportion to live records once the keeper and the cleaner have nothing left to do.
    pub(super) fn assert_disk_is_bounded(&self) {
        let Self::Log(machine) = self else { return };
        let Some(open) = machine.open() else { return };
        for _ in 0..ROUNDS_MAX {
            open.store.keep();
            open.store.clean(false);
        }
        let DiskUse { live_bytes, sealed_bytes, open_segments } = open.store.disk_use();
        // The cleaner leaves damaged segments as they are.
        let beside = SEGMENTS_BESIDE + machine.0.lock().unwrap().rotten.len() as u64;
        let most = BYTES_PER_LIVE_BYTE * live_bytes + beside * u64::from(SEGMENT_BYTES);
        assert!(sealed_bytes <= most, "{sealed_bytes} bytes of sealed segments for {live_bytes} live bytes");
        assert!(open_segments <= OPEN_SEGMENTS_MAX, "{open_segments} segments are open");
    }

    /// The keys of all stored records.
    pub(super) fn keys(&self) -> Vec<Key> {
        match self {
            Self::Memory(store) => store.snapshot().into_keys().collect(),
            Self::Log(machine) => machine.open().map_or_else(Vec::new, |open| open.store.keys()),
        }
    }
}

impl Shard for SteppedShard {
    forward!(store: resume, read, scan, partitions, limits, pressure);

    fn submit(&self, batch: Batch) -> Commit {
        let commit = self.store.submit(batch);
        self.finish_unless_held();
        commit
    }
}
