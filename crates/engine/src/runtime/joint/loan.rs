//! How an actor lends the state of its partition to the committer.

use peeklock_storage::{Commit, PartitionId};
use tokio::sync::oneshot;

use crate::partition::Partition;
use crate::{Effect, Event, Timestamp};

/// Asks an actor for the state of its partition.
#[derive(Debug)]
pub(in crate::runtime) struct LoanRequest {
    pub(in crate::runtime) lent: oneshot::Sender<Lent>,
}

/// The state of a partition as its actor lends it. Everything that it decided before is submitted.
#[derive(Debug)]
pub(in crate::runtime) struct Lent {
    pub(in crate::runtime) id: PartitionId,
    pub(in crate::runtime) partition: Partition,
    /// When the step takes place for this partition.
    pub(in crate::runtime) now: Timestamp,
    /// How it gets back.
    pub(in crate::runtime) back: oneshot::Sender<Returned>,
}

/// The state as it comes back.
#[derive(Debug)]
pub(in crate::runtime) struct Returned {
    pub(in crate::runtime) partition: Partition,
    /// What happened to it, in order.
    pub(in crate::runtime) parts: Vec<Part>,
    /// Nothing of what happened last was submitted, so the state is to be read back: a prepared command was refused, which is
    /// a defect.
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
