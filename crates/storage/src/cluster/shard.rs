//! The handle of a leased shard.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::keeper;
use super::log::RecordId;
use super::reader::{Scanned, Values};
use super::shared::Shared;
use super::writer::{Request, Writer};
use crate::{
    Batch, Commit, Error, Limits, PartitionId, Partitions, Pressure, Read, Scan, Shard, Space, commit,
    partitions, read, scan,
};

/// The shard handle of [`super::ClusterStore`].
#[derive(Debug)]
pub(super) struct ClusterShard {
    pub(super) shared: Arc<Shared>,
    requests: UnboundedSender<Request>,
}

/// The error of a closed handle.
pub(super) fn closed() -> Error {
    Error::Stopped { reason: "it was closed".to_owned() }
}

/// Limits of a shard: the smaller of those of its options and of its log.
pub(super) fn limits(shared: &Shared) -> Limits {
    /// Room for the headers of a value and of its record.
    const HEADER_BYTES: usize = 1024;
    let (own, log) = (shared.options.limits(), shared.log.limits());
    let most = log.heads_bytes_max.min(log.bodies_bytes_max).saturating_sub(HEADER_BYTES);
    Limits { value_bytes_max: own.value_bytes_max.min(most), batch_bytes_max: own.batch_bytes_max.min(most) }
}

impl ClusterShard {
    /// Starts the tasks of a shard after a take-over.
    pub(super) fn start(shared: Shared, owner: RecordId) -> Self {
        let shared = Arc::new(shared);
        let (requests, received) = unbounded_channel();
        let writer = Writer::new(Arc::clone(&shared), owner, received);
        shared.environment.spawn(writer.run().boxed());
        shared.environment.spawn(keeper::run(Arc::clone(&shared), requests.downgrade()).boxed());
        Self { shared, requests }
    }

    /// Makes the writer finish submitted batches and end; the lease is lost then.
    pub(super) fn stop(&self) {
        // A failed send means that the writer has already ended.
        let _ = self.requests.send(Request::Stop);
    }

    fn cause(&self) -> Error {
        self.shared.cause().unwrap_or_else(closed)
    }
}

impl Shard for ClusterShard {
    fn submit(&self, batch: Batch) -> Commit {
        let (notifier, answer) = commit();
        if let Err(failed) = self.requests.send(Request::Commit(batch, notifier))
            && let Request::Commit(_, notifier) = failed.0
        {
            notifier.resolve(Err(self.cause()));
        }
        answer
    }

    fn resume(&self, partition: PartitionId) {
        // A writer that has ended accepts no batches anyway.
        let _ = self.requests.send(Request::Resume(partition));
    }

    fn read(&self, keys: Vec<crate::Key>) -> Read {
        let (notifier, answer) = read();
        if let Some(cause) = self.shared.cause() {
            notifier.resolve(Err(cause));
            return answer;
        }
        match Values::look_up(&self.shared, &keys).whole() {
            Ok(values) => notifier.resolve(Ok(values)),
            Err(missing) => {
                let shared = Arc::clone(&self.shared);
                let fetch = async move { notifier.resolve(missing.fetch(&shared).await) };
                self.shared.environment.spawn(fetch.boxed());
            }
        }
        answer
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        let (notifier, answer) = scan();
        if let Some(cause) = self.shared.cause() {
            notifier.resolve(Err(cause));
            return answer;
        }
        match Scanned::look_up(&self.shared, space, partition, from).whole() {
            Ok(page) => notifier.resolve(Ok(page)),
            Err(missing) => {
                let shared = Arc::clone(&self.shared);
                let fetch = async move { notifier.resolve(missing.fetch(&shared).await) };
                self.shared.environment.spawn(fetch.boxed());
            }
        }
        answer
    }

    fn partitions(&self) -> Partitions {
        let (notifier, answer) = partitions();
        let found = || self.shared.state().partitions();
        notifier.resolve(self.shared.cause().map_or_else(|| Ok(found()), Err));
        answer
    }

    fn limits(&self) -> Limits {
        limits(&self.shared)
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        self.shared.pressure.subscribe()
    }
}
