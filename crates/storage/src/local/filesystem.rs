//! The one port to files: everything the log does to a disk passes here, so that tests can break it.

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

/// What the log needs of a file system.
pub trait Filesystem: Debug + Send + Sync + 'static {
    /// Creates `directory`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], [`io::ErrorKind::NotFound`] when its parent is missing, whatever else the
    /// operating system says.
    fn make_directory(&self, directory: &Path) -> io::Result<()>;

    /// Creates `directory` and its parents, durably; no error when it exists.
    ///
    /// # Errors
    /// Whatever the operating system says.
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
    /// Whatever the operating system says.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Locks the file at `path` (created if `create`) against all other processes until the lock is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] with the owner as text when another process holds it.
    fn lock(&self, path: &Path, create: bool) -> io::Result<Box<dyn Lock>>;

    /// Creates or empties the file at `path`.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file, for writing too if `write`.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>>;

    /// Renames a file, replacing `to`.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file at `from` a second name, `to`, which must be free.
    ///
    /// # Errors
    /// Whatever the operating system says; two file systems never share a file.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// How many names the file at `path` has.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn links(&self, path: &Path) -> io::Result<u64>;

    /// Removes a file.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Opens `directory`, so that a later sync of it needs no descriptor.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn open_directory(&self, directory: &Path) -> io::Result<Box<dyn OpenDirectory>>;

    /// Makes creations, renames and removals in `directory` durable.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.open_directory(directory)?.sync()
    }

    /// How many descriptors the process may have open, if that is limited.
    fn descriptors_max(&self) -> Option<usize> {
        None
    }

    /// A number for the salt of a new file: random enough that no earlier life of the file, nor anybody's message, carries
    /// it by chance.
    fn draw_salt(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::process::id())
    }

    /// Bytes that an unprivileged process may still allocate where `directory` lives.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;
}

/// An open file. All positions are absolute, so that threads can share it.
pub trait File: Debug + Send + Sync {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// The same without waiting for a disk. After an error, `buffer` may hold anything.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when not all of it is in memory, whatever the operating system says where it can't tell.
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let _ = (buffer, offset);
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Writes all of `bytes` at `offset`, extending the file where needed.
    ///
    /// # Errors
    /// Whatever the operating system says; some of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all of `slices` at `offset`, one behind the other; what the slices are afterwards is not said.
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

    /// Lets the system begin to write these bytes to the disk; waits at most for a place in the disk's queue. A hint: nothing is
    /// durable by it, and [`Self::sync_data`] reports what fails.
    fn begin_to_sync(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Makes the file's bytes and length durable.
    ///
    /// # Errors
    /// Whatever the operating system says; after an error nothing is known about earlier writes.
    fn sync_data(&self) -> io::Result<()>;

    /// Reserves disk blocks for `bytes` from the beginning and extends the file to that length.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] without room, [`io::ErrorKind::Unsupported`] where it is not offered.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Cuts or extends the file to `bytes`.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Lets the next reading of these bytes come from the disk, as far as the system can do that.
    fn drop_cached(&self, offset: u64, bytes: u64);

    /// The file's length in bytes.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn len(&self) -> io::Result<u64>;

    /// From now on the file is only read: a descriptor that is held for writing may be closed.
    fn release(&self) {}

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// An open directory.
pub trait OpenDirectory: Debug + Send + Sync {
    /// Makes creations, renames and removals in the directory durable.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn sync(&self) -> io::Result<()>;
}

/// Held while the data directory is ours.
pub trait Lock: Debug + Send + Sync {}
