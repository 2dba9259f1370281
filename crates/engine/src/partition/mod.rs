//! One queue as a pure state machine: state, command, now, random → events, effects.
//!
//! Only events change state. What is stored are events, as facts; deciding code may change freely.
//!
//! - `step` and `handle/*` decide, one file per command; `timers`, `dispatch` and `ending` are what commands share.
//! - `apply` alone writes `state`; `messages` (in chunks of 64), `locks` and `receivers` are its parts.
//! - [`persist()`] and `restore` go to the store and back; `encoding` is the format of the values.

mod apply;
mod chunk;
mod dispatch;
mod encoding;
mod ending;
mod handle;
mod locks;
mod messages;
mod per_sub_queue;
mod persist;
mod properties;
mod reasons;
mod receivers;
mod record;
mod restore;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod timers;

use peeklock_storage::Entry;
use rand::Rng;

pub use self::persist::persist;
use self::reasons::Reasons;
pub use self::record::Record;
use self::state::State;
use self::step::Step;
use crate::{Command, Effect, Event, QueueOptions, RequestId, Timestamp};

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
pub struct Partition {
    options: QueueOptions,
    reasons: Reasons,
    state: State,
}

impl Partition {
    /// An empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        Self { reasons: Reasons::new(&options), options, state: State::new() }
    }

    /// Fires due timers, then carries out one command, then serves receivers. Work is bounded: a large backlog of
    /// due timers is worked off over several calls ([`Self::next_deadline`] stays in the past meanwhile).
    pub fn handle(
        &mut self,
        now: Timestamp,
        random: &mut dyn Rng,
        request: Option<RequestId>,
        command: Command,
        outputs: &mut Outputs,
    ) {
        let state = &mut self.state;
        Step::new(now, &self.options, &self.reasons, state, random, outputs).run(request, command);
    }

    /// Changes the options; messages already stored keep their times (S-11).
    pub fn set_options(&mut self, options: QueueOptions) {
        self.reasons = Reasons::new(&options);
        self.options = options;
    }

    /// The earliest instant at which [`Command::Tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.state.next_deadline()
    }

    /// Current counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.counts()
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
        Ok(Self { reasons: Reasons::new(&options), options, state: State::restore(meta, head)? })
    }
}
