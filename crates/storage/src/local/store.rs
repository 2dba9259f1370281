//! A data directory on this machine as a [`Store`].

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::backup::PinnedPlan;
use super::directory::{Directory, unavailable};
use super::filesystem::{Filesystem, Lock, RealFilesystem};
use super::options::LocalOptions;
use super::scrub::ScrubDamage;
use super::shard::{Announcements, LocalShard, closed};
use crate::{Error, Shard, ShardId, Store};

/// The embedded store: a segmented log in a directory that it locks for itself.
#[derive(Debug)]
pub struct LocalStore {
    directory: Directory,
    options: LocalOptions,
    announcements: Announcements,
    /// The shard's present handle; the store can end it.
    current: Mutex<Option<Arc<LocalShard>>>,
    /// Gone once the store is closed.
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl LocalStore {
    /// Locks `path` (created if missing) for this process. Nothing is read yet.
    ///
    /// # Errors
    /// [`Error::Fenced`] naming the directory and its owner when another process holds it,
    /// [`Error::Unavailable`] when it can't be used or the options don't fit together.
    pub fn open(path: impl AsRef<Path>, options: LocalOptions) -> Result<Self, Error> {
        Self::open_on(Arc::new(RealFilesystem), path, options)
    }

    /// Like [`LocalStore::open`], on another file system.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(
        filesystem: Arc<dyn Filesystem>,
        path: impl AsRef<Path>,
        options: LocalOptions,
    ) -> Result<Self, Error> {
        let (directory, lock) = take_directory(filesystem, path.as_ref(), &options)?;
        Ok(Self {
            directory,
            options,
            announcements: Announcements::default(),
            current: Mutex::new(None),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Announces the failure after which the process must stop: a sync or write whose outcome is unknown.
    /// Restarting restores what is durable.
    #[must_use]
    pub fn fatal(&self) -> watch::Receiver<Option<Error>> {
        self.announcements.fatal.subscribe()
    }

    /// Finishes what was submitted and leaves the directory in good order; blocks meanwhile. The shard's handle
    /// and the store are unavailable afterwards, and the directory is free. Dropping the store does the same.
    pub fn close(&self) {
        self.end_current(closed());
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Announces damage that the scrubber finds, each place once; at most 1000 are kept. The log has all of them.
    #[must_use]
    pub fn scrub_damage(&self) -> watch::Receiver<Vec<ScrubDamage>> {
        self.announcements.scrub_damage.subscribe()
    }

    /// Notes what a backup must hold, and keeps it on disk until the plan is dropped. Everything acknowledged before
    /// is in it; commits go on meanwhile. Blocks for as long as a change of the manifest takes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no shard was acquired or the store is closing, or why it is dead.
    pub fn pin(&self) -> Result<PinnedPlan, Error> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        current.ok_or_else(closed)?.pin()
    }

    fn end_current(&self, reason: Error) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(shard) = current {
            shard.close(reason);
        }
    }

    /// For tests: the present handle with its insides.
    #[cfg(test)]
    pub(super) fn current(&self) -> Arc<LocalShard> {
        Arc::clone(self.current.lock().unwrap().as_ref().unwrap())
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for LocalStore {
    fn acquire(&self, shard: ShardId) -> Result<Arc<dyn Shard>, Error> {
        if shard != ShardId(0) {
            return Err(Error::Unavailable { reason: "a local store has shard 0 only".to_owned() });
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            return Err(closed());
        }
        self.end_current(Error::Fenced { reason: "the shard was acquired again".to_owned() });
        let opened =
            LocalShard::open(self.directory.clone(), self.options.clone(), self.announcements.clone())?;
        let opened = Arc::new(opened);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

/// Creates the directory if it is missing, and locks it.
pub(super) fn take_directory(
    filesystem: Arc<dyn Filesystem>,
    path: &Path,
    options: &LocalOptions,
) -> Result<(Directory, Box<dyn Lock>), Error> {
    options.check()?;
    let directory = Directory { path: path.to_owned(), filesystem };
    let create = directory.filesystem.create_directory(&directory.path);
    create.map_err(|error| unavailable(&directory.path, &error))?;
    let lock = lock(&directory, true)?;
    Ok((directory, lock))
}

/// Takes the directory's lock.
pub(super) fn lock(directory: &Directory, create: bool) -> Result<Box<dyn Lock>, Error> {
    let path = directory.lock_path();
    directory.filesystem.lock(&path, create).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Fenced {
            reason: format!(
                "the data directory {} is in use by another Peeklock ({error}); stop it or choose another directory",
                directory.path.display()
            ),
        },
        _ => unavailable(&path, &error),
    })
}
