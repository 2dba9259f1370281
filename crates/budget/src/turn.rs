//! Turns: one holder at a time may exceed its allowance.
//!
//! If many holders each had a part of a large message, each would stop at its allowance and none could continue.
//! Holders that can't continue join a line; the first has its turn, and may use a part of the budget that no allowance
//! includes. So one message can always be completed, and then the next.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Budget;

/// Stands for an empty line.
const NOBODY: u64 = u64::MAX;

/// The line of waiting holders.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    places: Mutex<Places>,
    /// Copy of the first place, readable without the lock.
    first: AtomicU64,
    /// Number of advances made by holders during their turns.
    progress: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: BTreeSet<u64>,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self { places: Mutex::default(), first: AtomicU64::new(NOBODY), progress: AtomicU64::new(0) }
    }
}

impl WaitQueue {
    fn change<T>(&self, change: impl FnOnce(&mut Places) -> T) -> T {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut places);
        self.first.store(places.taken.first().copied().unwrap_or(NOBODY), Ordering::Relaxed);
        outcome
    }
}

/// A place in the line, held until dropped.
#[derive(Debug)]
pub struct QueuePosition {
    budget: Budget,
    number: u64,
}

impl Budget {
    /// Joins the end of the line.
    #[must_use]
    pub fn queue_for_turn(&self) -> QueuePosition {
        let number = self.wait_queue().change(|places| {
            places.next += 1;
            places.taken.insert(places.next);
            places.next
        });
        QueuePosition { budget: self.clone(), number }
    }

    /// Number of advances made by holders during their turns. As long as it grows, waiting is worthwhile.
    #[must_use]
    pub fn turn_progress(&self) -> u64 {
        self.wait_queue().progress.load(Ordering::Relaxed)
    }
}

impl QueuePosition {
    /// Whether the holder has its turn: it may hold [`Budget::free_bytes`] more.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.budget.wait_queue().first.load(Ordering::Relaxed) == self.number
    }

    /// Records an advance of the holder, if it has its turn.
    pub fn record_progress(&self) {
        if self.is_first() {
            self.budget.wait_queue().progress.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        self.budget.wait_queue().change(|places| places.taken.remove(&self.number));
    }
}
