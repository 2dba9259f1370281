//! Opens the data directory.

use std::sync::Arc;

use peeklock_storage::{MemoryStore, Shard, ShardId, Store};

use super::error::ServeError;
use crate::config::Config;

/// Takes ownership of the data directory, off the async threads.
///
/// # Errors
/// [`ServeError::Store`] with the directory's name.
pub(super) async fn open(config: &Config) -> Result<Arc<dyn Shard>, ServeError> {
    let directory = config.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || MemoryStore::new().acquire(ShardId(0))).await;
    let stopped = |error: tokio::task::JoinError| ServeError::System(std::io::Error::other(error));
    opened.map_err(stopped)?.map_err(|error| ServeError::Store { directory, error })
}
