//! One queue as a pure state machine: state, command, now, random → events, effects.
//!
//! Only events change state. What is stored are events, as facts; deciding code may change freely.

use bytes::Bytes;
use peeklock_storage::{Batch, Entry, PartitionId};
use rand::Rng;

use crate::{BodyRef, Command, Effect, Event, QueueOptions, RequestId, Timestamp};

/// What handling produced; reused from turn to turn.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Facts, already applied to the state, in order.
    pub events: Vec<Event>,
    /// Wishes, to be carried out once the facts are durable, in order.
    pub effects: Vec<Effect>,
}

/// A stored record that can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {number}: {reason}")]
pub struct RestoreError {
    /// The number of its key.
    pub number: u64,
    /// What is wrong.
    pub reason: String,
}

/// Numbers about a partition, always current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Active, locked and deferred messages of the main queue.
    pub active: u64,
    /// Messages in the dead-letter queue.
    pub dead_letter: u64,
    /// Scheduled messages.
    pub scheduled: u64,
    /// Messages in the transfer dead-letter queue.
    pub transfer_dead_letter: u64,
    /// Sum of the stored contents, in bytes.
    pub size_bytes: u64,
}

/// The state of one queue.
#[derive(Debug)]
pub struct Partition {}

#[allow(unused_variables)] // signatures only; the partition's author replaces the bodies
impl Partition {
    /// An empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        unimplemented!()
    }

    /// Fires due timers, then carries out one command. Work is bounded: a large backlog of due timers is worked
    /// off over several calls ([`Self::next_deadline`] stays in the past meanwhile).
    pub fn handle(
        &mut self,
        now: Timestamp,
        random: &mut dyn Rng,
        request: Option<RequestId>,
        command: Command,
        outputs: &mut Outputs,
    ) {
        unimplemented!()
    }

    /// Changes the options; messages already stored keep their times (S-11).
    pub fn set_options(&mut self, options: QueueOptions) {
        unimplemented!()
    }

    /// The earliest instant at which [`Command::Tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        unimplemented!()
    }

    /// Current counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        unimplemented!()
    }

    /// Rebuilds the state from everything stored under a partition's `Meta` and `Head` spaces (in key order): the
    /// live state less its volatile part.
    ///
    /// # Errors
    /// [`RestoreError`] names the record that can't be read.
    pub fn restore(
        options: QueueOptions,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        unimplemented!()
    }
}

/// Translates a turn's events into store operations. Meta numbers below 16 are the namespace's; the partition uses
/// those from 16 on. Facts superseded within the turn (a message stored and removed) need not be written.
pub fn persist(partition: PartitionId, events: &[Event], batch: &mut Batch) {
    let _ = (partition, events, batch);
    unimplemented!()
}

#[allow(unused_variables)] // signatures only; the partition's author replaces the bodies
impl Event {
    /// The content this event stored, for the cache of recent contents.
    #[must_use]
    pub fn stored_body(&self) -> Option<(BodyRef, &Bytes)> {
        unimplemented!()
    }

    /// The content this event made unreachable.
    #[must_use]
    pub fn removed_body(&self) -> Option<BodyRef> {
        unimplemented!()
    }

    /// How much it weighs.
    #[must_use]
    pub fn durability(&self) -> crate::Durability {
        unimplemented!()
    }
}
