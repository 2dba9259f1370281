//! The only port to files: all disk operations of the log use it, so that tests can inject faults.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

mod real;
#[cfg(any(test, feature = "testing"))]
mod simulated;

pub use real::RealFilesystem;
#[cfg(any(test, feature = "testing"))]
pub use simulated::{Call, Event, Fault, SimulatedDisk};

/// Unit of writes past the page cache: the largest logical block of usual disks.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Identity of a file, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
}

/// File system operations needed by the log.
pub trait Filesystem: Debug + Send + Sync + 'static {
    /// Creates `directory`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], [`io::ErrorKind::NotFound`] when its parent is missing, or another error of
    /// the operating system.
    fn make_directory(&self, directory: &Path) -> io::Result<()>;

    /// Creates `directory` and its parents, durably; no error when it exists.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
        let made = self.make_directory(directory);
        match (made, parent) {
            (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                self.create_directory(parent)?;
                self.make_directory(directory)?;
            }
            (made, _) => made?,
        }
        self.sync_directory(parent.unwrap_or(Path::new(".")))
    }

    /// The names of the files in `directory`, in no order.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Locks the file at `path` (created if `create`) against all other processes until the lock is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] with the owner as text when another process holds it.
    fn lock(&self, path: &Path, create: bool) -> io::Result<Box<dyn Lock>>;

    /// Creates or empties the file at `path`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Creates the file at `path`, which must not exist: another process that creates it at the same time fails.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or another error of the operating system.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file, for writing too if `write`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for writing whole blocks past the page cache, as far as the file system supports that. A
    /// write whose memory, position or length is no multiple of 4096 bytes may be refused as [`InvalidInput`]. No other
    /// descriptor of the file may be written to meanwhile.
    ///
    /// [`InvalidInput`]: io::ErrorKind::InvalidInput
    ///
    /// # Errors
    /// Errors of the operating system.
    fn open_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path, true)
    }

    /// Renames a file, replacing `to`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file at `from` a second name, `to`, which must be free.
    ///
    /// # Errors
    /// Errors of the operating system; files can't be linked across file systems.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The number of names of the file at `path`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn links(&self, path: &Path) -> io::Result<u64>;

    /// The identity of the file at `path`, which no other file has as long as this one exists.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;

    /// Removes a file.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Opens `directory`, so that a later sync needs no new descriptor.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn open_directory(&self, directory: &Path) -> io::Result<Box<dyn OpenDirectory>>;

    /// Makes creations, renames and removals in `directory` durable.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.open_directory(directory)?.sync()
    }

    /// The process's limit of open descriptors, if there is one.
    fn descriptors_max(&self) -> Option<usize> {
        None
    }

    /// A number for the salt of a new file, random enough that no earlier use of the file and no message contains it by
    /// chance.
    fn draw_salt(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::process::id())
    }

    /// Bytes that an unprivileged process may still allocate on the file system of `directory`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;
}

/// An open file. All positions are absolute, so that threads can share it.
pub trait File: Debug + Send + Sync {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Like [`Self::read_exact_at`], but without waiting for a disk. After an error, the contents of `buffer` are
    /// unspecified.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when not all bytes are in memory; errors of the operating system where it can't
    /// tell.
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let _ = (buffer, offset);
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Writes all of `bytes` at `offset`, extending the file where needed.
    ///
    /// # Errors
    /// Errors of the operating system; some of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all of `slices` consecutively at `offset`; the state of the slices afterwards is unspecified.
    ///
    /// # Errors
    /// Those of [`Self::write_all_at`].
    fn write_all_vectored_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut written = 0;
        for slice in slices {
            self.write_all_at(slice, offset + written)?;
            written += slice.len() as u64;
        }
        Ok(())
    }

    /// Lets the system begin to write these bytes to the disk; waits at most for a place in the disk's queue. It is
    /// only a hint: it makes nothing durable, and [`Self::sync_data`] reports failures.
    fn begin_to_sync(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Makes the file's bytes and length durable.
    ///
    /// # Errors
    /// Errors of the operating system; after an error the state of earlier writes is unknown.
    fn sync_data(&self) -> io::Result<()>;

    /// Reserves disk blocks for `bytes` from the beginning and extends the file to that length.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] without room, [`io::ErrorKind::Unsupported`] where it is not supported.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Cuts or extends the file to `bytes`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Drops these bytes from the page cache, as far as the system supports that, so that the next read comes from the
    /// disk.
    fn drop_cached(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// The file's length in bytes.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn len(&self) -> io::Result<u64>;

    /// Declares that the file is only read from now on: a descriptor held for writing may be closed.
    fn release(&self) {}

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// An open directory.
pub trait OpenDirectory: Debug + Send + Sync {
    /// Makes creations, renames and removals in the directory durable.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn sync(&self) -> io::Result<()>;
}

/// Lock of the data directory, released when dropped.
pub trait Lock: Debug + Send + Sync {}
