//! Ownership of a shard: a handle, the epoch of the ownership, and notification of its loss.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::watch;

use crate::{Error, Shard, ShardId};

/// Numbers the owners of a shard: each acquisition has a higher epoch than all earlier ones, also across restarts of a
/// durable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Exclusive ownership of a shard. It ends when another owner acquires the shard, when the store is closed, or when the
/// store can no longer guarantee anything; it is never regained. Dropping the lease does not release the shard.
#[derive(Clone)]
pub struct Lease {
    id: ShardId,
    shard: Arc<dyn Shard>,
    epoch: Epoch,
    loss: watch::Receiver<Option<Error>>,
}

impl Lease {
    /// A lease. For stores, which set `loss` once, when the lease is lost.
    #[must_use]
    pub fn new(
        id: ShardId,
        shard: Arc<dyn Shard>,
        epoch: Epoch,
        loss: watch::Receiver<Option<Error>>,
    ) -> Self {
        Self { id, shard, epoch, loss }
    }

    /// The same lease with another handle, which wraps the leased shard.
    #[must_use]
    pub fn over(self, shard: Arc<dyn Shard>) -> Self {
        Self { shard, ..self }
    }

    /// The id of the leased shard.
    #[must_use]
    pub const fn id(&self) -> ShardId {
        self.id
    }

    /// The leased shard.
    #[must_use]
    pub const fn shard(&self) -> &Arc<dyn Shard> {
        &self.shard
    }

    /// The epoch in which the shard is owned.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The reason why the lease is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Error> {
        self.loss.borrow().clone()
    }

    /// Resolves with the reason when the lease is lost. The future may be dropped and requested again.
    pub fn lost(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut loss = self.loss.clone();
        async move {
            let lost = loss.wait_for(Option::is_some).await.ok().and_then(|lost| lost.clone());
            lost.unwrap_or_else(|| Error::Stopped { reason: "the store is gone".to_owned() })
        }
    }
}

/// The leased shard is used through its lease.
impl Deref for Lease {
    type Target = dyn Shard;

    fn deref(&self) -> &Self::Target {
        &*self.shard
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Lease");
        fields.field("id", &self.id).field("epoch", &self.epoch).field("loss", &self.loss()).finish()
    }
}
