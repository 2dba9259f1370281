//! A table in memory, for tests: it can be unreachable, slow, or lose answers, and its clock can be changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use peeklock_storage::ShardId;
use tokio::sync::watch;

use crate::{
    Answer, Lease, LeaseTable, Live, NodeInfo, NodeName, Renewal, SeenLease, Standing, Status, TableError,
    Version,
};

/// The contents of the table, without a network. Each call is one step.
#[derive(Debug, Default)]
pub struct Rows {
    nodes: BTreeMap<NodeName, (Live, Duration)>,
    leases: BTreeMap<ShardId, (Lease, Duration)>,
    /// The time for which a node must be seen silent, according to the nodes.
    silent_after: Duration,
}

impl Rows {
    /// See [`LeaseTable::renew`]; `now` is the table's clock.
    pub fn renew(&mut self, now: Duration, renewal: &Renewal) -> Standing {
        let own = (renewal.node.name.clone(), renewal.node.session);
        let nodes: Vec<Live> = self.nodes.values().map(|(live, _)| live.clone()).collect();
        self.silent_after = renewal.silent_after;
        self.beat(now, renewal);
        for shard in (0..renewal.shards).map(ShardId) {
            let free = Lease { shard, holder: None, version: Version(1), wanted: None };
            self.leases.entry(shard).or_insert((free, now));
        }
        let mut held = Vec::new();
        for (shard, (lease, renewed_at)) in &mut self.leases {
            let is_own = lease.holder.as_ref() == Some(&own);
            let seen = SeenLease { shard: *shard, version: lease.version };
            let is_free =
                lease.holder.is_none() && lease.wanted.as_ref().is_none_or(|wanted| *wanted == own.0);
            if is_own && renewal.releases.contains(&seen) {
                (lease.holder, lease.wanted) = (None, wanted_of(renewal, *shard));
            } else if is_own && renewal.releases.iter().any(|release| release.shard == *shard) {
                held.push(*shard);
                continue;
            } else if is_own {
                lease.wanted = wanted_of(renewal, *shard);
                held.push(*shard);
            } else if renewal.takes.contains(&seen) || (is_free && renewal.takes_free.contains(shard)) {
                (lease.holder, lease.wanted) = (Some(own.clone()), None);
                held.push(*shard);
            } else {
                continue;
            }
            lease.version.0 += 1;
            *renewed_at = now;
        }
        Standing { held, leases: self.leases.values().map(|(lease, _)| lease.clone()).collect(), nodes }
    }

    fn beat(&mut self, now: Duration, renewal: &Renewal) {
        let (name, info) = (renewal.node.name.clone(), renewal.node.clone());
        let before = self.nodes.get(&name).map(|(live, _)| live);
        let is_drained = before.is_some_and(|live| live.drained && live.info.session == info.session);
        let beats = before.map_or(0, |live| live.beats) + 1;
        let live = Live { info, beats, accepts: renewal.accepts && !is_drained, drained: is_drained };
        self.nodes.insert(name, (live, now));
    }

    /// See [`LeaseTable::leave`].
    pub fn leave(&mut self, node: &NodeInfo) {
        let is_own = |holder: &(NodeName, _)| *holder == (node.name.clone(), node.session);
        for (lease, _) in
            self.leases.values_mut().filter(|(lease, _)| lease.holder.as_ref().is_some_and(is_own))
        {
            lease.holder = None;
            lease.version.0 += 1;
        }
        if self.nodes.get(&node.name).is_some_and(|(live, _)| live.info.session == node.session) {
            self.nodes.remove(&node.name);
        }
    }

    /// See [`LeaseTable::drain`].
    pub fn drain(&mut self, node: &NodeName, drained: bool) -> bool {
        let Some((live, _)) = self.nodes.get_mut(node) else { return false };
        (live.drained, live.accepts) = (drained, !drained);
        true
    }

    /// See [`LeaseTable::status`].
    #[must_use]
    pub fn status(&self, now: Duration) -> Status {
        let nodes = self.nodes.values().map(|(live, beat)| (live.clone(), now.saturating_sub(*beat)));
        let leases = self.leases.values().map(|(lease, renewed_at)| {
            let left = (*renewed_at + self.silent_after).checked_sub(now).filter(|_| lease.holder.is_some());
            (lease.clone(), left)
        });
        Status { nodes: nodes.collect(), leases: leases.collect() }
    }

    /// The holder of a shard.
    #[must_use]
    pub fn holder(&self, shard: ShardId) -> Option<&NodeName> {
        self.leases.get(&shard)?.0.holder.as_ref().map(|(name, _)| name)
    }
}

fn wanted_of(renewal: &Renewal, shard: ShardId) -> Option<NodeName> {
    renewal.wanted.iter().find(|(of, _)| *of == shard).map(|(_, to)| to.clone())
}

/// State of the network path to the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// No request arrives.
    pub is_out: bool,
    /// Requests take effect, but no answer comes back.
    pub loses_answers: bool,
    /// Delay of an answer.
    pub delay: Duration,
    /// The delay is in the table, which says so.
    pub is_slow: bool,
}

/// [`Rows`] shared by several nodes. Cheap to clone; a clone is the same table over another network path, with faults
/// of its own.
#[derive(Debug)]
pub struct SimulatedTable {
    rows: Arc<Mutex<Rows>>,
    faults: Arc<Mutex<Faults>>,
    changes: watch::Sender<()>,
}

impl Default for SimulatedTable {
    fn default() -> Self {
        Self { rows: Arc::default(), faults: Arc::default(), changes: watch::Sender::new(()) }
    }
}

impl SimulatedTable {
    /// The same table over another network path.
    #[must_use]
    pub fn another_way(&self) -> Self {
        Self { rows: Arc::clone(&self.rows), faults: Arc::default(), changes: self.changes.clone() }
    }

    /// Changes the faults of the path to the table.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// The contents of the table.
    pub fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T: Send + 'static>(&self, change: impl FnOnce(&mut Rows) -> T) -> Answer<T> {
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = (!faults.is_out).then(|| change(&mut self.rows()));
        async move {
            tokio::time::sleep(faults.delay).await;
            let outcome = outcome.filter(|_| !faults.loses_answers);
            outcome.ok_or_else(|| TableError { reason: "the way to the table is cut".to_owned() })
        }
        .boxed()
    }
}

impl LeaseTable for SimulatedTable {
    fn renew(&self, renewal: Renewal) -> Answer<Standing> {
        let is_out = self.faults.lock().unwrap_or_else(PoisonError::into_inner).is_out;
        let hints = !renewal.releases.is_empty() && !is_out;
        let answer = self.call(move |rows| rows.renew(Duration::ZERO, &renewal));
        if hints {
            self.changes.send_replace(());
        }
        answer
    }

    fn leave(&self, node: NodeInfo) -> Answer<()> {
        let answer = self.call(move |rows| rows.leave(&node));
        self.changes.send_replace(());
        answer
    }

    fn status(&self) -> Answer<Status> {
        self.call(|rows| rows.status(Duration::ZERO))
    }

    fn drain(&self, node: NodeName, drained: bool) -> Answer<bool> {
        let answer = self.call(move |rows| rows.drain(&node, drained));
        self.changes.send_replace(());
        answer
    }

    fn is_executing(&self) -> BoxFuture<'static, bool> {
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        ready(faults.is_slow && !faults.is_out).boxed()
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut changes = self.changes.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
