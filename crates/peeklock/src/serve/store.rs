//! The store of one term: the data directory, or a shard of a cluster.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use peeklock_cluster::{LeaseTable, NodeInfo, Settings};
use peeklock_postgres::Database;
use peeklock_storage::cluster::ClusterStore;
use peeklock_storage::copy::unfinished_copy;
use peeklock_storage::{
    Error, Lease, LocalOptions, LocalStore, ScrubDamage, ShardId, StorageBytes, StorageFigures, Store,
};
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use super::error::ServeError;
use super::memory::startup_cache_bytes_max;
use crate::config::{Config, StorageConfig, StorageEngine};
use crate::control::Control;
use crate::database::{self, Replicated};
use crate::store_damage;

/// The shard of the namespace.
pub(super) const SHARD: ShardId = ShardId(0);

/// The location of shards, the same for the whole process. `Cluster` is created from `[storage] engine` and
/// `[cluster]`.
pub(super) enum Shards {
    /// The data directory, used by this process only.
    Local,
    /// A cluster, of which this process is a node.
    Cluster(Box<Cluster>),
}

/// The state of a node of a cluster.
pub(super) struct Cluster {
    /// Remembers across all terms the last acknowledged record.
    pub(super) store: ClusterStore,
    /// The database of the store.
    pub(super) database: Database,
    /// The table of which node holds which shard.
    pub(super) table: Arc<dyn LeaseTable>,
    /// This node.
    pub(super) node: NodeInfo,
    /// Times of the leases.
    pub(super) settings: Settings,
}

/// An open store.
pub(super) struct OpenStore {
    kept: Kept,
    /// The shard that partitions write to.
    pub(super) lease: Lease,
}

enum Kept {
    Local(Arc<LocalStore>),
    Cluster(ClusterStore),
}

impl Shards {
    /// The location in a configuration.
    ///
    /// # Errors
    /// Unusable settings.
    pub(super) fn of(config: &Config) -> Result<Self, ServeError> {
        let (StorageEngine::Postgres, Some(url)) = (config.storage.engine, &config.storage.url) else {
            return Ok(Self::Local);
        };
        let replicated = Replicated::new(url, &config.storage).map_err(ServeError::Database)?;
        let address = config.cluster.advertise.clone().unwrap_or_default();
        let node = database::node(config.cluster.node_name(), address);
        tracing::info!(node = %node.name, database = %url, "messages are kept in a database");
        let table = replicated.leases_of_node();
        let settings = database::lease_settings(&config.cluster);
        let Replicated { store, database } = replicated;
        Ok(Self::Cluster(Box::new(Cluster { store, database, table, node, settings })))
    }
}

impl OpenStore {
    /// Acquires the shard, fencing its previous owner.
    ///
    /// # Errors
    /// [`ServeError::Store`] with the directory's name, [`ServeError::Cluster`], [`ServeError::Unfinished`].
    pub(super) async fn open(config: &Config, shards: &Shards) -> Result<Self, ServeError> {
        let open = match shards {
            Shards::Local => Self::open_directory(config).await?,
            Shards::Cluster(cluster) => {
                let lease = cluster.store.acquire(SHARD).await.map_err(ServeError::Cluster)?;
                Self { kept: Kept::Cluster(cluster.store.clone()), lease }
            }
        };
        match unfinished_copy(&*open.lease).await {
            Ok(None) => Ok(open),
            Ok(Some(source)) => {
                open.close(Duration::ZERO).await?;
                Err(ServeError::Unfinished { source_name: source })
            }
            Err(error) => Err(ServeError::Cluster(error)),
        }
    }

    /// Opens the directory, outside the async threads: if the caller is dropped, it does not wait for the opening.
    async fn open_directory(config: &Config) -> Result<Self, ServeError> {
        let directory = config.data_dir.clone();
        let options = LocalOptions {
            startup_cache_bytes_max: startup_cache_bytes_max(),
            ..local_options(&config.storage)
        };
        let open = move || {
            let store = LocalStore::open(&directory, options)?;
            let lease = store.acquire_now(SHARD)?;
            Ok(Self { kept: Kept::Local(Arc::new(store)), lease })
        };
        let directory = config.data_dir.clone();
        let open = move || open().map_err(|error| refusal(directory, error));
        spawn_blocking(open).await.map_err(stopped)?
    }

    fn local(&self) -> Option<&Arc<LocalStore>> {
        match &self.kept {
            Kept::Local(store) => Some(store),
            Kept::Cluster(_) => None,
        }
    }

    /// Damage found by the scrubber; only for files.
    pub(super) fn scrub_damage(&self) -> Option<watch::Receiver<Vec<ScrubDamage>>> {
        Some(self.local()?.scrub_damage())
    }

    /// Metrics of the store; only for files.
    pub(super) fn figures(&self) -> Option<StorageFigures> {
        Some(self.local()?.figures())
    }

    /// Disk usage of the messages, in the file system or the database.
    pub(super) fn bytes(&self) -> Box<dyn Fn() -> Option<StorageBytes> + Send + Sync> {
        match &self.kept {
            Kept::Local(store) => {
                let figures = store.figures();
                Box::new(move || figures.bytes())
            }
            Kept::Cluster(store) => {
                let figures = store.figures(SHARD);
                Box::new(move || figures.bytes())
            }
        }
    }

    /// Serves the control socket until the returned value is dropped. A cluster has none, because none of its data is
    /// in the data directory.
    pub(super) fn control(&self, config: &Config) -> Option<Control> {
        let store = Arc::clone(self.local()?);
        Control::start(&config.data_dir, config.storage.reserve_bytes, move || store.pin())
    }

    /// Writes pending data and releases the shard or directory. Waits a limited time for a database that can't be
    /// reached: the next owner of the shard determines the outcome of pending writes.
    ///
    /// # Errors
    /// [`ServeError::System`] when the closing thread failed.
    pub(super) async fn close(self, patience: Duration) -> Result<(), ServeError> {
        drop(self.lease);
        match self.kept {
            Kept::Local(store) => spawn_blocking(move || store.close()).await.map_err(stopped),
            Kept::Cluster(store) => {
                if timeout(patience, store.release(SHARD)).await.is_err() {
                    store.abandon(SHARD);
                }
                Ok(())
            }
        }
    }
}

/// The error for a store that does not open; it includes all damage, since the directory can be scanned again.
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

/// The options of a local store in a configuration.
pub(crate) fn local_options(config: &StorageConfig) -> LocalOptions {
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
