//! The simulated disk as seen by one process: file system, open files and locks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use super::super::{File, FileIdentity, Filesystem, Lock, OpenDirectory};
use super::inode::{Change, SeededRandom};
use super::names::NameChange;
use super::plan::{Call, Event};
use super::{Disk, Fault, SimulatedDisk};

/// `EMFILE`: too many open files.
const EMFILE: i32 = 24;

/// The disk as seen by one process.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) disk: SimulatedDisk,
    pub(super) generation: u64,
}

/// A call in progress: the disk, and the error to report at its end.
type Entered<'a> = (MutexGuard<'a, Disk>, Option<io::Error>);

/// The result of a call that took effect.
fn done<T>(value: T, late: Option<io::Error>) -> io::Result<T> {
    late.map_or(Ok(value), Err)
}

impl Mount {
    /// Begins a call and triggers the events planned for it.
    fn enter(&self, call: Call, path: &Path) -> io::Result<Entered<'_>> {
        let mut disk = self.disk.disk();
        let mut late = None;
        if disk.generation == self.generation {
            match disk.plan.next(call, path) {
                Some(Event::Fail(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                Some(Event::FailLate(errno)) => late = Some(io::Error::from_raw_os_error(errno)),
                Some(Event::PowerCut(seed)) => disk.crash(seed),
                None => {}
            }
        }
        if disk.generation != self.generation {
            return Err(io::Error::other("the machine crashed"));
        }
        Ok((disk, late))
    }

    fn descriptor(&self, disk: &mut Disk) -> io::Result<Descriptor> {
        if disk.descriptors_max.is_some_and(|max| disk.descriptors >= max) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        disk.descriptors += 1;
        disk.descriptors_most = disk.descriptors_most.max(disk.descriptors);
        Ok(Descriptor(self.clone()))
    }
}

/// An open descriptor; it counts towards the limit until it is dropped.
#[derive(Debug)]
struct Descriptor(Mount);

impl Drop for Descriptor {
    fn drop(&mut self) {
        let mut disk = self.0.disk.disk();
        if disk.generation == self.0.generation {
            disk.descriptors = disk.descriptors.saturating_sub(1);
        }
    }
}

impl Filesystem for Mount {
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::MakeDirectory, directory)?;
        let has_parent = |parent: &Path| parent.parent().is_none() || disk.names.directories.contains(parent);
        if disk.names.directories.contains(directory) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !directory.parent().is_none_or(has_parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.names.change(NameChange::MakeDirectory(directory.to_owned()));
        done((), late)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let (mut disk, late) = self.enter(Call::List, directory)?;
        let descriptor = self.descriptor(&mut disk)?;
        let inside = disk.names.files.keys().filter(|path| path.parent() == Some(directory));
        let names =
            inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
        drop(disk);
        drop(descriptor);
        done(names, late)
    }

    fn lock(&self, path: &Path, create: bool) -> io::Result<Box<dyn Lock>> {
        let (mut disk, late) = self.enter(Call::Lock, path)?;
        if disk.locks.contains(path) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another simulated process"));
        }
        if !disk.names.files.contains_key(path) {
            if !create {
                return Err(io::ErrorKind::NotFound.into());
            }
            disk.create(path);
        }
        let descriptor = self.descriptor(&mut disk)?;
        if let Some(late) = late {
            drop(disk);
            return Err(late);
        }
        disk.locks.insert(path.to_owned());
        Ok(Box::new(SimulatedLock { descriptor, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let (mut disk, late) = self.enter(Call::Create, path)?;
        let descriptor = self.descriptor(&mut disk)?;
        let inode = disk.create(path);
        drop(disk);
        done(Arc::new(SimulatedFile { descriptor, path: path.to_owned(), inode }), late)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let (mut disk, late) = self.enter(Call::Create, path)?;
        if disk.names.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let descriptor = self.descriptor(&mut disk)?;
        let inode = disk.create(path);
        drop(disk);
        done(Arc::new(SimulatedFile { descriptor, path: path.to_owned(), inode }), late)
    }

    fn open(&self, path: &Path, _: bool) -> io::Result<Arc<dyn File>> {
        let (mut disk, late) = self.enter(Call::Open, path)?;
        let inode = disk.names.files.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        let descriptor = self.descriptor(&mut disk)?;
        drop(disk);
        done(Arc::new(SimulatedFile { descriptor, path: path.to_owned(), inode }), late)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Rename, to)?;
        let inode = disk.names.files.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        disk.names.change(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        done((), late)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Link, to)?;
        let inode = disk.names.files.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        if disk.names.files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.names.change(NameChange::Create(to.to_owned(), inode));
        done((), late)
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        let (disk, late) = self.enter(Call::Links, path)?;
        let inode = disk.names.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        done(disk.names.files.values().filter(|other| *other == inode).count() as u64, late)
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let (disk, late) = self.enter(Call::Identity, path)?;
        let inode = disk.names.files.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        done(FileIdentity { device: 0, inode }, late)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Remove, path)?;
        if !disk.names.files.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.names.change(NameChange::Remove(path.to_owned()));
        done((), late)
    }

