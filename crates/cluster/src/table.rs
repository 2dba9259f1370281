//! The port: a table of nodes and leases that all nodes see.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use peeklock_storage::ShardId;

/// What a node is called; no two nodes of a cluster may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub String);

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// One run of a node's process: drawn at random when it starts, so that it holds nothing that an earlier one held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// Changes whenever a lease is taken, renewed or released, and never repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

/// A node as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name.
    pub name: NodeName,
    /// Which run of it.
    pub session: Session,
    /// How others reach it; for people. May be empty.
    pub address: String,
    /// The release that it runs; for people.
    pub release: String,
}

/// A lease to be taken, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// Of which shard.
    pub shard: ShardId,
    /// Only if this is still its version.
    pub seen: Version,
}

/// What a node asks of the table, in one round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// Who asks. Its beat and all leases of its session are renewed.
    pub node: NodeInfo,
    /// Whether it takes leases at all: a node that stops does not, so others need not wait for it.
    pub accepts: bool,
    /// What it takes. Leases of its own session are not taken again.
    pub takes: Vec<Take>,
    /// To whom leases that it holds are to go, once it releases them.
    pub wanted: Vec<(ShardId, NodeName)>,
    /// Leases that it releases. They are not renewed.
    pub releases: Vec<ShardId>,
    /// How many shards there are, from 0 on: leases that are missing are created.
    pub shards: u32,
    /// For how long others have to see it silent; for people, who read when a lease ends.
    pub silent_after: Duration,
}

/// A node in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// As it describes itself.
    pub info: NodeInfo,
    /// Changes with each of its renewals.
    pub beats: u64,
    /// Whether it takes leases: it does not stop, and nobody drains it.
    pub accepts: bool,
    /// Whether an operator has it drained: it is to give away what it has.
    pub drained: bool,
}

/// A lease in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Of which shard.
    pub shard: ShardId,
    /// Who has it.
    pub holder: Option<(NodeName, Session)>,
    /// See [`Version`].
    pub version: Version,
    /// To whom it is to go.
    pub wanted: Option<NodeName>,
}

/// What the table answers to a [`Renewal`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// The leases that the node holds: renewed or taken by the very request. What is missing is lost.
    pub held: Vec<ShardId>,
    /// All leases. Of those of others this may be a little older than [`Self::held`].
    pub leases: Vec<Lease>,
    /// All nodes that asked within the last minutes.
    pub nodes: Vec<Live>,
}

/// What an operator is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// All nodes, with the time since the last beat by the table's clock.
    pub nodes: Vec<(Live, Duration)>,
    /// All leases, with the time until they end by the table's clock; none when that is over, or nobody has them.
    pub leases: Vec<(Lease, Option<Duration>)>,
}

/// The table can't be reached, or says no. A change may have taken effect all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the table of leases can't be used: {reason}")]
pub struct TableError {
    /// What to look at.
    pub reason: String,
}

/// An answer of the table. Dropping it does not undo the request.
pub type Answer<T> = BoxFuture<'static, Result<T, TableError>>;

/// A table that all nodes see. Each lease changes in one step: of two requests that concern it, one sees what the other has
/// done.
pub trait LeaseTable: Send + Sync + 'static {
    /// Renews, takes and releases, and tells how things stand.
    ///
    /// # Errors
    /// [`TableError`]; the request may have taken effect.
    fn renew(&self, renewal: Renewal) -> Answer<Standing>;

    /// Takes a node off the table and releases the leases of its session.
    ///
    /// # Errors
    /// As [`Self::renew`].
    fn leave(&self, node: NodeInfo) -> Answer<()>;

    /// What an operator is shown.
    ///
    /// # Errors
    /// As [`Self::renew`].
    fn status(&self) -> Answer<Status>;

    /// Has a node give away its leases and take none, until it is told otherwise or restarted. False when there is no such node.
    ///
    /// # Errors
    /// As [`Self::renew`].
    fn drain(&self, node: NodeName, drained: bool) -> Answer<bool>;

    /// Resolves when something may have changed since the call: a hint, to ask earlier than planned. It may never resolve.
    fn changed(&self) -> BoxFuture<'static, ()>;
}
