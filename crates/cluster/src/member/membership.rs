//! What the rest of the process sees of a lease and of the table.

use std::time::Duration;

use peeklock_storage::ShardId;
use tokio::sync::watch;

use crate::{NodeName, Tenure};

/// How a membership ended, or is about to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Another node has the lease, or it was released.
    Lost,
    /// The shard belongs to this other node now: stop serving it, then call [`crate::Member::release`].
    HandOver(NodeName),
}

/// The lease of one shard, while it lasts.
#[derive(Debug, Clone)]
pub struct Membership {
    pub(super) shard: ShardId,
    pub(super) tenure: Tenure,
    pub(super) ended: watch::Receiver<Option<Ended>>,
}

impl Membership {
    /// The leased shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// The period in which messages may be delivered.
    #[must_use]
    pub const fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Resolves when the lease is lost, or is to be handed over.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or(Ended::Lost)
    }
}

/// The latest contact with the table, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contact {
    /// When the table answered last, in the node's elapsed time.
    pub answered_at: Option<Duration>,
    /// Requests without an answer, or with an error, since the start.
    pub failures: u64,
}
