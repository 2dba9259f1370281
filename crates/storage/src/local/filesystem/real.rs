//! The operating system's file system.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statvfs};

use super::{File, Filesystem, Lock};

/// Messages, and keys of entities' rules: nobody else on the machine reads what we make.
fn own(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.mode(0o600)
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFilesystem;

/// The operating system's advisory lock lives as long as the open file.
#[derive(Debug)]
struct FileLock(#[expect(dead_code, reason = "dropping it unlocks")] fs::File);

impl Lock for FileLock {}

impl Filesystem for RealFilesystem {
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn lock(&self, path: &Path, create: bool) -> io::Result<Box<dyn Lock>> {
        let mut file =
            own(fs::OpenOptions::new().read(true).write(create).create(create).truncate(false)).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.take(64).read_to_string(&mut owner);
                return Err(io::Error::new(io::ErrorKind::WouldBlock, owner.trim().to_owned()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        if create {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "process {}", std::process::id())?;
        }
        Ok(Box::new(FileLock(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file =
            own(fs::OpenOptions::new().read(true).write(true).create(true).truncate(true)).open(path)?;
        Ok(Arc::new(file))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(fs::OpenOptions::new().read(true).write(write).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.nlink())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        fs::File::open(directory)?.sync_all()
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        let space = statvfs(directory)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

impl File for fs::File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        Ok(fallocate(self, FallocateFlags::empty(), 0, bytes)?)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        fs::File::set_len(self, bytes)
    }

    fn drop_cached(&self, offset: u64, bytes: u64) {
        // A file system that keeps nothing or can't let go of it is read as it is.
        let _ = fadvise(self, offset, NonZeroU64::new(bytes), Advice::DontNeed);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