    fn open_directory(&self, directory: &Path) -> io::Result<Box<dyn OpenDirectory>> {
        let (mut disk, late) = self.enter(Call::OpenDirectory, directory)?;
        let descriptor = self.descriptor(&mut disk)?;
        drop(disk);
        done(Box::new(SimulatedDirectory { descriptor, path: directory.to_owned() }), late)
    }

    fn descriptors_max(&self) -> Option<usize> {
        self.disk.disk().descriptors_max
    }

    fn draw_salt(&self) -> u64 {
        let mut disk = self.disk.disk();
        disk.salts += 1;
        SeededRandom(disk.salts).below(u64::MAX)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        let (disk, late) = self.enter(Call::FreeBytes, directory)?;
        done(disk.free_bytes(), late)
    }
}

#[derive(Debug)]
struct SimulatedLock {
    descriptor: Descriptor,
    path: PathBuf,
}

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mount = &self.descriptor.0;
        let mut disk = mount.disk.disk();
        if disk.generation == mount.generation {
            disk.locks.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct SimulatedDirectory {
    descriptor: Descriptor,
    path: PathBuf,
}

impl OpenDirectory for SimulatedDirectory {
    fn sync(&self) -> io::Result<()> {
        let (mut disk, late) = self.descriptor.0.enter(Call::SyncDirectory, &self.path)?;
        match late {
            Some(late) => {
                disk.names.lose(&self.path);
                Err(late)
            }
            None => {
                disk.names.sync(&self.path);
                Ok(())
            }
        }
    }
}

#[derive(Debug)]
struct SimulatedFile {
    descriptor: Descriptor,
    path: PathBuf,
    inode: u64,
}

impl SimulatedFile {
    fn enter(&self, call: Call) -> io::Result<Entered<'_>> {
        self.descriptor.0.enter(call, &self.path)
    }
}

impl File for SimulatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Read)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = disk.inode(self.inode)?.bytes.get(start..start.saturating_add(buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        done((), late)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let is_cached = self.descriptor.0.disk.disk().is_cached;
        if is_cached.is_some_and(|is_cached| is_cached(offset)) {
            return self.read_exact_at(buffer, offset);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Write)?;
        let fault = disk.fault(&self.path, Fault::is_of_a_write);
        let free_bytes = disk.free_bytes();
        let inode = disk.inode(self.inode)?;
        let growth = (offset + bytes.len() as u64).saturating_sub(inode.bytes.len() as u64);
        let half = || Change::Write(offset, bytes.get(..bytes.len() / 2).unwrap_or_default().to_vec());
        match fault {
            Some(Fault::WriteError) => return Err(io::Error::other("injected write error")),
            Some(Fault::ShortWrite) => {
                inode.change(half());
                return Err(io::Error::other("injected short write"));
            }
            Some(_) => {
                inode.change(half());
                return Err(io::ErrorKind::StorageFull.into());
            }
            None if growth > free_bytes => return Err(io::ErrorKind::StorageFull.into()),
            None if late.is_some() => inode.change(half()),
            None => inode.change(Change::Write(offset, bytes.to_vec())),
        }
        done((), late)
    }

    fn sync_data(&self) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Sync)?;
        let fault = disk.fault(&self.path, |fault| !fault.is_of_a_write());
        let mut dice = SeededRandom(disk.plan.calls);
        let inode = disk.inode(self.inode)?;
        if late.is_some() {
            inode.lose(Some(&mut dice));
        } else if fault == Some(Fault::SyncLost) {
            inode.lose(None);
        } else if fault.is_none() {
            inode.sync();
            disk.syncs += 1;
        }
        match fault {
            Some(_) => Err(io::Error::other("injected sync error")),
            None => done((), late),
        }
    }

    fn drop_cached(&self, _: u64, _: u64) {}

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::Allocate)?;
        let free_bytes = disk.free_bytes();
        let inode = disk.inode(self.inode)?;
        let len = inode.bytes.len() as u64;
        if bytes.saturating_sub(len) > free_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = if late.is_some() { bytes / 2 } else { bytes };
        if bytes > len {
            inode.change(Change::SetLen(bytes));
        }
        done((), late)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let (mut disk, late) = self.enter(Call::SetLength)?;
        disk.inode(self.inode)?.change(Change::SetLen(bytes));
        done((), late)
    }

    fn len(&self) -> io::Result<u64> {
        let (mut disk, late) = self.enter(Call::Length)?;
        let len = disk.inode(self.inode)?.bytes.len() as u64;
        done(len, late)
    }
}
