//! File operations of the local CA, as a port: tests let each of them fail.

use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Operations on a directory of certificates. Every error is the system's.
pub(super) trait Files: Debug + Send + Sync {
    /// Whether a file of this name exists.
    fn is_there(&self, path: &Path) -> io::Result<bool>;

    /// The whole text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Creates a directory and its parents, unless it exists.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Creates a new file with the mode `mode`; its text is durable afterwards.
    fn write_new(&self, path: &Path, text: &str, mode: u32) -> io::Result<()>;

    /// Renames a file, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes created, renamed and removed names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Debug)]
pub(super) struct Disk;

impl Files for Disk {
    fn is_there(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write_new(&self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        // The parent of a bare name is the empty path.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::File::open(path)?.sync_all()
    }
}
