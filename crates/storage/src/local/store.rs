//! A data directory on this machine as a [`Store`].

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};

use super::backup::PinnedPlan;
use super::directory::{Directory, failed, unavailable};
use super::figures::StorageFigures;
use super::filesystem::{Filesystem, Lock, RealFilesystem};
use super::options::LocalOptions;
use super::scrub::ScrubDamage;
use super::shard::{LocalShard, ScrubDamageSender, closed};
use super::survey::no_store;
use crate::{Acquiring, Error, Lease, ShardId, Store};

/// The embedded store: a segmented log in a directory that it locks.
#[derive(Debug)]
pub struct LocalStore(Arc<LockedDirectory>);

#[derive(Debug)]
pub(super) struct LockedDirectory {
    directory: Directory,
    options: LocalOptions,
    scrub_damage: ScrubDamageSender,
    /// The shard's current handle, which the store can end.
    pub(super) current: Mutex<Option<Arc<LocalShard>>>,
    /// `None` once the store is closed.
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl LocalStore {
    /// Locks `path` (created if missing) for this process. Does not read anything yet.
    ///
    /// # Errors
    /// [`Error::Fenced`] naming the directory and its owner when another process holds it, [`Error::Unavailable`] when
    /// it can't be used or the options are inconsistent.
    pub fn open(path: impl AsRef<Path>, options: LocalOptions) -> Result<Self, Error> {
        Self::open_on(Arc::new(RealFilesystem), path, options)
    }

    /// Like [`LocalStore::open`], on another file system.
    ///
    /// # Errors
    /// Those of [`LocalStore::open`].
    pub fn open_on(
        filesystem: Arc<dyn Filesystem>,
        path: impl AsRef<Path>,
        options: LocalOptions,
    ) -> Result<Self, Error> {
        let (directory, lock) = take_directory(filesystem, path.as_ref(), &options)?;
        Ok(Self(Arc::new(LockedDirectory {
            directory,
            options,
            scrub_damage: ScrubDamageSender::default(),
            current: Mutex::new(None),
            lock: Mutex::new(Some(lock)),
        })))
    }

    /// [`Store::acquire`] for callers without an async runtime; blocks while the store opens.
    ///
    /// # Errors
    /// Those of [`Store::acquire`].
    pub fn acquire_now(&self, shard: ShardId) -> Result<Lease, Error> {
        self.0.acquire(shard)
    }

    /// Finishes the submitted batches and closes the directory cleanly; blocks meanwhile. Afterwards the lease is lost
    /// and the directory unlocked. Dropping the store does the same.
    pub fn close(&self) {
        self.0.end_current(closed());
        self.0.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Announces damage found by the scrubber, each place once; at most 1000 are kept. The log has all of them.
    #[must_use]
    pub fn scrub_damage(&self) -> watch::Receiver<Vec<ScrubDamage>> {
        self.0.scrub_damage.subscribe()
    }

    /// The figures of this store for the metrics page; they do not keep the store open.
    #[must_use]
    pub fn figures(&self) -> StorageFigures {
        StorageFigures { metrics: self.0.options.metrics.clone(), store: Arc::downgrade(&self.0) }
    }

    /// Determines the contents of a backup, and keeps them on disk until the plan is dropped. Everything acknowledged
    /// before is included; commits continue meanwhile. Blocks for as long as a change of the manifest takes.
    ///
    /// # Errors
    /// [`Error::Stopped`] when no shard was acquired, [`Error::Unavailable`] when the store is closing or too busy, or
    /// the reason why the lease was lost.
    pub fn pin(&self) -> Result<PinnedPlan, Error> {
        let current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        current.ok_or_else(closed)?.pin()
    }

    /// For tests: the current handle, including its internals.
    #[cfg(test)]
    pub(super) fn current(&self) -> Arc<LocalShard> {
        Arc::clone(self.0.current.lock().unwrap().as_ref().unwrap())
    }

    /// For tests: the reason why the current lease is lost, if it is.
    #[cfg(test)]
    pub(super) fn loss(&self) -> Option<Error> {
        self.current().loss().borrow().clone()
    }
}

impl LockedDirectory {
    fn acquire(&self, shard: ShardId) -> Result<Lease, Error> {
        if shard != ShardId(0) {
            return Err(Error::Unavailable { reason: "a local store has shard 0 only".to_owned() });
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            return Err(closed());
        }
        self.end_current(Error::Fenced { reason: "the shard was acquired again".to_owned() });
        let opened =
            LocalShard::open(self.directory.clone(), self.options.clone(), self.scrub_damage.clone())?;
        let (epoch, loss) = (opened.epoch(), opened.loss());
        let opened = Arc::new(opened);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&opened));
        Ok(Lease::new(shard, opened, epoch, loss))
    }

    fn end_current(&self, reason: Error) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(shard) = current {
            shard.close(reason);
        }
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for LocalStore {
    /// Opens the directory on a separate thread.
    fn acquire(&self, shard: ShardId) -> Acquiring<'_> {
        let directory = Arc::clone(&self.0);
        let (answer, opened) = oneshot::channel();
        let opening = std::thread::Builder::new().name("store-open".to_owned()).spawn(move || {
            // The caller may be gone; the lease is then held until the next acquisition.
            let _ = answer.send(directory.acquire(shard));
        });
        let started = opening.map(|_| ()).map_err(|error| failed("can't start a thread", &error));
        async move {
            started?;
            opened.await.unwrap_or_else(|_| Err(Error::Stopped { reason: "opening it failed".to_owned() }))
        }
        .boxed()
    }
}

/// Creates the directory if it is missing, and locks it.
pub(super) fn take_directory(
    filesystem: Arc<dyn Filesystem>,
    path: &Path,
    options: &LocalOptions,
) -> Result<(Directory, Box<dyn Lock>), Error> {
    options.check()?;
    let directory = Directory::new(path, filesystem);
    let create = directory.filesystem.create_directory(&directory.path);
    create.map_err(|error| unavailable(&directory.path, &error))?;
    let lock = lock(&directory, true)?;
    Ok((directory, lock))
}

/// Acquires the directory's lock.
pub(super) fn lock(directory: &Directory, create: bool) -> Result<Box<dyn Lock>, Error> {
    let path = directory.lock_path();
    directory.filesystem.lock(&path, create).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Fenced {
            reason: format!(
                "the data directory {} is in use by another Peeklock ({error}); stop it or choose another directory",
                directory.path.display()
            ),
        },
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !create => no_lock(directory, &error),
        _ => unavailable(&path, &error),
    })
}

/// The error for a missing lock file: mostly, a wrong directory was given.
fn no_lock(directory: &Directory, error: &io::Error) -> Error {
    if directory.filesystem.open(&directory.manifest_path(), false).is_ok() {
        return unavailable(&directory.lock_path(), error);
    }
    match directory.filesystem.list(&directory.path) {
        Ok(_) => no_store(directory),
        Err(error) => {
            let reason = format!("there is no data directory {}: {error}", directory.path.display());
            Error::Unavailable { reason }
        }
    }
}
