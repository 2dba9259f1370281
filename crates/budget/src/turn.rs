//! Turns: one holder at a time may go beyond its allowance.
//!
//! Many holders of parts of large messages would each stop at their allowance, so that nobody could go on. Those that can't go on
//! stand in line; the first has its turn, and a part of the budget that no allowance gives away. So one of the messages can
//! always be completed, and then the next.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Budget;

/// The place of nobody.
const NOBODY: u64 = u64::MAX;

/// Who stands in line.
#[derive(Debug)]
pub(crate) struct Line {
    places: Mutex<Places>,
    /// Copy of the first place, to be read without the lock.
    first: AtomicU64,
    /// How often the first has got on.
    progress: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: BTreeSet<u64>,
}

impl Default for Line {
    fn default() -> Self {
        Self { places: Mutex::default(), first: AtomicU64::new(NOBODY), progress: AtomicU64::new(0) }
    }
}

impl Line {
    fn change<T>(&self, change: impl FnOnce(&mut Places) -> T) -> T {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut places);
        self.first.store(places.taken.first().copied().unwrap_or(NOBODY), Ordering::Relaxed);
        outcome
    }
}

/// A place in the line, until it is dropped.
#[derive(Debug)]
pub struct Place {
    budget: Budget,
    number: u64,
}

impl Budget {
    /// Takes the last place in the line.
    #[must_use]
    pub fn line_up(&self) -> Place {
        let number = self.line().change(|places| {
            places.next += 1;
            places.taken.insert(places.next);
            places.next
        });
        Place { budget: self.clone(), number }
    }

    /// How often a holder got on during its turn: as long as this number grows, those behind wait with a prospect.
    #[must_use]
    pub fn turn_progress(&self) -> u64 {
        self.line().progress.load(Ordering::Relaxed)
    }
}

impl Place {
    /// Whether the holder has its turn: it may hold [`Budget::free_bytes`] more.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.budget.line().first.load(Ordering::Relaxed) == self.number
    }

    /// Says that the holder gets on, if it has its turn.
    pub fn got_on(&self) {
        if self.is_first() {
            self.budget.line().progress.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.budget.line().change(|places| places.taken.remove(&self.number));
    }
}
