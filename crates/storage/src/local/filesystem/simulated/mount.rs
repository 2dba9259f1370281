//! The disk as one process sees it: files, names and locks until the next crash.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use super::{Change, Disk, Fault, Inode, NameChange, SimulatedDisk};
use crate::local::filesystem::{File, Filesystem, Lock};

/// A process's view of the disk.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) disk: SimulatedDisk,
    pub(super) generation: u64,
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
        let inode = disk.names.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        disk.rename_entry(NameChange::Set(to.to_owned(), inode));
        Ok(())
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

    fn len(&self) -> io::Result<u64> {
        self.with(|inode| inode.bytes.len() as u64)
    }
}
