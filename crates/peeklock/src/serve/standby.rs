//! A node of a cluster between two terms: waits for the lease of the shard.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peeklock_cluster::{Ended, Member, Membership};
use peeklock_engine::runtime::Tenure;

use super::metrics::LeaseFigures;
use super::store::{Cluster, SHARD};
use crate::database::elapsed;

/// How long a stopping node waits for the state of the other nodes.
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
    /// Starts requesting the lease.
    pub(super) fn start(cluster: &Cluster) -> Self {
        let Cluster { table, node, settings, .. } = cluster;
        Self(Arc::new(Member::start(Arc::clone(table), node.clone(), settings.clone(), elapsed())))
    }

    /// Metrics of its leases.
    pub(super) fn figures(&self) -> LeaseFigures {
        LeaseFigures(Arc::clone(&self.0))
    }

    /// Resolves once this node has the lease, or is to hand it over: a take-over with a lease that has expired would fence
    /// the node that has taken it.
    pub(super) async fn held(&self) -> Held {
        loop {
            let membership = self.0.gained(SHARD).await;
            let ended = tokio::select! {
                ended = membership.ended() => Some(ended),
                () = membership.tenure().returns() => None,
            };
            if ended != Some(Ended::Lost) {
                return Held { member: Arc::clone(&self.0), membership, is_leaving: Arc::default() };
            }
        }
    }

    /// Whether another node would take the shard, as far as known.
    pub(super) fn is_another_waiting(&self) -> bool {
        !self.0.waiting().is_empty()
    }

    /// Whether another node would take the shard now. After this call this node takes no more leases.
    pub(super) async fn has_relief(&self) -> bool {
        !self.0.stop_accepting_and_list_candidates(LOOK_WITHIN).await.is_empty()
    }

    /// Removes the node from the table; without success it is shown as silent.
    pub(super) async fn leave(&self) {
        if !self.0.leave().await {
            tracing::warn!("the departure of this node could not be recorded in the table of leases");
        }
    }
}

impl Held {
    /// The check for the engine whether messages may be delivered.
    pub(super) fn tenure(&self) -> Arc<dyn Tenure> {
        let tenure = self.membership.tenure().clone();
        Arc::new(LeaseTenure { tenure, is_leaving: Arc::clone(&self.is_leaving) })
    }

    /// Stops deliveries, because the shard is about to be given up.
    pub(super) fn stop_deliveries(&self) {
        self.is_leaving.store(true, Ordering::Release);
    }

    /// Resolves when the lease is lost, or is to be handed over.
    pub(super) async fn ended(&self) -> Ended {
        self.membership.ended().await
    }

    /// Releases the lease for another node.
    pub(super) async fn release(&self) {
        if !self.member.release(SHARD).await {
            tracing::warn!(
                "the release of the shard could not be recorded in the table of leases; its lease expires by itself"
            );
        }
    }
}

/// The validity of a lease, as queried by the engine.
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
