//! The ends of locks in order of time.
//!
//! Locks of one duration are given out in the order in which they end, so nearly all ends are appended to a sorted queue. A
//! lock that is settled leaves its entry behind: whether an entry still counts is known by the table of locks, which is asked
//! when the entry comes to the front. Ends that don't fit behind the others (renewals, other durations) are in a tree.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use crate::{LockToken, SequenceNumber, Timestamp};

/// When a lock ends, and which.
pub(super) type End = (Timestamp, SequenceNumber, LockToken);

/// The place of an end that is about to be written.
const NONE: End = (Timestamp(0), SequenceNumber(0), LockToken(0));
/// Room that is kept for entries.
const CAPACITY_KEPT: usize = 1024;
/// A queue with more room gives it back when fewer than one in this many of its places are used.
const SPARSE_RATIO: usize = 8;
/// Entries that may be left behind beside as many that count.
const LEFT_BEHIND_MIN: usize = 64;

/// See the module. Every method that changes it, and every one that walks it, is told which entries count: `counts` is true of
/// an end that was inserted and not removed since.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Sorted, each once; the front counts.
    in_order: VecDeque<End>,
    /// Of these, those that don't count.
    left_behind: usize,
    /// All count.
    others: BTreeSet<End>,
}

impl Ends {
    /// Adds an end that is not there. It is given in parts, and written part by part where it stays: copied as a whole right
    /// after it was made, it would wait until all of them have reached the cache.
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
            // Left behind, and now it counts again.
            self.left_behind = self.left_behind.saturating_sub(1);
        } else {
            self.others.insert(end);
        }
    }

    /// Takes out an end that is there, and counts no more.
    pub(super) fn remove(&mut self, end: End, counts: impl Fn(&End) -> bool) {
        if self.others.is_empty() || !self.others.remove(&end) {
            self.left_behind += 1;
        }
        // All the others count where none is left behind: the table need not be asked.
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

    /// Takes out all that counts no more.
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

    /// The earliest.
    pub(super) fn first(&self) -> Option<&End> {
        match (self.in_order.front(), self.others.first()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// All from a bound on, in order.
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
    fn ends_are_in_order_whatever_comes_and_goes() {
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
    fn what_is_left_behind_a_lock_that_stays_takes_bounded_room() {
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
