//! An open store: its handle.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::watch;

use super::backup::PinnedPlan;
use super::directory::Directory;
use super::leftovers::tidy_leftovers;
use super::manifest::Closed;
use super::options::LocalOptions;
use super::pool::{Pool, Stepped, WakeFlag};
use super::read_buffers::ReadBuffers;
use super::recovery::{Loaded, Mode, load};
use super::scrub::ScrubDamage;
use super::shared::Shared;
use super::threads::Threads;
use super::warnings::Warnings;
use super::writer::{self, Active};
use super::{first_manifest, keeper, reader};
use crate::{
    Batch, Commit, Epoch, Error, Key, Limits, PartitionId, Partitions, Pressure, Read, Scan, Shard, Space,
    commit, partitions, read, scan,
};

/// The shard handle of [`super::LocalStore`].
#[derive(Debug)]
pub(super) struct LocalShard {
    pub(super) shared: Arc<Shared>,
    writes: Sender<writer::Request>,
    reads: Sender<reader::Request>,
    threads: Mutex<Option<Threads>>,
}

/// State of the threads of an open store, for a test that does their work step by step.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) shared: Arc<Shared>,
    pub(super) writer: writer::Writer,
    pub(super) write_requests: std::sync::mpsc::Receiver<writer::Request>,
    pub(super) read_requests: std::sync::mpsc::Receiver<reader::Request>,
}

/// Sends the damage that an open store finds to observers of the [`super::LocalStore`].
pub(super) type ScrubDamageSender = watch::Sender<Vec<ScrubDamage>>;

impl LocalShard {
    /// Opens the store in `directory` and starts the threads.
    pub(super) fn open(
        directory: Directory,
        options: LocalOptions,
        scrub_damage: ScrubDamageSender,
    ) -> Result<Self, Error> {
        let (shared, active) = Self::load(directory, options, scrub_damage)?;
        let (threads, writes, reads) = Threads::start(&shared, active)?;
        Ok(Self { shared, writes, reads, threads: Mutex::new(Some(threads)) })
    }

    pub(super) fn load(
        directory: Directory,
        options: LocalOptions,
        scrub_damage: ScrubDamageSender,
    ) -> Result<(Arc<Shared>, Active), Error> {
        let loaded = load(&directory, Mode::Open, options.startup_cache_bytes_max)?;
        let (shared, active) = begin(directory, options, scrub_damage, loaded)?;
        let shared = Arc::new(shared);
        let active = match active {
            Some(active) => active,
            None => super::prepare::first_active(&shared)?,
        };
        Ok((shared, active))
    }

