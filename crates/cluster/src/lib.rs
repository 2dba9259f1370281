//! Assignment of shards to the nodes of a cluster: leases that nodes hold in a table shared by all of them.
//!
//! A lease provides liveness, never safety: the log of the shard alone decides which node may write
//! ([`peeklock_storage::cluster::ReplicatedLog::seize`]). A lease determines which node should try, and it bounds the
//! time for which an owner that was stopped or cut off delivers messages that it no longer owns ([`Tenure`]).
//!
//! - `table`: the port [`LeaseTable`], with its requests and answers.
//! - `node`: the behaviour of one node, a pure state machine ([`Node`]) with the table's answers and the node's own
//!   elapsed time as input, requests and events as output. `node::placement` assigns shards to nodes.
//! - `member`: the task that runs it ([`Member`]), and [`Tenure`], which the rest of the process checks.
//! - `simulated`: a table in memory with lost answers and an adjustable clock, for tests.
//!
//! # Why only a node's own clock decides
//! A lease has a version, which every renewal changes. A node may take another's lease once it has seen the same
//! version for [`Settings::silent_after`] of its own elapsed time, and the table accepts that only if the version is
//! still the same. The holder measures the same time from before it sent the renewal that made the version, so it stops
//! first, by [`Settings::margin`]. If the table was out of reach meanwhile, the other node waits for one
//! [`Settings::tenure`] more, so that a holder that lives renews first; after [`Settings::give_up_after`] it does not.
//! This holds for any setting of the table's clock and any duration of a request; it only requires that elapsed time
//! passes equally fast on both nodes. The table's times are for people.

mod member;
mod node;
mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
mod table;
mod tenure;

pub use member::{Contact, Ended, Member, Membership};
pub use node::{News, Node, Placement};
pub use settings::Settings;
pub use table::{
    Answer, Lease, LeaseTable, Live, NodeInfo, NodeName, Renewal, SeenLease, Session, Standing, Status,
    TableError, Version,
};
pub use tenure::{Elapsed, Tenure};
