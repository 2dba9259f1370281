//! A disk in memory that can be broken on purpose: it knows what was synced, and forgets the rest in a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{File, Filesystem, Lock};

mod inode;

use inode::{Change, Dice, Inode};

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
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
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

    /// Lets every operation wait until what this returns is dropped, so that work can pile up behind a slow disk.
    #[must_use]
    pub fn freeze(&self) -> impl Drop + '_ {
        self.disk()
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

    /// Changes one byte of a file behind everybody's back, durably: who has it open reads the change.
    pub fn rot(&self, path: &Path, offset: u64) {
        let mut disk = self.disk();
        let Some(inode) = disk.names.get(path).copied() else { return };
        let Some(inode) = disk.inodes.get_mut(&inode) else { return };
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        for bytes in [&mut inode.bytes, &mut inode.synced] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0xff;
            }
        }
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
                names.insert(path, inode);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
            Self::Remove(path) => {
                names.remove(&path);
            }
        }
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

/// A process's view of the disk.
#[derive(Debug)]
struct Mount {
    disk: SimulatedDisk,
    generation: u64,
}

impl Mount {
    fn disk(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk.disk();
        if disk.generation != self.generation {
            return Err(io::Error::other("the machine crashed"));
        }
        Ok(disk)
    }

    fn file(&self, path: &Path, inode: u64) -> Arc<dyn File> {
        let mount = Mount { disk: self.disk.clone(), generation: self.generation };
        Arc::new(SimulatedFile { mount, path: path.to_owned(), inode })
    }
}

impl Filesystem for Mount {
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        self.disk().map(|_| ())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk()?;
        let inside = disk.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn lock(&self, path: &Path, create: bool) -> io::Result<Box<dyn Lock>> {
        if create && !self.disk()?.names.contains_key(path) {
            self.create(path)?;
        }
        let mut disk = self.disk()?;
        if !disk.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !disk.locks.insert(path.to_owned()) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another simulated process"));
        }
        let mount = Mount { disk: self.disk.clone(), generation: self.generation };
        Ok(Box::new(SimulatedLock { mount, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk()?;
        let inode = disk.next_inode;
        disk.next_inode += 1;
        disk.inodes.insert(inode, Inode::default());
        disk.rename_entry(NameChange::Set(path.to_owned(), inode));
        drop(disk);
        Ok(self.file(path, inode))
    }

    fn open(&self, path: &Path, _: bool) -> io::Result<Arc<dyn File>> {
        let inode = self.disk()?.names.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(path, inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk()?;
        if !disk.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.rename_entry(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk()?;
        let inode = disk.names.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        if disk.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.rename_entry(NameChange::Set(to.to_owned(), inode));
        Ok(())
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        let disk = self.disk()?;
        let inode = disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(disk.names.values().filter(|other| *other == inode).count() as u64)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk()?;
        if !disk.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.rename_entry(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let mut disk = self.disk()?;
        disk.unsynced_names.clear();
        disk.synced_names = disk.names.clone();
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.disk()?.free_bytes())
    }
}

#[derive(Debug)]
struct SimulatedLock {
    mount: Mount,
    path: PathBuf,
}

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        if let Ok(mut disk) = self.mount.disk() {
            disk.locks.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct SimulatedFile {
    mount: Mount,
    path: PathBuf,
    inode: u64,
}

impl SimulatedFile {
    fn with<T>(&self, act: impl FnOnce(&mut Inode) -> T) -> io::Result<T> {
        let mut disk = self.mount.disk()?;
        disk.inodes.get_mut(&self.inode).map(act).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl File for SimulatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|inode| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = inode.bytes.get(start..start.saturating_add(buffer.len()));
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })?
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.mount.disk()?;
        let fault = disk.fault(&self.path, |fault| fault != Fault::SyncError);
        let free_bytes = disk.free_bytes();
        let inode = disk.inodes.get_mut(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        let growth = (offset + bytes.len() as u64).saturating_sub(inode.bytes.len() as u64);
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default().to_vec();
        match fault {
            Some(Fault::WriteError) => Err(io::Error::other("injected write error")),
            Some(Fault::ShortWrite) => {
                inode.change(Change::Write(offset, half));
                Err(io::Error::other("injected short write"))
            }
            Some(_) => {
                inode.change(Change::Write(offset, half));
                Err(io::ErrorKind::StorageFull.into())
            }
            None if growth > free_bytes => Err(io::ErrorKind::StorageFull.into()),
            None => {
                inode.change(Change::Write(offset, bytes.to_vec()));
                Ok(())
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.mount.disk()?;
        if disk.fault(&self.path, |fault| fault == Fault::SyncError).is_some() {
            return Err(io::Error::other("injected sync error"));
        }
        disk.syncs += 1;
        disk.inodes.get_mut(&self.inode).ok_or(io::ErrorKind::NotFound)?.sync();
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let free_bytes = self.mount.disk()?.free_bytes();
        if bytes.saturating_sub(self.len()?) > free_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.set_len(bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.with(|inode| inode.change(Change::SetLen(bytes)))
    }

    fn drop_cached(&self, _: u64, _: u64) {}

    fn len(&self) -> io::Result<u64> {
        self.with(|inode| inode.bytes.len() as u64)
    }
}
