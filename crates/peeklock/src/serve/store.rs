//! The data directory: opened, watched, closed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use peeklock_storage::{Error, Lease, LocalOptions, LocalStore, ScrubDamage, ShardId, StorageFigures, Store};
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};

use super::error::ServeError;
use crate::config::{Config, StorageConfig};
use crate::control::Control;
use crate::store_damage;

/// The open data directory.
pub(super) struct OpenStore {
    store: Arc<LocalStore>,
    /// The shard that partitions write to.
    pub(super) lease: Lease,
}

impl OpenStore {
    /// Takes ownership of the data directory, off the async threads.
    ///
    /// # Errors
    /// [`ServeError::Store`] with the directory's name.
    pub(super) async fn open(config: &Config) -> Result<Self, ServeError> {
        let path = config.data_dir.clone();
        let options = options(&config.storage);
        let locked = spawn_blocking(move || LocalStore::open(path, options)).await.map_err(stopped)?;
        let acquired = match locked {
            Ok(store) => store.acquire(ShardId(0)).await.map(|lease| (Arc::new(store), lease)),
            Err(error) => Err(error),
        };
        match acquired {
            Ok((store, lease)) => Ok(Self { store, lease }),
            Err(error) => {
                let directory = config.data_dir.clone();
                let told = spawn_blocking(move || refusal(directory, error));
                Err(told.await.map_err(stopped)?)
            }
        }
    }

    /// What the scrubber finds.
    pub(super) fn scrub_damage(&self) -> watch::Receiver<Vec<ScrubDamage>> {
        self.store.scrub_damage()
    }

    /// What a scrape reads of it.
    pub(super) fn figures(&self) -> StorageFigures {
        self.store.figures()
    }

    /// Answers on the control socket until what this returns is dropped.
    pub(super) fn control(&self, config: &Config) -> Option<Control> {
        let store = Arc::clone(&self.store);
        Control::start(&config.data_dir, config.storage.reserve_bytes, move || store.pin())
    }

    /// Writes what is left and frees the directory.
    ///
    /// # Errors
    /// [`ServeError::System`] when the closing thread failed.
    pub(super) async fn close(self) -> Result<(), ServeError> {
        drop(self.lease);
        let store = self.store;
        spawn_blocking(move || store.close()).await.map_err(stopped)
    }
}

/// Why a store does not open; of damage all there is, since it is free to be looked at again.
fn refusal(directory: PathBuf, error: Error) -> ServeError {
    match &error {
        Error::Corrupt { .. } => match store_damage::explain(&directory) {
            Some(damage) => ServeError::Damaged { directory, error, damage },
            None => ServeError::Store { directory, error },
        },
        _ => ServeError::Store { directory, error },
    }
}

fn stopped(error: JoinError) -> ServeError {
    ServeError::System(io::Error::other(error))
}

fn options(config: &StorageConfig) -> LocalOptions {
    let default = LocalOptions::default();
    LocalOptions {
        segment_bytes: u32::try_from(config.segment_bytes).unwrap_or(default.segment_bytes),
        size_bytes_max: config.size_bytes_max,
        reserve_bytes: config.reserve_bytes,
        clean_bytes_per_second: config.clean_bytes_per_second,
        scrub_interval: (config.scrub_interval_ms > 0)
            .then(|| Duration::from_millis(config.scrub_interval_ms)),
        scrub_bytes_per_second: config.scrub_bytes_per_second,
        ..default
    }
}
