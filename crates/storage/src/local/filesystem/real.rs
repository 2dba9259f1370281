//! The operating system's file system.

use std::fs;
#[cfg(target_os = "linux")]
use std::io::IoSliceMut;
use std::io::{self, IoSlice, Read, Seek, Write};
#[cfg(not(target_vendor = "apple"))]
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::fs::OFlags;
#[cfg(not(target_vendor = "apple"))]
use rustix::fs::{Advice, fadvise};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::{Errno, pwritev, retry_on_intr};
#[cfg(target_os = "linux")]
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::process::{Resource, getrlimit};

use super::{File, FileIdentity, Filesystem, Lock, OpenDirectory};

#[cfg(target_os = "linux")]
mod write_back;

/// Slices of one system call: every system accepts this many (`IOV_MAX`).
const SLICES_MAX: usize = 1_024;

/// Files contain messages and rules, so only the owner may read them.
fn own(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.mode(0o600)
}

/// The machine's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFilesystem;

/// The operating system's advisory lock lives as long as the open file.
#[derive(Debug)]
struct FileLock(#[expect(dead_code, reason = "dropping it unlocks")] fs::File);

impl Lock for FileLock {}

#[derive(Debug)]
struct Directory(fs::File);

impl OpenDirectory for Directory {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Filesystem for RealFilesystem {
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn lock(&self, path: &Path, create: bool) -> io::Result<Box<dyn Lock>> {
        let mut file =
            own(fs::OpenOptions::new().read(true).write(create).create(create).truncate(false)).open(path)?;
        let locked = loop {
            match file.try_lock() {
                // File systems on a network may be interrupted.
                Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => break locked,
            }
        };
        match locked {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.take(64).read_to_string(&mut owner);
                return Err(io::Error::new(io::ErrorKind::WouldBlock, owner.trim().to_owned()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        if create {
            // Only information for other processes; on a full disk there may be no room for it.
            let _ = file.set_len(0);
            let _ = file.rewind();
            let _ = writeln!(file, "process {}", std::process::id());
        }
        Ok(Box::new(FileLock(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file =
            own(fs::OpenOptions::new().read(true).write(true).create(true).truncate(true)).open(path)?;
        Ok(Arc::new(file))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(own(fs::OpenOptions::new().read(true).write(true).create_new(true)).open(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(fs::OpenOptions::new().read(true).write(write).open(path)?))
    }

    #[cfg(target_os = "linux")]
    fn open_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or_default();
        match fs::OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(file) => Ok(Arc::new(file)),
            // The file system does not support it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.open(path, true),
            Err(error) => Err(error),
        }
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

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let metadata = fs::metadata(path)?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn open_directory(&self, directory: &Path) -> io::Result<Box<dyn OpenDirectory>> {
        Ok(Box::new(Directory(fs::File::open(directory)?)))
    }

    fn descriptors_max(&self) -> Option<usize> {
        let max = getrlimit(Resource::Nofile).current?;
        usize::try_from(max).ok()
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

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = buffer.len();
        // Fewer bytes are returned if the rest is not in memory.
        let read = preadv2(self, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)?;
        if read == wanted { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn write_all_vectored_at(&self, mut slices: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        // Skips empty slices at the start, so that a list of only empty ones is empty.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let some = slices.get(..slices.len().min(SLICES_MAX)).unwrap_or_default();
            match pwritev(self, some, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut slices, written);
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn begin_to_sync(&self, offset: u64, bytes: u64) {
        // A file system that doesn't support it writes everything at the sync.
        let _ = write_back::begin(self, offset, bytes);
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        // tmpfs reports a signal meanwhile.
        Ok(retry_on_intr(|| fallocate(self, FallocateFlags::empty(), 0, bytes))?)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        fs::File::set_len(self, bytes)
    }

    #[cfg(not(target_vendor = "apple"))]
    fn drop_cached(&self, offset: u64, bytes: u64) {
        // Ignored by file systems without a page cache or this operation.
        let _ = fadvise(self, offset, NonZeroU64::new(bytes), Advice::DontNeed);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_written_one_behind_the_other_however_many_there_are() {
        let directory = tempfile::tempdir().unwrap();
        let file = RealFilesystem.create(&directory.path().join("file")).unwrap();
        // More slices than one system call accepts, with empty ones between them and at both ends.
        let parts: Vec<Vec<u8>> = (0..3_000_usize).map(|at| vec![at.to_le_bytes()[0]; at % 7]).collect();
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        file.write_all_vectored_at(&mut slices, 5).unwrap();
        let expected = parts.concat();
        let mut read = vec![0; expected.len()];
        file.read_exact_at(&mut read, 5).unwrap();
        assert!(read == expected && file.len().unwrap() == 5 + expected.len() as u64);
        file.write_all_vectored_at(&mut [IoSlice::new(&[])], 0).unwrap();
    }
}