    /// Opens the store in `directory` without threads: the caller steps the workers.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn open_stepped(
        directory: Directory,
        options: LocalOptions,
        scrub_damage: ScrubDamageSender,
    ) -> Result<(Self, Workers), Error> {
        let (shared, active) = Self::load(directory, options, scrub_damage)?;
        let (writes, write_requests) = std::sync::mpsc::channel();
        let (reads, read_requests) = std::sync::mpsc::channel();
        let writer = writer::Writer::new(Arc::clone(&shared), active);
        let workers = Workers { shared: Arc::clone(&shared), writer, write_requests, read_requests };
        Ok((Self { shared, writes, reads, threads: Mutex::new(None) }, workers))
    }

    /// The epoch in which the shard is owned.
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.shared.manifest.lock().unwrap_or_else(PoisonError::into_inner).epoch)
    }

    /// The reason why the lease is lost, once it is.
    pub(super) fn loss(&self) -> watch::Receiver<Option<Error>> {
        self.shared.loss.subscribe()
    }

    /// See [`super::LocalStore::pin`].
    pub(super) fn pin(&self) -> Result<PinnedPlan, Error> {
        PinnedPlan::of(&self.shared)
    }

    /// Finishes the submitted batches, stops the threads and closes the directory cleanly. Later calls are answered
    /// with `reason`.
    pub(super) fn close(&self, reason: Error) {
        let Some(threads) = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let _ = self.writes.send(writer::Request::Stop);
        let active = threads.end(&self.shared, &self.reads);
        if let Some(active) = active
            && self.shared.fatal_error.get().is_none()
        {
            self.leave_closed(&active);
        }
        let _ = self.shared.fatal_error.set(reason);
        self.shared.announce_loss();
        self.shared.pool.stop();
        self.shared.descriptors.clear();
    }

    /// Records the end of the log, so that the next opening need not search for it and detects missing frames.
    pub(super) fn leave_closed(&self, active: &Active) {
        let _sealed = keeper::seal_full(&self.shared);
        keeper::write_hints(&self.shared);
        if !self.shared.pool.lock().unsealed.is_empty() {
            return;
        }
        let manifest_bytes =
            self.shared.manifest.lock().unwrap_or_else(PoisonError::into_inner).encode().len();
        if !super::reserve::is_left_over(&self.shared.directory, manifest_bytes) {
            // The next opening must remove the record of the close, and there may be no room for that.
            tracing::info!("no space to record the clean shutdown; the next start takes longer");
            return;
        }
        let closed = Some(Closed { id: active.segment.id, seal: active.seal() });
        let hint = keeper::write_hint(&self.shared, &active.segment, active.seal(), None);
        if let Err(error) = hint {
            tracing::warn!(%error, "can't write a hint file");
        }
        let updated = self.shared.update_manifest(|manifest| manifest.closed = closed);
        // A failure that stops the store has been logged.
        if let (Err(error), None) = (updated, self.shared.fatal_error.get()) {
            tracing::warn!(%error, "can't record the clean shutdown; the next start takes longer");
        }
    }

    /// For tests: cleans one run of segments with any garbage, immediately.
    #[cfg(test)]
    pub(super) fn clean_now(&self) -> bool {
        super::cleaner::clean_once(&self.shared, true)
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for LocalShard {
    fn drop(&mut self) {
        self.close(closed());
    }
}

impl Shard for LocalShard {
    fn submit(&self, batch: Batch) -> Commit {
        let (notifier, answer) = commit();
        if let Err(failed) = self.writes.send(writer::Request::Commit(batch, notifier))
            && let writer::Request::Commit(_, notifier) = failed.0
        {
            notifier.resolve(Err(self.cause()));
        }
        answer
    }

    fn resume(&self, partition: PartitionId) {
        // A stopped writer accepts no batches anyway.
        let _ = self.writes.send(writer::Request::Resume(partition));
    }

    fn read(&self, keys: Vec<Key>) -> Read {
        let (notifier, answer) = read();
        match reader::read_at_once(&self.shared, &keys) {
            Some(values) => notifier.resolve(Ok(values)),
            None => self.ask_reader(reader::Request::Read(keys, notifier)),
        }
        answer
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        let (notifier, answer) = scan();
        self.ask_reader(reader::Request::Scan(space, partition, from, notifier));
        answer
    }

    fn partitions(&self) -> Partitions {
        let (notifier, answer) = partitions();
        let found = || {
            let mut all: Vec<_> = self.shared.state().index.partitions().collect();
            all.sort_unstable();
            all
        };
        notifier.resolve(self.shared.fatal_error.get().cloned().map_or_else(|| Ok(found()), Err));
        answer
    }

    fn limits(&self) -> Limits {
        self.shared.options.limits()
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        self.shared.pressure.subscribe()
    }
}

impl LocalShard {
    fn cause(&self) -> Error {
        self.shared.fatal_error.get().cloned().unwrap_or_else(closed)
    }

    fn ask_reader(&self, request: reader::Request) {
        if let Err(unasked) = self.reads.send(request) {
            unasked.0.refuse(self.cause());
        }
    }
}

/// The error of a closed handle.
pub(super) fn closed() -> Error {
    Error::Stopped { reason: "it was closed".to_owned() }
}

/// Takes over the directory: sets a new epoch, removes leftovers, and distributes the segments.
fn begin(
    directory: Directory,
    options: LocalOptions,
    scrub_damage: ScrubDamageSender,
    loaded: Option<Loaded>,
) -> Result<(Shared, Option<Active>), Error> {
    let is_new = loaded.is_none();
    let loaded = loaded.unwrap_or_else(|| Loaded::empty(&directory));
    let Loaded { descriptors, mut manifest, state, startup_cache, active, unsealed, prepared, .. } = loaded;
    if is_new {
        directory.sync_parents()?;
    }
    let was = (!is_new).then(|| manifest.clone());
    manifest.epoch += 1;
    manifest.closed = None;
    first_manifest::store(&manifest, &directory, was.as_ref())?;
    let leftovers = tidy_leftovers(&directory, &manifest, u64::from(options.segment_bytes))?;
    manifest.next_id = leftovers.next_id;
    let pool = Pool::default();
    {
        let mut exchange = pool.lock();
        exchange.prepared.extend(prepared);
        exchange.unsealed.extend(unsealed);
        exchange.spares = leftovers.spares;
    }
    let shared = Shared {
        lock_identity: directory.lock_identity()?,
        directory,
        options,
        state: Mutex::new(state),
        manifest: Mutex::new(manifest),
        startup_cache: Mutex::new(startup_cache),
        read_buffers: ReadBuffers::default(),
        pool,
        stepped: Stepped::default(),
        descriptors,
        warnings: Warnings::default(),
        keeper_wake: WakeFlag::default(),
        cleaner_wake: WakeFlag::default(),
        scrub_wake: WakeFlag::default(),
        pressure: watch::Sender::new(Pressure::Normal),
        loss: watch::Sender::new(None),
        scrub_damage,
        fatal_error: OnceLock::new(),
        is_stopping: AtomicBool::new(false),
        is_write_refused: AtomicBool::new(false),
        copied_bytes: AtomicU64::new(0),
    };
    tracing::debug!(is_new, keys = shared.state().index.len(), "store opened");
    keeper::check_space_first(&shared);
    shared.keeper_wake.wake();
    Ok((shared, active))
}
