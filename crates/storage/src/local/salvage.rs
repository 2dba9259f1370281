//! Salvage of a damaged directory: writes the readable values to a new store and keeps the old files aside.
//!
//! ```text
//! DIR/salvage.new/            the new store, until it is complete
//! DIR/salvage.new/COMPLETE    once it exists, the exchange described below is resumed after any interruption
//! DIR/quarantine/0001/        every segment, hint and manifest of the damaged store, unchanged
//! ```
//! The new store's segments have unused numbers. The exchange moves the old segments to quarantine, the new ones into
//! the directory, the old manifest to quarantine and the new one into the directory, in this order. The directory can't
//! be opened before all steps are done. Nothing is deleted except incomplete copies of an earlier attempt.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;

use super::check::{Report, survey_report};
use super::directory::{Directory, Name, corrupt, unavailable};
use super::filesystem::{Filesystem, Lock, RealFilesystem};
use super::manifest::Manifest;
use super::options::LocalOptions;
use super::store::{LocalStore, lock};
use super::survey::{Survey, no_store};
use crate::{Batch, Error, Key, PartitionId, ShardId, Space};

const NEW_NAME: &str = "salvage.new";
const COMPLETE_NAME: &str = "COMPLETE";
const QUARANTINE_NAME: &str = "quarantine";
/// Most bytes of the values in one batch; a larger value has a batch of its own.
const BATCH_BYTES: usize = 4 << 20;
/// Most values in one batch.
const BATCH_VALUES_MAX: usize = 1024;

/// A closed data directory to be salvaged; locked while this exists.
#[derive(Debug)]
pub struct Salvage {
    directory: Directory,
    survey: Survey,
    /// The first failure to read a value that does not prove its loss.
    failed: OnceLock<Error>,
    _lock: Box<dyn Lock>,
}

impl Salvage {
    /// Reads the directory at `path`; changes nothing, except that it completes an interrupted exchange.
    ///
    /// # Errors
    /// [`Error::Fenced`] while a process uses it, [`Error::Unavailable`] when it is not a data directory or can't be read.
    pub fn begin(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::begin_on(Arc::new(RealFilesystem), path)
    }

    /// Reads the directory at `path` without changing anything.
    ///
    /// # Errors
    /// As [`Self::begin`]; an interrupted exchange is reported as damage.
    pub fn begin_read_only(path: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = Directory::new(path.as_ref(), Arc::new(RealFilesystem));
        let lock = lock(&directory, false)?;
        Self::survey(directory, lock)
    }

    /// Like [`Self::begin`], on another file system.
    ///
    /// # Errors
    /// Those of [`Self::begin`].
    pub fn begin_on(filesystem: Arc<dyn Filesystem>, path: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = Directory::new(path.as_ref(), filesystem);
        let lock = lock(&directory, false)?;
        exchange(&directory)?;
        Self::survey(directory, lock)
    }

    fn survey(directory: Directory, lock: Box<dyn Lock>) -> Result<Self, Error> {
        let survey = Survey::take(&directory)?.ok_or_else(|| no_store(&directory))?;
        Ok(Self { directory, survey, failed: OnceLock::new(), _lock: lock })
    }

    /// The contents of the directory and all damage.
    #[must_use]
    pub fn report(&self) -> Report {
        survey_report(&self.directory, &self.survey)
    }

    /// The live keys of a space, in order.
    #[must_use]
    pub fn keys(&self, space: Space) -> Vec<Key> {
        let index = &self.survey.state.index;
        let mut partitions: Vec<PartitionId> =
            index.partitions().filter(|(found, _)| *found == space).map(|(_, partition)| partition).collect();
        partitions.sort_unstable();
        let keys = |partition| {
            let numbers = index.range(space, partition, 0);
            numbers.map(move |(number, _)| Key::new(space, partition, number))
        };
        partitions.into_iter().flat_map(keys).collect()
    }

    /// One past the highest number found in a partition's space, 0 for none and after its removal as a whole.
    #[must_use]
    pub fn numbers_end(&self, space: Space, partition: PartitionId) -> u64 {
        match self.survey.state.index.numbers_end(space, partition) {
            u64::MAX => 0,
            end => end,
        }
    }

