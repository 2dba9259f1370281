//! State shared by the threads of one open store.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use super::descriptors::Descriptors;
use super::directory::{Directory, failed, is_full};
use super::filesystem::FileIdentity;
use super::manifest::{Manifest, NotStored};
use super::options::LocalOptions;
use super::pool::{Pool, Stepped, WakeFlag};
use super::read_buffers::ReadBuffers;
use super::scrub::ScrubDamage;
use super::segments::SegmentFile;
use super::startup_cache::StartupCache;
use super::state::State;
use super::warnings::Warnings;
use crate::{Error, Pressure};

/// The open store. Lock order: manifest before state; the pool's lock is never held while taking another.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) directory: Directory,
    /// The file of the lock that this process holds.
    pub(super) lock_identity: FileIdentity,
    pub(super) options: LocalOptions,
    pub(super) state: Mutex<State>,
    pub(super) manifest: Mutex<Manifest>,
    pub(super) startup_cache: Mutex<StartupCache>,
    pub(super) read_buffers: ReadBuffers,
    pub(super) pool: Pool,
    /// Set when a test steps the store instead of threads.
    pub(super) stepped: Stepped,
    pub(super) descriptors: Arc<Descriptors>,
    pub(super) warnings: Warnings,
    pub(super) keeper_wake: WakeFlag,
    pub(super) cleaner_wake: WakeFlag,
    pub(super) scrub_wake: WakeFlag,
    pub(super) pressure: watch::Sender<Pressure>,
    /// The reason why the lease is lost, once it is.
    pub(super) loss: watch::Sender<Option<Error>>,
    /// Damage found by the scrubber.
    pub(super) scrub_damage: watch::Sender<Vec<ScrubDamage>>,
    /// The reason why the handle is dead, once it is.
    pub(super) fatal_error: OnceLock<Error>,
    /// Set when the background threads must end.
    pub(super) is_stopping: AtomicBool,
    /// The disk refused a write since the keeper's last check.
    pub(super) is_write_refused: AtomicBool,
    /// Bytes of all copies installed by the cleaner.
    pub(super) copied_bytes: AtomicU64,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn startup_cache(&self) -> MutexGuard<'_, StartupCache> {
        self.startup_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store can't grow now.
    pub(super) fn is_short(&self) -> bool {
        *self.pressure.borrow() != Pressure::Normal
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire) || self.fatal_error.get().is_some()
    }

    /// Announces `pressure` if it has changed.
    pub(super) fn announce(&self, pressure: Pressure) {
        let is_news =
            self.pressure.send_if_modified(|current| std::mem::replace(current, pressure) != pressure);
        let directory = self.directory.path.display();
        match pressure {
            _ if !is_news => {}
            Pressure::Failing => tracing::warn!(%directory, "the store can't be extended; sends are refused"),
            Pressure::Normal | Pressure::Full => tracing::warn!(?pressure, %directory, "disk space"),
        }
    }

    /// Marks the lease as lost: nothing is accepted any more.
    pub(super) fn fail_handle(&self, error: Error) -> Error {
        let mut is_first = false;
        let first = || {
            is_first = true;
            error
        };
        let cause = self.fatal_error.get_or_init(first).clone();
        if is_first && !matches!(cause, Error::Fenced { .. }) {
            tracing::error!(error = %cause, "the store stops");
        }
        self.announce_loss();
        self.pool.stop();
        self.keeper_wake.wake();
        self.cleaner_wake.wake();
        self.scrub_wake.wake();
        cause
    }

    /// Notifies the owner if the lease is lost.
    pub(super) fn announce_loss(&self) {
        if let Some(cause) = self.fatal_error.get() {
            self.loss.send_if_modified(|loss| loss.is_none() && loss.replace(cause.clone()).is_none());
        }
    }

    /// Kills the handle because of a file operation whose outcome is unknown.
    pub(super) fn fail_in_doubt(&self, what: &str, path: &Path, error: &io::Error) -> Error {
        self.fail_handle(Error::InDoubt { reason: format!("{what} {} failed: {error}", path.display()) })
    }

    /// Changes the manifest durably. After [`Error::InDoubt`] the handle is dead, and either the old or the new
    /// manifest is valid: nothing that either lists may be removed. After any other error the old manifest is valid,
    /// unchanged.
    pub(super) fn update_manifest(&self, change: impl FnOnce(&mut Manifest)) -> Result<(), Error> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cause) = self.fatal_error.get() {
            return Err(Error::InDoubt { reason: format!("the store has stopped: {cause}") });
        }
        let mut changed = manifest.clone();
        change(&mut changed);
        match changed.store(&self.directory) {
            Ok(()) => {
                *manifest = changed;
                Ok(())
            }
            Err(NotStored::Unchanged(error)) => {
                let what = "can't write the manifest";
                Err(match is_full(&error) {
                    true => Error::Full { reason: format!("{what}: {error}") },
                    false => failed(what, &error),
                })
            }
            Err(NotStored::InDoubt(error)) => {
                self.fail_in_doubt("replacing", &self.directory.manifest_path(), &error);
                Err(Error::InDoubt { reason: format!("the manifest's replacement failed: {error}") })
            }
        }
    }

    /// Bytes of all copies installed by the cleaner.
    #[cfg(test)]
    pub(super) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    /// Reserves a segment id that was never used.
    pub(super) fn reserve_id(&self) -> u32 {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let id = manifest.next_id;
        manifest.next_id += 1;
        id
    }

    /// Retires a segment that is no longer in the manifest: removes its hint and keeps its file for reuse.
    pub(super) fn retire(&self, segment: Arc<SegmentFile>) {
        self.directory.discard(&self.directory.hint_path(segment.id));
        self.pool.lock().retired.push(segment);
        self.keeper_wake.wake();
    }
}
