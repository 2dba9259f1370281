//! The port to a table of nodes and leases shared by all nodes.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use peeklock_storage::ShardId;

/// The name of a node; no two nodes of a cluster may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub String);

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Identifies one run of a node's process: random at each start, so that a run does not own the leases of an earlier
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// The version of a lease. It changes whenever the lease is taken, renewed or released, and never repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

/// A node's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name.
    pub name: NodeName,
    /// The run of its process.
    pub session: Session,
    /// The address at which others reach it; for people. May be empty.
    pub address: String,
    /// The release of the program; for people.
    pub release: String,
}

/// A lease to be taken or released, only if it still has the version that the node has seen: a request that arrives
/// late does not change a lease that has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenLease {
    /// The shard.
    pub shard: ShardId,
    /// The version.
    pub version: Version,
}

/// A node's request to the table, in one round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The requesting node. Its beat and all leases of its session are renewed.
    pub node: NodeInfo,
    /// Whether it takes leases at all: a node that is stopping does not, so others need not wait for it.
    pub accepts: bool,
    /// The leases to take. Leases of its own session are not taken again.
    pub takes: Vec<SeenLease>,
    /// Shards to take if their lease is free when the request is carried out and no other node is to get it, whatever
    /// its version: a node that waits for a release need not see it before it asks for the lease.
    pub takes_free: Vec<ShardId>,
    /// The nodes that are to get leases of this node once it releases them.
    pub wanted: Vec<(ShardId, NodeName)>,
    /// Leases to release. They are not renewed. One that has another version is kept and returned with it.
    pub releases: Vec<SeenLease>,
    /// The number of shards, whose ids start at 0: missing leases are created.
    pub shards: u32,
    /// The time for which others must see the node silent; for people, to show when a lease ends.
    pub silent_after: Duration,
}

/// A node in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Its description of itself.
    pub info: NodeInfo,
    /// Changes with each of its renewals.
    pub beats: u64,
    /// Whether it takes leases: it is neither stopping nor drained.
    pub accepts: bool,
    /// Whether an operator has drained it: it must give away its leases.
    pub drained: bool,
}

/// A lease in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The shard.
    pub shard: ShardId,
    /// The node that holds it.
    pub holder: Option<(NodeName, Session)>,
    /// The lease's [`Version`].
    pub version: Version,
    /// The node that is to get it.
    pub wanted: Option<NodeName>,
}

/// The table's answer to a [`Renewal`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// The leases that the node holds after this request. A lease missing here is lost.
    pub held: Vec<ShardId>,
    /// All leases, held ones in the version that this request made. Others may be slightly older than [`Self::held`].
    pub leases: Vec<Lease>,
    /// All nodes that sent a request within the last minutes.
    pub nodes: Vec<Live>,
}

/// The table's contents for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// All nodes, with the time since the last beat by the table's clock.
    pub nodes: Vec<(Live, Duration)>,
    /// All leases, with the time until they expire by the table's clock; `None` for an expired lease or one without a
    /// holder.
    pub leases: Vec<(Lease, Option<Duration>)>,
}

/// The table can't be reached, or reports an error. A change may have taken effect nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the table of leases can't be used: {reason}")]
pub struct TableError {
    /// The cause.
    pub reason: String,
}

/// An answer of the table. Dropping it does not undo the request.
pub type Answer<T> = BoxFuture<'static, Result<T, TableError>>;

/// A table shared by all nodes. Each lease changes atomically: of two requests that concern it, one sees the other's
/// effect.
pub trait LeaseTable: Send + Sync + 'static {
    /// Renews, takes and releases leases, and returns the resulting state.
    ///
    /// # Errors
    /// [`TableError`]; the request may have taken effect.
    fn renew(&self, renewal: Renewal) -> Answer<Standing>;

    /// Removes a node from the table and releases the leases of its session.
    ///
    /// # Errors
    /// As [`Self::renew`].
    fn leave(&self, node: NodeInfo) -> Answer<()>;

    /// Returns the table's contents for an operator.
    ///
    /// # Errors
    /// As [`Self::renew`].
    fn status(&self) -> Answer<Status>;

    /// Sets whether a node is drained: it gives away its leases and takes none, until this is reset or the node
    /// restarts. Returns false when the node does not exist.
    ///
    /// # Errors
    /// As [`Self::renew`].
    fn drain(&self, node: NodeName, drained: bool) -> Answer<bool>;

    /// Whether the table is still executing the pending [`Self::renew`], whose answer is late: it is slow, and another
    /// request would wait behind this one. False if the request or its answer may be lost.
    fn is_executing(&self) -> BoxFuture<'static, bool>;

    /// Resolves when the table may have changed since the call, a hint to request earlier than planned. It may never
    /// resolve.
    fn changed(&self) -> BoxFuture<'static, ()>;
}