    /// The value of a live key; [`Error::Corrupt`] if it is damaged, `None` if the key does not exist. After any other error,
    /// [`Self::rewrite`] refuses to leave the value out.
    #[must_use]
    pub fn value(&self, key: Key) -> Option<Result<Bytes, Error>> {
        let value = self.survey.value(key)?;
        if let Err(error) = &value
            && !matches!(error, Error::Corrupt { .. })
        {
            let _ = self.failed.set(error.clone());
        }
        Some(value)
    }

    /// Refuses to go on if a value could not be read although it may be intact.
    fn refuse_unread(&self) -> Result<(), Error> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The destination of the old files, for [`Self::rewrite`]: a directory without files of a store.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the directory can't be read.
    pub fn quarantine(&self) -> Result<PathBuf, Error> {
        next_quarantine(&self.directory)
    }

    /// Writes a new store with `more` and every readable value that `keep` selects, and replaces the old store, whose
    /// files are moved to `quarantine` (see [`Self::quarantine`]).
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::System`] or [`Error::Full`]; either the old store is unchanged, or the next attempt
    /// completes the exchange.
    pub fn rewrite(
        self,
        quarantine: &Path,
        keep: impl Fn(Key) -> bool,
        more: Vec<(Key, Bytes)>,
        options: LocalOptions,
    ) -> Result<(), Error> {
        self.refuse_unread()?;
        let new = inside(&self.directory, NEW_NAME);
        let make = |path: &Path| {
            let made = self.directory.filesystem.create_directory(path);
            made.map_err(|error| unavailable(path, &error))
        };
        make(&new.path)?;
        for name in list(&new)? {
            new.discard(&new.path.join(name));
        }
        self.write(&new, keep, more, options)?;
        self.refuse_unread()?;
        make(quarantine)?;
        let complete = new.path.join(COMPLETE_NAME);
        let name = quarantine.file_name().unwrap_or_default().to_string_lossy();
        let first_new = Manifest::load(&new)?.and_then(|new| new.segments.iter().map(|one| one.id).min());
        let text = format!("{name} {}", first_new.unwrap_or(u32::MAX));
        let mark = || {
            // Written under another name and renamed, because a half-written file would be a different instruction.
            let unsynced = new.path.join(format!("{COMPLETE_NAME}.new"));
            let file = new.filesystem.create(&unsynced)?;
            file.write_all_at(text.as_bytes(), 0)?;
            file.sync_data()?;
            new.filesystem.rename(&unsynced, &complete)?;
            new.filesystem.sync_directory(&new.path)?;
            new.filesystem.sync_directory(&self.directory.path)
        };
        mark().map_err(|error| unavailable(&complete, &error))?;
        exchange(&self.directory)
    }

    fn write(
        &self,
        new: &Directory,
        keep: impl Fn(Key) -> bool,
        more: Vec<(Key, Bytes)>,
        options: LocalOptions,
    ) -> Result<(), Error> {
        let next_id = first_free_id(&self.directory, &self.survey.manifest)?;
        let manifest = Manifest { next_id, epoch: self.survey.manifest.epoch, ..Manifest::default() };
        manifest.store(new).map_err(|error| unavailable(&new.path, error.error()))?;
        let store = LocalStore::open_on(Arc::clone(&new.filesystem), &new.path, options)?;
        let lease = store.acquire_now(ShardId(0))?;
        let shard = lease.shard();
        let mut batch = Batch::new();
        let keys = Space::ALL.into_iter().flat_map(|space| self.keys(space)).filter(|key| keep(*key));
        let values = keys.filter_map(|key| Some((key, self.value(key)?.ok()?)));
        for (key, value) in values.chain(more) {
            batch.put(key, value);
            if batch.value_bytes() >= BATCH_BYTES || batch.len() >= BATCH_VALUES_MAX {
                wait(shard.submit(std::mem::take(&mut batch)))?;
            }
        }
        if !batch.is_empty() {
            wait(shard.submit(batch))?;
        }
        store.close();
        Ok(())
    }
}

/// Refuses a directory with an unfinished exchange, which would put newly stored data aside.
pub(super) fn check_unfinished(directory: &Directory) -> Result<(), Error> {
    let complete = inside(directory, NEW_NAME).path.join(COMPLETE_NAME);
    match directory.filesystem.open(&complete, false) {
        Ok(_) => {
            Err(corrupt(&complete, 0, "a salvage was interrupted: `peeklock store salvage` completes it"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unavailable(&complete, &error)),
    }
}

/// Resumes the exchange if the new store is complete; otherwise does nothing.
fn exchange(directory: &Directory) -> Result<(), Error> {
    let new = inside(directory, NEW_NAME);
    let complete = new.path.join(COMPLETE_NAME);
    let marker = match new.filesystem.open(&complete, false) {
        Ok(marker) => marker,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // A new attempt would discard the new store, whose files may already be in the directory.
        Err(error) => return Err(unavailable(&complete, &error)),
    };
    let filesystem = &directory.filesystem;
    let work = || -> io::Result<()> {
        let mut text = vec![0; usize::try_from(marker.len()?).unwrap_or(0)];
        marker.read_exact_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let (name, first_new) = text.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
        let first_new: u32 = first_new.parse().map_err(io::Error::other)?;
        let quarantine = directory.path.join(QUARANTINE_NAME).join(name);
        let manifest = directory.manifest_path();
        let new_manifest = new.manifest_path();
        let names = filesystem.list(&new.path)?;
        if names.iter().any(|name| Name::parse(name) == Name::Manifest) {
            let is_segment = |name: &&String| matches!(Name::parse(name), Name::Segment(_) | Name::Hint(_));
            for name in filesystem.list(&directory.path)?.iter().filter(is_segment) {
                if id_of(name).is_none_or(|id| id < first_new) {
                    filesystem.rename(&directory.path.join(name), &quarantine.join(name))?;
                }
            }
            for name in names.iter().filter(is_segment) {
                filesystem.rename(&new.path.join(name), &directory.path.join(name))?;
            }
            filesystem.sync_directory(&quarantine)?;
            filesystem.sync_directory(&directory.path)?;
            let kept = quarantine.join(manifest.file_name().unwrap_or_default());
            match filesystem.rename(&manifest, &kept) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            filesystem.sync_directory(&quarantine)?;
            filesystem.rename(&new_manifest, &manifest)?;
            filesystem.sync_directory(&directory.path)?;
        }
        filesystem.remove(&complete)?;
        filesystem.sync_directory(&new.path)
    };
    work().map_err(|error| unavailable(&directory.path, &error))
}

fn id_of(name: &str) -> Option<u32> {
    match Name::parse(name) {
        Name::Segment(id) | Name::Hint(id) => Some(id),
        _ => None,
    }
}

fn inside(directory: &Directory, name: &str) -> Directory {
    Directory::new(directory.path.join(name), Arc::clone(&directory.filesystem))
}

fn list(directory: &Directory) -> Result<Vec<String>, Error> {
    directory.filesystem.list(&directory.path).map_err(|error| unavailable(&directory.path, &error))
}

/// The first number that no file of the old store has, nor any higher one.
fn first_free_id(directory: &Directory, manifest: &Manifest) -> Result<u32, Error> {
    let ids = directory.names()?.into_iter().filter_map(|name| match name {
        Name::Segment(id) | Name::Hint(id) | Name::Spare(id) => Some(id.saturating_add(1)),
        _ => None,
    });
    Ok(ids.chain([manifest.next_id, 1]).max().unwrap_or(1))
}

fn next_quarantine(directory: &Directory) -> Result<PathBuf, Error> {
    let all = directory.path.join(QUARANTINE_NAME);
    for number in 1..=9999 {
        let path = all.join(format!("{number:04}"));
        match directory.filesystem.list(&path) {
            Ok(names) if names.iter().any(|name| Name::parse(name) != Name::Foreign) => {}
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(unavailable(&path, &error)),
        }
    }
    Err(Error::Unavailable { reason: format!("{} holds too many quarantines", all.display()) })
}

/// Waits for an answer without a runtime.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut answer = pin!(answer);
    loop {
        match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
