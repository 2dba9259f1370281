//! The expiry times of locks, in order.
//!
//! Locks of one duration are granted in the order in which they end, so nearly all entries are appended to a sorted queue. A
//! settled lock leaves a stale entry behind: only the table of locks knows whether an entry is valid, and it is checked when
//! the entry reaches the front. Entries that are not last in order (renewals, other durations) are in a tree.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use crate::{LockToken, SequenceNumber, Timestamp};

/// The end of a lock, and the lock.
pub(super) type End = (Timestamp, SequenceNumber, LockToken);

/// Placeholder for an entry that is about to be written.
const NONE: End = (Timestamp(0), SequenceNumber(0), LockToken(0));
/// Capacity that is kept for entries.
const CAPACITY_KEPT: usize = 1024;
/// A queue with more capacity is shrunk when fewer than one in this many of its places are used.
const SPARSE_RATIO: usize = 8;
/// Number of stale entries that are always tolerated.
const LEFT_BEHIND_MIN: usize = 64;

/// See the module. Every method that removes or iterates gets `counts`, which must be true for exactly the entries that were
/// inserted and not removed since.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Sorted, without duplicates; the front is valid.
    in_order: VecDeque<End>,
    /// Number of stale entries in `in_order`.
    left_behind: usize,
    /// All valid.
    others: BTreeSet<End>,
}

impl Ends {
    /// Adds an entry that is not present. It is passed in parts and written part by part to its final place: copying it as a
    /// whole right after writing the parts would stall on store forwarding.
    pub(super) fn insert(&mut self, until: Timestamp, number: SequenceNumber, token: LockToken) {
        if self.in_order.back().is_none_or(|last| *last < (until, number, token)) {
            self.in_order.push_back(NONE);
            if let Some(last) = self.in_order.back_mut() {
                (last.0, last.1, last.2) = (until, number, token);
            }
        } else {
            self.insert_among_others((until, number, token));
        }
    }

    fn insert_among_others(&mut self, end: End) {
        if self.in_order.binary_search(&end).is_ok() {
            // The stale entry becomes valid again.
            self.left_behind = self.left_behind.saturating_sub(1);
        } else {
            self.others.insert(end);
        }
    }

    /// Removes a present entry, which is stale from now on.
    pub(super) fn remove(&mut self, end: End, counts: impl Fn(&End) -> bool) {
        if self.others.is_empty() || !self.others.remove(&end) {
            self.left_behind += 1;
        }
        // Without stale entries the table need not be queried.
        while self.left_behind > 0
            && self.in_order.front().is_some_and(|front| *front == end || !counts(front))
        {
            self.in_order.pop_front();
            self.left_behind -= 1;
        }
        if self.left_behind > LEFT_BEHIND_MIN && 2 * self.left_behind > self.in_order.len() {
            self.tidy(counts);
        }
        self.give_back_room();
    }

    /// Removes all stale entries.
    pub(super) fn tidy(&mut self, counts: impl Fn(&End) -> bool) {
        self.in_order.retain(&counts);
        self.others.retain(&counts);
        self.left_behind = 0;
        self.give_back_room();
    }

    fn give_back_room(&mut self) {
        if self.in_order.capacity() > CAPACITY_KEPT.max(SPARSE_RATIO * self.in_order.len()) {
            self.in_order.shrink_to(2 * self.in_order.len());
        }
    }

    /// The earliest entry.
    pub(super) fn first(&self) -> Option<&End> {
        match (self.in_order.front(), self.others.first()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// All valid entries from a bound on, in order.
    pub(super) fn from(&self, from: Bound<End>, counts: impl Fn(&End) -> bool) -> impl Iterator<Item = &End> {
        let start = match from {
            Bound::Unbounded => 0,
            Bound::Included(from) => self.in_order.partition_point(|end| *end < from),
            Bound::Excluded(from) => self.in_order.partition_point(|end| *end <= from),
        };
        let mut in_order = self.in_order.range(start..).filter(move |end| counts(end)).peekable();
        let mut others = self.others.range((from, Bound::Unbounded)).peekable();
        std::iter::from_fn(move || match (in_order.peek(), others.peek()) {
            (Some(one), Some(other)) if other < one => others.next(),
            (Some(_), _) => in_order.next(),
            (None, _) => others.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn end(at: u64, number: u64) -> End {
        (Timestamp(at), SequenceNumber(number), LockToken(u128::from(number)))
    }

    fn insert(ends: &mut Ends, (until, number, token): End) {
        ends.insert(until, number, token);
    }

    fn all(ends: &Ends, from: Bound<End>, model: &BTreeSet<End>) -> Vec<End> {
        ends.from(from, |end| model.contains(end)).copied().collect()
    }

    #[test]
    fn ends_are_in_order_after_any_changes() {
        let mut random = StdRng::seed_from_u64(5);
        for _ in 0..40 {
            let (mut ends, mut model) = (Ends::default(), BTreeSet::new());
            let removing = random.random_range(0.2..0.6);
            for number in 0..600 {
                if random.random_bool(removing) && !model.is_empty() {
                    let place = if random.random_bool(0.7) { 0 } else { random.random_range(0..model.len()) };
                    let gone: End = *model.iter().nth(place).unwrap();
                    model.remove(&gone);
                    ends.remove(gone, |end| model.contains(end));
                    if random.random_bool(0.2) {
                        model.insert(gone);
                        insert(&mut ends, gone);
                    }
                } else {
                    let at = if random.random_bool(0.9) { number / 4 } else { random.random_range(0..200) };
                    model.insert(end(at, number));
                    insert(&mut ends, end(at, number));
                }
                assert_eq!(ends.first(), model.first());
                if number % 20 == 0 {
                    let bound = end(random.random_range(0..160), number / 2);
                    for from in [Bound::Unbounded, Bound::Included(bound), Bound::Excluded(bound)] {
                        let expected: Vec<End> = model.range((from, Bound::Unbounded)).copied().collect();
                        assert_eq!(all(&ends, from, &model), expected);
                    }
                }
            }
            model.retain(|(_, number, _)| number.0 % 3 == 0);
            ends.tidy(|end| model.contains(end));
            assert_eq!(ends.first(), model.first());
            assert!(all(&ends, Bound::Unbounded, &model).iter().eq(&model));
        }
    }

    #[test]
    fn removed_locks_behind_a_lock_that_stays_take_bounded_space() {
        let (mut ends, mut model) = (Ends::default(), BTreeSet::from([end(1, 0)]));
        insert(&mut ends, end(1, 0));
        for number in 1..100_000 {
            let one = end(1 + number, number);
            insert(&mut ends, one);
            model.insert(one);
            if number > 10 {
                let gone = end(number - 9, number - 10);
                model.remove(&gone);
                ends.remove(gone, |end| model.contains(end));
            }
            assert!(ends.in_order.len() <= 2 * LEFT_BEHIND_MIN, "{}", ends.in_order.len());
        }
        assert_eq!(ends.first(), Some(&end(1, 0)));
    }

    #[test]
    fn room_for_a_million_is_given_back() {
        let (mut ends, count) = (Ends::default(), 1_000_000);
        (0..count).for_each(|number| insert(&mut ends, end(number, number)));
        for number in 0..count {
            ends.remove(end(number, number), |end| end.0.0 > number);
        }
        assert!(ends.first().is_none());
        insert(&mut ends, end(count, count));
        assert!(ends.in_order.capacity() <= 2 * CAPACITY_KEPT, "{}", ends.in_order.capacity());
    }
}
