//! A disk in memory that can be broken on purpose: it knows what was synced, and forgets the rest in a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Filesystem;
use mount::Mount;

mod mount;

/// Free bytes of a disk without a limit.
const UNLIMITED_BYTES: u64 = 1 << 50;

/// A failure to come, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The next write changes nothing and fails.
    WriteError,
    /// The next write changes the first half and fails.
    ShortWrite,
    /// The next write changes the first half and finds no room.
    NoSpace,
    /// The next sync fails; what it should have kept stays unsynced.
    SyncError,
}

/// A disk that survives the processes that use it.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    /// Raised by a crash; what was opened before fails from then on.
    generation: u64,
    next_inode: u64,
    names: BTreeMap<PathBuf, u64>,
    synced_names: BTreeMap<PathBuf, u64>,
    /// Name changes since the directory was synced, in order.
    unsynced_names: Vec<NameChange>,
    inodes: BTreeMap<u64, Inode>,
    locks: BTreeSet<PathBuf>,
    size_bytes_max: Option<u64>,
    faults: Vec<(Fault, String)>,
    syncs: u64,
}

#[derive(Debug, Clone)]
enum NameChange {
    Set(PathBuf, u64),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

impl SimulatedDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The disk as a file system, until the next crash.
    #[must_use]
    pub fn mount(&self) -> Arc<dyn Filesystem> {
        let generation = self.disk().generation;
        Arc::new(Mount { disk: self.clone(), generation })
    }

    /// Cuts the power: of what was not synced, arbitrary parts are lost, picked by `seed`. All mounts end.
    pub fn crash(&self, seed: u64) {
        let mut dice = Dice(seed);
        let mut disk = self.disk();
        disk.generation += 1;
        disk.locks.clear();
        disk.faults.clear();
        let changes = std::mem::take(&mut disk.unsynced_names);
        let kept = dice.below(changes.len() as u64 + 1);
        let mut names = std::mem::take(&mut disk.synced_names);
        for change in changes.into_iter().take(usize::try_from(kept).unwrap_or(0)) {
            change.apply(&mut names);
        }
        disk.synced_names = names.clone();
        disk.names = names;
        for inode in disk.inodes.values_mut() {
            inode.crash(&mut dice);
        }
    }

    /// Kills the process: nothing is lost. All mounts end.
    pub fn kill(&self) {
        let mut disk = self.disk();
        disk.generation += 1;
        disk.locks.clear();
        disk.faults.clear();
    }

    /// Lets an operation on the next file whose name contains `name` fail as `fault` says.
    pub fn inject(&self, fault: Fault, name: &str) {
        self.disk().faults.push((fault, name.to_owned()));
    }

    /// Faults not met yet.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.disk().faults.len()
    }

    /// Limits all files together to so many bytes.
    pub fn set_size_bytes_max(&self, size_bytes_max: Option<u64>) {
        self.disk().size_bytes_max = size_bytes_max;
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.disk().size_bytes()
    }

    /// Number of successful syncs of files so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.disk().syncs
    }

    /// Paths of all files, in order.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk().names.keys().cloned().collect()
    }

    /// A file's bytes; empty when there is none.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let disk = self.disk();
        disk.names
            .get(path)
            .and_then(|inode| disk.inodes.get(inode))
            .map(|inode| inode.bytes.clone())
            .unwrap_or_default()
    }

    /// Replaces a file's bytes behind everybody's back, durably.
    pub fn set_bytes(&self, path: &Path, bytes: Vec<u8>) {
        let mut disk = self.disk();
        let Some(inode) = disk.names.get(path).copied() else { return };
        disk.inodes.insert(inode, Inode { synced: bytes.clone(), bytes, unsynced: Vec::new() });
    }

    /// Removes a file behind everybody's back, durably.
    pub fn remove_file(&self, path: &Path) {
        let mut disk = self.disk();
        disk.names.remove(path);
        disk.synced_names.remove(path);
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Set(path, inode) => {
                names.retain(|_, other| *other != inode);
                names.insert(path, inode);
            }
            Self::Remove(path) => {
                names.remove(&path);
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, written) => {
                let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                let end = start + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                if let Some(place) = bytes.get_mut(start..end) {
                    place.copy_from_slice(written);
                }
            }
            Self::SetLen(len) => bytes.resize(usize::try_from(*len).unwrap_or(usize::MAX), 0),
        }
    }
}

impl Inode {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    /// Keeps of each unsynced change all, nothing, or some part, down to single bytes.
    fn crash(&mut self, dice: &mut Dice) {
        for change in std::mem::take(&mut self.unsynced) {
            let kept = match (dice.below(4), change) {
                (0, _) => continue,
                (1, change) => change,
                (_, Change::SetLen(len)) => Change::SetLen(len),
                (_, Change::Write(offset, bytes)) => {
                    let len = bytes.len() as u64;
                    let start = if dice.below(2) == 0 { 0 } else { dice.below(len + 1) };
                    let end = start + dice.below(len - start + 1);
                    let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
                    Change::Write(offset + start, bytes.get(range).unwrap_or_default().to_vec())
                }
            };
            kept.apply(&mut self.synced);
        }
        self.bytes = self.synced.clone();
    }
}

impl Disk {
    fn size_bytes(&self) -> u64 {
        self.names
            .values()
            .filter_map(|inode| self.inodes.get(inode))
            .map(|inode| inode.bytes.len() as u64)
            .sum()
    }

    fn free_bytes(&self) -> u64 {
        self.size_bytes_max.map_or(UNLIMITED_BYTES, |max| max.saturating_sub(self.size_bytes()))
    }

    fn rename_entry(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    /// Takes the first fault meant for this kind of operation on this file.
    fn fault(&mut self, path: &Path, is_meant: impl Fn(Fault) -> bool) -> Option<Fault> {
        let name = path.to_string_lossy();
        let place = self.faults.iter().position(|(fault, part)| is_meant(*fault) && name.contains(part))?;
        Some(self.faults.remove(place).0)
    }
}

/// SplitMix64: a seed picks every loss of a crash.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}
