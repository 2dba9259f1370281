//! A node of a cluster between two terms: it waits for the lease of the shard.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peeklock_cluster::{Ended, Member, Membership};
use peeklock_engine::runtime::Tenure;
use tokio::time::timeout;

use super::metrics::LeaseFigures;
use super::store::{Cluster, SHARD};
use crate::database::elapsed;

/// The table is told so long; without an answer the lease ends by itself.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// So long a node that is to stop waits for news of the others.
const LOOK_WITHIN: Duration = Duration::from_millis(500);

/// This process as a node; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Standby(Arc<Member>);

/// The lease of the shard, for a term.
#[derive(Debug, Clone)]
pub(super) struct Held {
    member: Arc<Member>,
    membership: Membership,
    is_leaving: Arc<AtomicBool>,
}

impl Standby {
    /// Begins to ask for the lease.
    pub(super) fn start(cluster: &Cluster) -> Self {
        let Cluster { table, node, settings, .. } = cluster;
        Self(Arc::new(Member::start(Arc::clone(table), node.clone(), settings.clone(), elapsed())))
    }

    /// What it tells about its leases.
    pub(super) fn figures(&self) -> LeaseFigures {
        LeaseFigures(Arc::clone(&self.0))
    }

    /// Resolves once this node has the lease.
    pub(super) async fn held(&self) -> Held {
        let membership = self.0.gained(SHARD).await;
        Held { member: Arc::clone(&self.0), membership, is_leaving: Arc::default() }
    }

    /// Whether another node would take the shard now. From then on this one takes nothing more.
    pub(super) async fn has_relief(&self) -> bool {
        !self.0.look_for_relief(LOOK_WITHIN).await.is_empty()
    }

    /// Takes the node off the table.
    pub(super) async fn leave(&self) {
        if timeout(TELL_WITHIN, self.0.leave()).await.is_err() {
            tracing::warn!("the table of leases could not be told that this node has gone");
        }
    }
}

impl Held {
    /// Whether anything may be handed out, for the engine.
    pub(super) fn tenure(&self) -> Arc<dyn Tenure> {
        let tenure = self.membership.tenure().clone();
        Arc::new(LeaseTenure { tenure, is_leaving: Arc::clone(&self.is_leaving) })
    }

    /// Nothing more is delivered: the shard is about to be given away.
    pub(super) fn stop_deliveries(&self) {
        self.is_leaving.store(true, Ordering::Release);
    }

    /// Resolves when the lease is lost, or to be handed over.
    pub(super) async fn ended(&self) -> Ended {
        self.membership.ended().await
    }

    /// Lets another node have the shard.
    pub(super) async fn release(&self) {
        if timeout(TELL_WITHIN, self.member.release(SHARD)).await.is_err() {
            tracing::warn!(
                "the table of leases could not be told that the shard is free; it will be, after a while"
            );
        }
    }
}

/// The right that a lease gives, as the engine asks for it.
#[derive(Debug)]
struct LeaseTenure {
    tenure: peeklock_cluster::Tenure,
    is_leaving: Arc<AtomicBool>,
}

impl Tenure for LeaseTenure {
    fn holds(&self) -> bool {
        self.tenure.holds()
    }

    fn delivers(&self) -> bool {
        !self.is_leaving.load(Ordering::Acquire)
    }

    fn returns(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let tenure = self.tenure.clone();
        Box::pin(async move { tenure.returns().await })
    }
}
