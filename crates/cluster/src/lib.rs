//! Which node of a cluster serves which shard: leases that nodes hold in a table that all of them see.
//!
//! A lease gives liveness, never safety: who may write is decided by the log of the shard alone
//! ([`peeklock_storage::cluster::ReplicatedLog::seize`]). A lease says who should try, and it bounds for how long an owner that
//! was stopped or cut off hands out what it no longer owns ([`Tenure`]).
//!
//! - `table`: the port [`LeaseTable`], with what is asked and answered.
//! - `node`: what one node does about its leases, a pure state machine ([`Node`]): answers of the table and the node's own elapsed
//!   time in, requests and news out. `node::placement` says which node a shard belongs to.
//! - `member`: the task that runs it ([`Member`]), and [`Tenure`], what everybody else asks.
//! - `simulated`: a table in memory that loses answers and whose clock is set, for tests.
//!
//! # Why no clock but a node's own decides
//! A lease has a version, which every renewal changes. A node may take the lease of another once it has seen the same version for
//! [`Settings::silent_after`] of its own elapsed time, and the table lets it only if the version is still the same. The holder
//! counts the same time from before it sent the renewal that made the version, so it stops
//! first, by [`Settings::margin`]. That holds however the table's clock is set and however long a request is under way; it
//! needs only that elapsed time passes equally fast on both nodes. The table's times are for people.

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
    Answer, Lease, LeaseTable, Live, NodeInfo, NodeName, Renewal, Session, Standing, Status, TableError,
    Take, Version,
};
pub use tenure::{Elapsed, Tenure};
