//! The descriptors of segment files: kept open while frames are appended, otherwise opened when a file is read. Only a
//! bounded number of recently used ones stays open, so descriptors don't grow with the log.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::filesystem::{File, Filesystem};

/// Most descriptors kept for reading.
const OPEN_MAX: usize = 64;
/// Fewest descriptors kept: a scan that alternates between a few segments should not reopen them repeatedly.
const OPEN_MIN: usize = 4;
/// Descriptors kept for reading are at most the process's limit divided by this.
const SHARE: usize = 8;

/// Files open for reading, the most recently used last.
#[derive(Debug)]
pub(super) struct Descriptors {
    filesystem: Arc<dyn Filesystem>,
    open_max: usize,
    open: Mutex<VecDeque<(u32, Arc<dyn File>)>>,
}

impl Descriptors {
    pub(super) fn new(filesystem: Arc<dyn Filesystem>) -> Arc<Self> {
        let open_max = filesystem.descriptors_max().map_or(OPEN_MAX, |max| max / SHARE);
        Arc::new(Self { filesystem, open_max: open_max.clamp(OPEN_MIN, OPEN_MAX), open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u32, Arc<dyn File>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: u32, path: &Path) -> io::Result<Arc<dyn File>> {
        {
            let mut open = self.lock();
            let place = open.iter().position(|(found, _)| *found == id);
            if let Some(entry) = place.and_then(|place| open.remove(place)) {
                let file = Arc::clone(&entry.1);
                open.push_back(entry);
                return Ok(file);
            }
        }
        let file = match self.filesystem.open(path, false) {
            Err(error) if is_out_of_descriptors(&error) => {
                self.clear();
                self.filesystem.open(path, false)?
            }
            opened => opened?,
        };
        self.put(id, Arc::clone(&file));
        Ok(file)
    }

    /// The file of this segment, if it is open.
    fn opened(&self, id: u32) -> Option<Arc<dyn File>> {
        self.lock().iter().find(|(found, _)| *found == id).map(|(_, file)| Arc::clone(file))
    }

    fn put(&self, id: u32, file: Arc<dyn File>) {
        let mut open = self.lock();
        open.retain(|(found, _)| *found != id);
        open.push_back((id, file));
        let excess = open.len().saturating_sub(self.open_max);
        open.drain(..excess);
    }

    /// Closes all.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn remove(&self, id: u32) {
        self.lock().retain(|(found, _)| *found != id);
    }
}

/// `EMFILE` or `ENFILE`.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    errno.is_some_and(|errno| matches!(errno, rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// A segment's file as a [`File`] that is opened when it is needed.
#[derive(Debug)]
pub(super) struct Handle {
    id: u32,
    path: PathBuf,
    descriptors: Arc<Descriptors>,
    /// The descriptor while frames are being appended.
    kept: Mutex<Option<Arc<dyn File>>>,
}

impl Handle {
    /// A handle whose file stays open until [`File::release`].
    pub(super) fn keep(
        descriptors: &Arc<Descriptors>,
        id: u32,
        path: &Path,
        file: Arc<dyn File>,
    ) -> Arc<dyn File> {
        let kept = Mutex::new(Some(file));
        Arc::new(Self { id, path: path.to_owned(), descriptors: Arc::clone(descriptors), kept })
    }

    fn kept(&self) -> MutexGuard<'_, Option<Arc<dyn File>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> io::Result<Arc<dyn File>> {
        let kept = self.kept().clone();
        kept.map_or_else(|| self.descriptors.get(self.id, &self.path), Ok)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.descriptors.remove(self.id);
    }
}

impl File for Handle {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file()?.read_exact_at(buffer, offset)
    }

    /// Never opens the file, because that may wait for a disk.
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let kept = self.kept().clone();
        let open = kept.or_else(|| self.descriptors.opened(self.id));
        open.ok_or(io::ErrorKind::WouldBlock)?.read_cached_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file()?.write_all_at(bytes, offset)
    }

    fn write_all_vectored_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file()?.write_all_vectored_at(slices, offset)
    }

    fn begin_to_sync(&self, offset: u64, bytes: u64) {
        if let Ok(file) = self.file() {
            file.begin_to_sync(offset, bytes);
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file()?.sync_data()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file()?.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file()?.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file()?.len()
    }

    fn drop_cached(&self, offset: u64, bytes: u64) {
        // The next reader gets the error if the file can't be opened.
        if let Ok(file) = self.file() {
            file.drop_cached(offset, bytes);
        }
    }

    fn release(&self) {
        if let Some(file) = self.kept().take() {
            self.descriptors.put(self.id, file);
        }
    }
}
