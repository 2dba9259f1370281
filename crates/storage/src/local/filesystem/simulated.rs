//! A disk in memory with fault injection: it tracks which writes were synced, and loses the others in a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Filesystem;

mod inode;
mod mount;
mod names;
mod plan;

use inode::{Change, Inode, SeededRandom};
use mount::Mount;
use names::{NameChange, Names};
use plan::Plan;
pub use plan::{Call, Event};

/// Free bytes of a disk without a limit.
const UNLIMITED_BYTES: u64 = 1 << 50;

/// A failure injected once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The next write changes nothing and fails.
    WriteError,
    /// The next write changes the first half and fails.
    ShortWrite,
    /// The next write changes the first half and fails for lack of space.
    NoSpace,
    /// The next sync fails; its changes stay unsynced.
    SyncError,
    /// The next sync fails; its changes can still be read, but no later sync writes them, and the next power cut loses
    /// them. ext4 and XFS behave like this.
    SyncLost,
}

impl Fault {
    fn is_of_a_write(self) -> bool {
        !matches!(self, Self::SyncError | Self::SyncLost)
    }
}

/// A disk that outlives the processes that use it.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    /// Incremented by a crash; handles opened before fail from then on.
    generation: u64,
    next_inode: u64,
    names: Names,
    inodes: BTreeMap<u64, Inode>,
    locks: BTreeSet<PathBuf>,
    size_bytes_max: Option<u64>,
    descriptors: usize,
    descriptors_most: usize,
    descriptors_max: Option<usize>,
    /// Whether a position of a file is in memory; nothing is if this is `None`.
    is_cached: Option<fn(u64) -> bool>,
    faults: Vec<(Fault, String)>,
    plan: Plan,
    syncs: u64,
    /// Salts drawn so far, over all mounts of the disk, so that they depend on the history alone.
    salts: u64,
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

    /// Cuts the power: arbitrary parts of the unsynced changes, selected by `seed`, are lost. All mounts end.
    pub fn crash(&self, seed: u64) {
        self.disk().crash(seed);
    }

    /// Kills the process: nothing is lost. All mounts end.
    pub fn kill(&self) {
        let mut disk = self.disk();
        disk.end_mounts();
        disk.clear_faults();
    }

    /// Kills the process like [`SimulatedDisk::kill`], but keeps the planned events.
    pub fn end_process(&self) {
        self.disk().end_mounts();
    }

    /// Makes an operation on the next file whose name contains `name` fail with `fault`.
    pub fn inject(&self, fault: Fault, name: &str) {
        self.disk().faults.push((fault, name.to_owned()));
    }

    /// Plans an `event` for a call on a path that contains `name`, after `pass` other calls of the same kind (of any
    /// kind if `None`).
    pub fn plan(&self, call: Option<Call>, name: &str, pass: u64, event: Event) {
        self.disk().plan.add(call, name, pass, event);
    }

    /// Number of power cuts and kills.
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.disk().generation
    }

    /// Number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.disk().plan.calls
    }

    /// Blocks every operation until the returned guard is dropped, so that work accumulates behind a slow disk.
    #[must_use]
    pub fn freeze(&self) -> impl Drop + '_ {
        self.disk()
    }

    /// Number of faults and planned events that have not occurred yet.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        let disk = self.disk();
        disk.faults.len() + disk.plan.len()
    }

    /// Removes all faults and planned events that have not occurred yet.
    pub fn clear_faults(&self) {
        self.disk().clear_faults();
    }

    /// Drops all clean pages from the cache, including those that a failed sync has lost.
    pub fn drop_caches(&self) {
        self.disk().inodes.values_mut().for_each(Inode::evict);
    }

    /// Limits the total size of all files to this many bytes.
    pub fn set_size_bytes_max(&self, size_bytes_max: Option<u64>) {
        self.disk().size_bytes_max = size_bytes_max;
    }

    /// Limits the number of files and directories that are open at a time.
    pub fn set_descriptors_max(&self, descriptors_max: Option<usize>) {
        self.disk().descriptors_max = descriptors_max;
    }

    /// Sets which positions of each file are in memory and can be read without waiting for the disk.
    pub fn set_cached(&self, is_cached: fn(u64) -> bool) {
        self.disk().is_cached = Some(is_cached);
    }

    /// The largest number of files and directories that were open at a time.
    #[must_use]
    pub fn descriptors_most(&self) -> usize {
        self.disk().descriptors_most
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
        self.disk().names.files.keys().cloned().collect()
    }

    /// A file's bytes; empty when there is none.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let disk = self.disk();
        let inode = disk.names.files.get(path).and_then(|inode| disk.inodes.get(inode));
        inode.map(|inode| inode.bytes.clone()).unwrap_or_default()
    }

    /// Replaces a file's bytes durably, without the processes' knowledge.
    pub fn set_bytes(&self, path: &Path, bytes: Vec<u8>) {
        let mut disk = self.disk();
        let Some(inode) = disk.names.files.get(path).copied() else { return };
        disk.inodes.insert(inode, Inode { synced: bytes.clone(), bytes, unsynced: Vec::new() });
    }

    /// Changes one byte of a file durably, without the processes' knowledge; open files read the change.
    pub fn rot(&self, path: &Path, offset: u64) {
        let mut disk = self.disk();
        let Some(inode) = disk.names.files.get(path).copied() else { return };
        let Some(inode) = disk.inodes.get_mut(&inode) else { return };
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        for bytes in [&mut inode.bytes, &mut inode.synced] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0xff;
            }
        }
    }

    /// Removes a file durably, without the processes' knowledge.
    pub fn remove_file(&self, path: &Path) {
        self.disk().names.erase(path);
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn crash(&mut self, seed: u64) {
        let mut dice = SeededRandom(seed);
        self.end_mounts();
        self.clear_faults();
        self.names.crash(&mut dice);
        for inode in self.inodes.values_mut() {
            inode.crash(&mut dice);
        }
    }

    fn end_mounts(&mut self) {
        self.generation += 1;
        self.locks.clear();
        self.descriptors = 0;
    }

    fn clear_faults(&mut self) {
        self.faults.clear();
        self.plan.clear();
    }

    fn size_bytes(&self) -> u64 {
        let inodes = self.names.files.values().filter_map(|inode| self.inodes.get(inode));
        inodes.map(|inode| inode.bytes.len() as u64).sum()
    }

    fn free_bytes(&self) -> u64 {
        self.size_bytes_max.map_or(UNLIMITED_BYTES, |max| max.saturating_sub(self.size_bytes()))
    }

    /// Creates or empties a file.
    fn create(&mut self, path: &Path) -> u64 {
        if let Some(inode) = self.names.files.get(path).copied()
            && let Some(found) = self.inodes.get_mut(&inode)
        {
            found.change(Change::SetLen(0));
            return inode;
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.names.change(NameChange::Create(path.to_owned(), inode));
        inode
    }

    fn inode(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Removes and returns the first fault for this kind of operation on this file.
    fn fault(&mut self, path: &Path, is_meant: impl Fn(Fault) -> bool) -> Option<Fault> {
        let name = path.to_string_lossy();
        let place = self.faults.iter().position(|(fault, part)| is_meant(*fault) && name.contains(part))?;
        Some(self.faults.remove(place).0)
    }
}
