//! A [`Store`] over replicated logs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::figures::ClusterFigures;
use super::log::{RecordId, ReplicatedLog};
use super::options::{ClusterOptions, HEADS_BYTES_MIN};
use super::port::Environment;
use super::replay::TakeOver;
use super::shard::{ClusterShard, closed};
use super::shared::{Known, Shared, fenced};
use crate::{Acquiring, Error, Lease, ShardId, Store};

/// Provides the logs of all shards.
pub trait Logs: Send + Sync + 'static {
    /// The log of this shard, as seen by this node. Does not connect yet.
    fn log(&self, shard: ShardId) -> Arc<dyn ReplicatedLog>;
}

/// A [`Store`] over replicated logs, one for each shard.
#[derive(Clone)]
pub struct ClusterStore(Arc<Inner>);

pub(super) struct Inner {
    logs: Arc<dyn Logs>,
    options: ClusterOptions,
    environment: Arc<dyn Environment>,
    shards: Mutex<Shards>,
}

#[derive(Default)]
struct Shards {
    by_id: BTreeMap<ShardId, Slot>,
    is_closed: bool,
}

/// State of one shard in the store.
#[derive(Default)]
struct Slot {
    /// Kept over all leases.
    known: Known,
    current: Option<Arc<ClusterShard>>,
    /// Number of acquisitions; only the latest may install its lease.
    acquisitions: u64,
}

impl std::fmt::Debug for ClusterStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClusterStore").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl ClusterStore {
    /// A store over `logs`. Does not read anything yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the options are inconsistent.
    pub fn new(
        logs: Arc<dyn Logs>,
        options: ClusterOptions,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, Error> {
        options.check()?;
        let shards = Mutex::default();
        Ok(Self(Arc::new(Inner { logs, options, environment, shards })))
    }

    /// Makes every shard finish its submitted batches; resolves once all leases are lost.
    pub async fn close(&self) {
        let shards: Vec<Arc<ClusterShard>> = {
            let mut shards = self.0.shards();
            shards.is_closed = true;
            shards.by_id.values_mut().filter_map(|slot| slot.current.take()).collect()
        };
        for shard in &shards {
            shard.stop();
        }
        for shard in shards {
            // An error means that the shard is gone.
            let _ = shard.shared.loss.subscribe().wait_for(Option::is_some).await;
        }
    }

    /// Ends the lease of a shard at once, without waiting for batches under way; the next owner decides their outcome.
    /// Frees its memory as soon as no lease refers to it.
    pub fn abandon(&self, shard: ShardId) {
        let current = self.0.shards().by_id.get_mut(&shard).and_then(|slot| slot.current.take());
        if let Some(current) = current {
            current.shared.fail_handle(closed());
        }
    }

    /// Makes a shard finish its submitted batches; resolves once its lease is lost and another node may acquire it. It
    /// can be acquired again. Frees its memory as [`Self::abandon`] does.
    pub async fn release(&self, shard: ShardId) {
        let current = self.0.shards().by_id.get(&shard).and_then(|slot| slot.current.clone());
        if let Some(current) = current {
            current.stop();
            // An error means that the shard is gone.
            let _ = current.shared.loss.subscribe().wait_for(Option::is_some).await;
            self.0.forget(shard, &current);
        }
    }

    /// Records that this record of a shard is known to be durable, like an acknowledged one. A log that does not hold
    /// it any more is refused by later acquisitions with [`Error::Corrupt`].
    pub fn note_durable(&self, shard: ShardId, id: RecordId) {
        let known = Arc::clone(&self.0.shards().by_id.entry(shard).or_default().known);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = (*known).max(id);
    }

    /// The figures of a shard for the metrics page.
    #[must_use]
    pub fn figures(&self, shard: ShardId) -> ClusterFigures {
        ClusterFigures::new(Arc::downgrade(&self.0), shard)
    }

    /// For tests: the current handle of a shard, including its internals.
    #[cfg(test)]
    pub(super) fn current(&self, shard: ShardId) -> Arc<ClusterShard> {
        Arc::clone(self.0.shards().by_id[&shard].current.as_ref().unwrap())
    }
}

impl Inner {
    fn shards(&self) -> MutexGuard<'_, Shards> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle of a shard whose lease is not lost.
    pub(super) fn leased(&self, shard: ShardId) -> Option<Arc<ClusterShard>> {
        let current = self.shards().by_id.get(&shard)?.current.clone()?;
        current.shared.cause().is_none().then_some(current)
    }

    /// The last record of a shard known to be durable; `None` if none is known.
    pub(super) fn known(&self, shard: ShardId) -> Option<RecordId> {
        let known = Arc::clone(&self.shards().by_id.get(&shard)?.known);
        Some(*known.lock().unwrap_or_else(PoisonError::into_inner))
            .filter(|known| *known > RecordId::default())
    }

    /// Drops a handle whose lease is lost, unless the shard was acquired again meanwhile.
    fn forget(&self, shard: ShardId, lost: &Arc<ClusterShard>) {
        if let Some(slot) = self.shards().by_id.get_mut(&shard) {
            slot.current.take_if(|current| Arc::ptr_eq(current, lost));
        }
    }

    /// Fences the current handle of this process and returns what is known of the shard.
    fn begin(&self, shard: ShardId) -> Result<(Known, u64), Error> {
        let mut shards = self.shards();
        if shards.is_closed {
            return Err(closed());
        }
        let slot = shards.by_id.entry(shard).or_default();
        if let Some(current) = slot.current.take() {
            current.shared.fail_handle(again());
        }
        slot.acquisitions += 1;
        Ok((Arc::clone(&slot.known), slot.acquisitions))
    }

    async fn acquire(&self, shard: ShardId) -> Result<Lease, Error> {
        let (known, acquisition) = self.begin(shard)?;
        let log = self.logs.log(shard);
        if log.limits().heads_bytes_max < HEADS_BYTES_MIN {
            let reason = format!("the log takes less than {HEADS_BYTES_MIN} bytes of heads in a record");
            return Err(Error::Unavailable { reason });
        }
        let known_id: RecordId = *known.lock().unwrap_or_else(PoisonError::into_inner);
        let environment = &*self.environment;
        let loaded = TakeOver { shard, log: &log, environment, known: known_id }.run().await?;
        let owner = loaded.owner;
        let mut shards = self.shards();
        let is_closed = shards.is_closed;
        let slot = shards.by_id.entry(shard).or_default();
        if is_closed || slot.acquisitions != acquisition {
            return Err(if is_closed { closed() } else { again() });
        }
        let options = self.options.clone();
        let shared = Shared::new(shard, log, options, Arc::clone(&self.environment), known, loaded);
        let loss = shared.loss.subscribe();
        let opened = Arc::new(ClusterShard::start(shared, owner));
        slot.current = Some(Arc::clone(&opened));
        Ok(Lease::new(shard, opened, owner.epoch, loss))
    }
}

fn again() -> Error {
    fenced("the shard was acquired again")
}

impl Store for ClusterStore {
    fn acquire(&self, shard: ShardId) -> Acquiring<'_> {
        let (answer, acquired) = oneshot::channel();
        let inner = Arc::clone(&self.0);
        // The caller may be gone; the lease is then held until the next acquisition.
        let acquire = async move {
            let _ = answer.send(inner.acquire(shard).await);
        };
        self.0.environment.spawn(acquire.boxed());
        async move { acquired.await.unwrap_or_else(|_| Err(closed())) }.boxed()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in shards.by_id.values_mut() {
            if let Some(current) = slot.current.take() {
                current.shared.fail_handle(closed());
            }
        }
    }
}
