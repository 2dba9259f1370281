//! Memory of connections whose peers have not authenticated: a small amount for each, and one budget for the excess.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limits::{UNAUTHENTICATED_BUDGET_BYTES, UNAUTHENTICATED_BYTES_MAX, UNAUTHENTICATED_OWN_BYTES};

/// The budget that all unauthenticated connections share beyond [`UNAUTHENTICATED_OWN_BYTES`] each; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(UNAUTHENTICATED_BUDGET_BYTES)))
    }

    /// The share of a new connection.
    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), taken_bytes: 0 }
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// One connection's part of the budget; returned when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    taken_bytes: usize,
}

impl Share {
    /// Adjusts the share to what the connection holds now; returns whether the limits allow it.
    #[must_use]
    pub(super) fn cover(&mut self, held_bytes: usize) -> bool {
        if held_bytes > UNAUTHENTICATED_BYTES_MAX {
            return false;
        }
        let wanted = held_bytes.saturating_sub(UNAUTHENTICATED_OWN_BYTES);
        if let Some(more) = wanted.checked_sub(self.taken_bytes) {
            if !self.budget.take(more) {
                return false;
            }
        } else {
            self.budget.give_back(self.taken_bytes - wanted);
        }
        self.taken_bytes = wanted;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.taken_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections that use up the whole budget.
    fn use_up(budget: &Budget) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        loop {
            let mut share = budget.share();
            if !share.cover(UNAUTHENTICATED_BYTES_MAX) {
                let left = budget.0.load(Ordering::Relaxed);
                assert!(share.cover(left + UNAUTHENTICATED_OWN_BYTES));
                shares.push(share);
                return shares;
            }
            shares.push(share);
        }
    }

    #[test]
    fn a_small_connection_needs_nothing_of_the_budget() {
        let budget = Budget::new();
        let _others = use_up(&budget);
        let mut other = budget.share();
        assert!(other.cover(UNAUTHENTICATED_OWN_BYTES));
        assert!(!other.cover(UNAUTHENTICATED_OWN_BYTES + 1));
    }

    #[test]
    fn released_memory_is_given_back() {
        let budget = Budget::new();
        let mut others = use_up(&budget);
        let mut share = budget.share();
        assert!(!share.cover(UNAUTHENTICATED_BYTES_MAX));
        assert!(others[0].cover(0) && share.cover(UNAUTHENTICATED_BYTES_MAX));
        assert!(!others[0].cover(UNAUTHENTICATED_BYTES_MAX));
        drop(share);
        assert!(others[0].cover(UNAUTHENTICATED_BYTES_MAX));
    }

    #[test]
    fn one_connection_does_not_get_everything() {
        assert!(!Budget::new().share().cover(UNAUTHENTICATED_BYTES_MAX + 1));
    }
}
