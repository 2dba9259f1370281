//! What a simulated broker stores in: memory, or the real log on a simulated disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use peeklock_storage::local::{Call, Event, Fault};
use peeklock_storage::{
    Batch, Commit, DiskUse, Error, Key, Lease, Limits, LocalOptions, MemoryStore, PartitionId, Partitions,
    Pressure, Read, Scan, Shard, ShardId, SimulatedDisk, Space, SteppedStore, Store,
};
use tokio::sync::watch;

use super::steps::DiskStep;
use super::strategies::EMFILE;

const DIRECTORY: &str = "/data";
const SEGMENT: &str = ".segment";
/// So small that a history fills, frees and cleans many.
const SEGMENT_BYTES: u32 = 8 << 10;

/// Rounds in which keeper and cleaner come to rest.
const ROUNDS_MAX: usize = 64;
/// Bytes of sealed segments per byte of live records, and segments beside with garbage that is tolerated.
const BYTES_PER_LIVE_BYTE: u64 = 4;
const SEGMENTS_BESIDE: u64 = 9;
/// The one being filled, two prepared, and one that a larger batch asked for.
const OPEN_SEGMENTS_MAX: usize = 4;

/// A store whose commits the simulation lets through one by one.
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
    /// How often a byte was flipped.
    rotten: u64,
    open: Option<Arc<SteppedShard>>,
}

/// A stepped store that commits at once unless it is held.
struct SteppedShard {
    store: SteppedStore,
    /// The power cuts and kills before it was opened.
    ends: u64,
    is_held: AtomicBool,
}

impl SteppedShard {
    /// Does all there is to do.
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
        // Some reads are answered at once, others later.
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

    /// Ends the process; what it had not written is lost for certain.
    fn crash(&self, seed: u64) {
        let disk = self.disk();
        // One in four is a killed process: the page cache survives.
        if seed.is_multiple_of(4) {
            disk.kill();
        } else {
            disk.crash(seed);
        }
        let open = self.0.lock().unwrap().open.take();
        // Whatever is queued is answered: the disk is gone.
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
            DiskStep::Rot(..) => {}
        }
    }

    /// Flips a byte of a content of one of these partitions; which content that was.
    fn rot(&self, which: usize, byte: usize, partitions: &[u64]) -> Option<(PartitionId, Vec<u8>)> {
        let mut values = self.open()?.store.sealed_values(Space::Body);
        values.retain(|(key, ..)| partitions.contains(&key.partition.0));
        let at = which.checked_rem(values.len())?;
        let (key, path, offset, length) = values.swap_remove(at);
        let start = usize::try_from(offset).unwrap();
        let length = usize::try_from(length).unwrap();
        let content = self.disk().bytes(&path)[start..start + length].to_vec();
        self.disk().rot(&path, offset + (byte % length) as u64);
        self.0.lock().unwrap().rotten += 1;
        Some((key.partition, content))
    }
}

impl Storage {
    pub(super) async fn acquire(&self) -> Lease {
        match self {
            Self::Memory(store) => store.acquire(ShardId(0)).await.unwrap(),
            Self::Log(machine) => machine.acquire(),
        }
    }

    /// Holds back what is submitted from now on.
    pub(super) fn hold(&self) {
        match self {
            Self::Memory(store) => store.hold(),
            Self::Log(machine) => {
                machine.open().iter().for_each(|open| open.is_held.store(true, Ordering::Relaxed));
            }
        }
    }

    /// Commits the oldest of what is held back; nothing may be.
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

    /// Ends all trouble: nothing is held back any more, and nothing fails.
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

    /// A round of the keeper, which comes by without being asked: only then is a full store open for messages again.
    pub(super) fn patrol(&self) {
        if let Self::Log(machine) = self {
            machine.open().iter().for_each(|open| open.store.keep());
        }
    }

    /// Nothing that is planned happens.
    pub(super) fn clear_faults(&self) {
        if let Self::Log(machine) = self {
            machine.disk().clear_faults();
        }
    }

    /// Whether the store says that it is full.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Log(machine) => {
                machine.open().is_some_and(|open| *open.pressure().borrow() == Pressure::Full)
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

    /// The next batch finds no room.
    pub(super) fn fill_up(&self) {
        match self {
            Self::Memory(store) => store.fail_next(Error::Full { reason: "simulated".to_owned() }),
            Self::Log(machine) => machine.disk().inject(Fault::NoSpace, SEGMENT),
        }
    }

    /// Ends the process without warning; `seed` picks what a disk loses of what was not synced.
    pub(super) fn crash(&self, seed: u64) {
        match self {
            Self::Memory(store) => store.crash(),
            Self::Log(machine) => machine.crash(seed),
        }
    }

    /// Whether the outcome of the last commits is unknown, so that the process has to end.
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

    /// Flips a byte of a content of one of these partitions, in a segment that is only read; which content that was.
    pub(super) fn rot(
        &self,
        which: usize,
        byte: usize,
        partitions: &[u64],
    ) -> Option<(PartitionId, Vec<u8>)> {
        match self {
            Self::Memory(_) => None,
            Self::Log(machine) => machine.rot(which, byte, partitions),
        }
    }

    /// Once the keeper and the cleaner have nothing left to do, the disk is in proportion to what lives.
    pub(super) fn assert_disk_is_bounded(&self) {
        let Self::Log(machine) = self else { return };
        let Some(open) = machine.open() else { return };
        for _ in 0..ROUNDS_MAX {
            open.store.keep();
            open.store.clean(false);
        }
        let DiskUse { live_bytes, sealed_bytes, open_segments } = open.store.disk_use();
        // The cleaner leaves damaged segments as they are.
        let beside = SEGMENTS_BESIDE + machine.0.lock().unwrap().rotten;
        let most = BYTES_PER_LIVE_BYTE * live_bytes + beside * u64::from(SEGMENT_BYTES);
        assert!(sealed_bytes <= most, "{sealed_bytes} bytes of sealed segments for {live_bytes} live bytes");
        assert!(open_segments <= OPEN_SEGMENTS_MAX, "{open_segments} segments are open");
    }

    /// Everything stored.
    pub(super) fn keys(&self) -> Vec<Key> {
        match self {
            Self::Memory(store) => store.snapshot().into_keys().collect(),
            Self::Log(machine) => machine.open().map_or_else(Vec::new, |open| open.store.keys()),
        }
    }
}

impl Shard for SteppedShard {
    fn submit(&self, batch: Batch) -> Commit {
        let commit = self.store.submit(batch);
        self.finish_unless_held();
        commit
    }

    fn resume(&self, partition: PartitionId) {
        self.store.resume(partition);
    }

    fn read(&self, keys: Vec<Key>) -> Read {
        self.store.read(keys)
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        self.store.scan(space, partition, from)
    }

    fn partitions(&self) -> Partitions {
        self.store.partitions()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        self.store.pressure()
    }
}
