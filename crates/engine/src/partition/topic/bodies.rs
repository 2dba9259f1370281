//! Reference counts of a topic's bodies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rustc_hash::FxBuildHasher;

use crate::BodyRef;

/// Capacity that the table keeps.
const CAPACITY_KEPT: usize = 4096;
/// A larger table is shrunk when fewer than one in this many of its places are used.
const SPARSE_RATIO: usize = 8;

/// Reference counts by body.
#[derive(Debug, Default)]
pub(in crate::partition) struct Bodies {
    /// No iteration order is visible outside the partition. Numbers are assigned consecutively by the topic itself, so a
    /// client can't choose colliding ones.
    counts: HashMap<u64, u32, FxBuildHasher>,
}

impl Bodies {
    /// The number of references to a body.
    pub(in crate::partition) fn count(&self, body: BodyRef) -> u32 {
        self.counts.get(&body.0).copied().unwrap_or(0)
    }

    /// Adds references; true if there were none.
    pub(in crate::partition) fn add(&mut self, body: BodyRef, references: u32) -> bool {
        if references == 0 {
            return false;
        }
        match self.counts.entry(body.0) {
            Entry::Occupied(mut known) => {
                *known.get_mut() = known.get().saturating_add(references);
                false
            }
            Entry::Vacant(new) => {
                new.insert(references);
                true
            }
        }
    }

    /// Removes a reference; true if it was the last.
    pub(in crate::partition) fn release(&mut self, body: BodyRef) -> bool {
        let Entry::Occupied(mut known) = self.counts.entry(body.0) else { return false };
        *known.get_mut() -= 1;
        if *known.get() > 0 {
            return false;
        }
        known.remove();
        if self.counts.capacity() > CAPACITY_KEPT.max(self.counts.len() * SPARSE_RATIO) {
            self.counts.shrink_to(self.counts.len() * 2);
        }
        true
    }

    /// The numbers of all referenced bodies, in no order.
    pub(in crate::partition) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.counts.keys().copied()
    }

    /// Number of referenced bodies.
    #[cfg(test)]
    pub(in crate::partition) fn len(&self) -> usize {
        self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_new_once_and_deleted_with_its_last_reference() {
        let mut bodies = Bodies::default();
        assert!(!bodies.add(BodyRef(1), 0));
        assert!(bodies.add(BodyRef(1), 2));
        assert!(!bodies.add(BodyRef(1), 1));
        assert_eq!(bodies.count(BodyRef(1)), 3);
        assert!(!bodies.release(BodyRef(1)));
        assert!(!bodies.release(BodyRef(1)));
        assert!(bodies.release(BodyRef(1)));
        assert!(!bodies.release(BodyRef(1)), "nothing is left to release");
        assert_eq!(bodies.len(), 0);
    }

    #[test]
    fn memory_is_given_back() {
        let mut bodies = Bodies::default();
        for number in 0..100_000 {
            bodies.add(BodyRef(number), 1);
        }
        for number in 0..99_999 {
            assert!(bodies.release(BodyRef(number)));
        }
        assert!(bodies.counts.capacity() <= 2 * CAPACITY_KEPT, "{}", bodies.counts.capacity());
        assert_eq!(bodies.count(BodyRef(99_999)), 1);
    }
}
