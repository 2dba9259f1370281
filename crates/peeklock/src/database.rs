//! The replicated store in a configuration.

use std::sync::Arc;
use std::time::Duration;

use peeklock_cluster::{Elapsed, LeaseTable, NodeInfo, NodeName, Session, Settings};
use peeklock_engine::runtime::{Clock, ElapsedClock};
use peeklock_postgres::{
    Database, Durability as Replication, OptionsError, PostgresLeases, PostgresLogs, PostgresMetrics,
    RECORDS_AHEAD, TokioEnvironment,
};
use peeklock_storage::Error;
use peeklock_storage::cluster::{ClusterOptions, ClusterStore};

use crate::config::{ClusterConfig, DatabaseUrl, Durability, StorageConfig};

/// Why the configured database can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// The URL, or a file that it references, is invalid.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// The sizes don't fit together.
    #[error("{0}")]
    Store(#[from] Error),
}

/// A store in a database. Connects on first use, which must be within a tokio runtime.
pub(crate) struct Replicated {
    /// Its shards.
    pub(crate) store: ClusterStore,
    /// Its database.
    pub(crate) database: Database,
}

impl Replicated {
    /// The store at `url`, with the sizes from a configuration.
    ///
    /// # Errors
    /// [`DatabaseError`], without the URL in it.
    pub(crate) fn new(url: &DatabaseUrl, config: &StorageConfig) -> Result<Self, DatabaseError> {
        let durability = match config.durability {
            Durability::Standby => Replication::Standby,
            Durability::Service => Replication::Service,
        };
        let options = url.options()?.with_durability(durability);
        let database = Database::new(options, PostgresMetrics::default())?;
        let logs = Arc::new(PostgresLogs::new(database.clone()));
        let store = ClusterStore::new(logs, cluster_options(config), Arc::new(TokioEnvironment))?;
        Ok(Self { store, database })
    }

    /// The table of which node holds which shard.
    pub(crate) fn leases(&self) -> Arc<dyn LeaseTable> {
        Arc::new(PostgresLeases::new(self.database.clone()))
    }

    /// The same table for a node: while it stands by, it observes which records the log must not lose.
    pub(crate) fn leases_of_node(&self) -> Arc<dyn LeaseTable> {
        let store = self.store.clone();
        let note = move |shard, last| store.note_durable(shard, last);
        Arc::new(PostgresLeases::observing(self.database.clone(), note))
    }
}

/// The lease times from a configuration.
pub(crate) fn lease_settings(config: &ClusterConfig) -> Settings {
    /// Renewals in the lease time: one failed renewal costs a third of it, two cost two thirds.
    const RENEWALS: u32 = 3;
    const MARGINS: u32 = 6;
    /// Lease times without the database that are a pause for clients, and not yet the end of their connections.
    const PAUSES: u32 = 5;
    let silent_after = Duration::from_millis(config.lease_time_ms);
    Settings {
        silent_after,
        renew_every: silent_after / RENEWALS,
        margin: silent_after / MARGINS,
        give_up_after: silent_after * PAUSES,
        ..Settings::default()
    }
}

/// This process as a node, with a number for this run. `address`: where clients reach it, may be empty.
pub(crate) fn node(name: String, address: String) -> NodeInfo {
    NodeInfo {
        name: NodeName(name),
        session: Session(uuid::Uuid::new_v4().as_u64_pair().0),
        address,
        release: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The clock by which leases are counted: it continues while the machine is suspended, as the leases do.
pub(crate) fn elapsed() -> Elapsed {
    let clock = ElapsedClock::default();
    Elapsed::new(move || Duration::from_millis(clock.now().0))
}

fn cluster_options(config: &StorageConfig) -> ClusterOptions {
    ClusterOptions {
        size_bytes_max: config.size_bytes_max,
        records_under_way_max: RECORDS_AHEAD,
        ..ClusterOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_times_of_leases_are_those_of_the_cluster() {
        assert_eq!(lease_settings(&ClusterConfig::default()), Settings::default());
    }
}
