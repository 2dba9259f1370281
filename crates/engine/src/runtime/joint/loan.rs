//! Lends the state of a partition from its actor to the committer.

use peeklock_storage::{Commit, PartitionId};
use tokio::sync::oneshot;

use crate::partition::Partition;
use crate::{Effect, Event, Timestamp};

/// Asks an actor to lend the state of its partition.
#[derive(Debug)]
pub(in crate::runtime) struct LoanRequest {
    pub(in crate::runtime) lent: oneshot::Sender<Lent>,
}

/// The state of a partition, lent by its actor. All its earlier decisions are submitted.
#[derive(Debug)]
pub(in crate::runtime) struct Lent {
    pub(in crate::runtime) id: PartitionId,
    pub(in crate::runtime) partition: Partition,
    /// The time of the step for this partition.
    pub(in crate::runtime) now: Timestamp,
    /// Channel to return it.
    pub(in crate::runtime) back: oneshot::Sender<Returned>,
}

/// A returned state.
#[derive(Debug)]
pub(in crate::runtime) struct Returned {
    pub(in crate::runtime) partition: Partition,
    /// The joint batches that changed it, in order.
    pub(in crate::runtime) parts: Vec<Part>,
    /// Whether changes were not submitted, so that the state must be read back: a prepared command was refused, which is a
    /// defect.
    pub(in crate::runtime) is_broken: bool,
}

/// A participant's part of one joint batch.
#[derive(Debug)]
pub(in crate::runtime) struct Part {
    pub(in crate::runtime) events: Vec<Event>,
    pub(in crate::runtime) effects: Vec<Effect>,
    pub(in crate::runtime) commit: Commit,
    /// Size of the whole batch, in bytes.
    pub(in crate::runtime) batch_bytes: usize,
}
