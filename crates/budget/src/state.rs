//! Memory for the state: the in-memory data about everything stored (waiting messages, sessions, entities), for as long
//! as it is stored. It can't be reclaimed from peers, so growth is refused before there is too much of it.
//!
//! The size of the state is measured for the whole process instead of being counted: the memory of a message depends on
//! its properties, on the order in which others are removed, and on the allocator.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Growth is accepted again once the state has fallen below its limit by the limit divided by this, so that the answer
/// does not change with every message.
const BELOW_PER_LIMIT: usize = 32;

/// The limit, the last measurement, and whether growth is refused.
#[derive(Debug)]
pub struct State {
    limit_bytes: usize,
    measured_bytes: AtomicUsize,
    is_full: AtomicBool,
}

/// The effect of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange {
    /// Growth is refused from now on.
    Filled,
    /// Growth is accepted again.
    Emptied,
}

impl State {
    pub(crate) const fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, measured_bytes: AtomicUsize::new(0), is_full: AtomicBool::new(false) }
    }

    /// The size at which growth is refused, in bytes.
    #[must_use]
    pub const fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// The size measured last, in bytes.
    #[must_use]
    pub fn measured_bytes(&self) -> usize {
        self.measured_bytes.load(Ordering::Relaxed)
    }

    /// Whether growth is refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Sets the measured size of the state.
    pub fn measured(&self, bytes: usize) -> Option<StateChange> {
        self.measured_bytes.store(bytes, Ordering::Relaxed);
        let was_full = self.is_full();
        let emptied_at = self.limit_bytes - self.limit_bytes / BELOW_PER_LIMIT;
        let is_full = bytes >= if was_full { emptied_at } else { self.limit_bytes };
        self.is_full.store(is_full, Ordering::Relaxed);
        match (was_full, is_full) {
            (false, true) => Some(StateChange::Filled),
            (true, false) => Some(StateChange::Emptied),
            _ => None,
        }
    }
}
