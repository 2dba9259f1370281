//! Deliveries that are not settled yet, by serial number.

use std::collections::{BTreeMap, VecDeque};

/// Consecutive slots kept in the dense part; values unsettled for longer move to the sparse part.
const DENSE_SLOTS_MAX: usize = 4_096;

/// A gap in a peer's delivery-ids up to this length is filled with empty slots.
const GAP_SLOTS_MAX: u64 = 64;

/// The serial numbers of RFC 1982 have 32 bits; positions have 64 and start at two turns, so that a key one turn back,
/// and a range that begins another turn before, are still non-negative.
const SERIAL_TURN: u64 = 1 << 32;

/// The key is in use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Duplicate;

/// Values under serial numbers that are assigned (nearly) in order and removed (mostly) in order.
///
/// All operations cost O(1) for recent keys and O(log n) for old ones; a range costs the number of values found plus at
/// most the dense part. Memory is proportional to the number of live values, not their span.
#[derive(Debug)]
pub(super) struct SerialWindow<T> {
    dense: VecDeque<Option<T>>,
    /// Position of the first dense slot.
    dense_start: u64,
    sparse: BTreeMap<u64, T>,
    live: usize,
}

impl<T> SerialWindow<T> {
    /// Empty; the first pushed value gets key `first`.
    pub(super) fn new(first: u32) -> Self {
        Self {
            dense: VecDeque::new(),
            dense_start: 2 * SERIAL_TURN + u64::from(first),
            sparse: BTreeMap::new(),
            live: 0,
        }
    }

    /// Number of live values.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The key that the next pushed value gets.
    pub(super) fn next_key(&self) -> u32 {
        serial(self.end())
    }

    /// Appends a value under the next key.
    pub(super) fn push(&mut self, value: T) -> u32 {
        let key = self.next_key();
        self.dense.push_back(Some(value));
        self.live += 1;
        self.spill();
        key
    }

    /// Leaves the next key unused.
    pub(super) fn skip(&mut self) -> u32 {
        let key = self.next_key();
        if self.dense.is_empty() {
            self.dense_start += 1;
        } else {
            self.dense.push_back(None);
            self.spill();
        }
        key
    }

    /// Inserts a value under a key chosen by the peer.
    pub(super) fn insert(&mut self, key: u32, value: T) -> Result<(), Duplicate> {
        let ahead = key.wrapping_sub(self.next_key());
        if ahead <= u32::MAX / 2 {
            if ahead > 0 {
                self.open_gap(u64::from(ahead));
            }
            self.push(value);
            return Ok(());
        }
        let position = self.position(key);
        if position >= self.dense_start {
            let slot = self.dense_slot(position).ok_or(Duplicate)?;
            if slot.is_some() {
                return Err(Duplicate);
            }
            *slot = Some(value);
        } else {
            if self.sparse.contains_key(&position) {
                return Err(Duplicate);
            }
            self.sparse.insert(position, value);
        }
        self.live += 1;
        Ok(())
    }

    /// The live value under a key.
    pub(super) fn get(&self, key: u32) -> Option<&T> {
        let position = self.position(key);
        match position.checked_sub(self.dense_start) {
            Some(slot) => self.dense.get(as_index(slot))?.as_ref(),
            None => self.sparse.get(&position),
        }
    }

    /// The live value under a key, mutable.
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let position = self.position(key);
        if position >= self.dense_start {
            self.dense_slot(position)?.as_mut()
        } else {
            self.sparse.get_mut(&position)
        }
    }

    /// Removes a value.
    pub(super) fn remove(&mut self, key: u32) -> Option<T> {
        self.remove_if(key, |_| true)
    }

    /// Removes a value if `is_wanted`.
    pub(super) fn remove_if(&mut self, key: u32, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let position = self.position(key);
        let value = if position >= self.dense_start {
            self.dense_slot(position)?.take_if(|value| is_wanted(value))?
        } else {
            self.sparse.get(&position).filter(|value| is_wanted(value))?;
            self.sparse.remove(&position)?
        };
        self.live -= 1;
        self.trim();
        Some(value)
    }

    /// Calls `keep` for every live value whose key is in `first..=last` (modulo 2^32), in order; drops the value on
    /// `false`. Returns the number of visited values and empty slots.
    pub(super) fn retain_range(
        &mut self,
        first: u32,
        last: u32,
        mut keep: impl FnMut(u32, &mut T) -> bool,
    ) -> usize {
        let start = self.position(first);
        let length = u64::from(last.wrapping_sub(first));
        let mut visited = 0;
        // A long range may wrap around into older positions.
        for start in [start - SERIAL_TURN, start] {
            if start + length >= self.dense_start || !self.sparse.is_empty() {
                visited += self.retain_positions(start, start + length, &mut keep);
            }
        }
        self.trim();
        visited
    }

    /// Removes all values, in order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.live = 0;
        self.dense_start = self.end();
        let sparse = std::mem::take(&mut self.sparse);
        let dense = std::mem::take(&mut self.dense);
        sparse.into_values().chain(dense.into_iter().flatten())
    }

    fn retain_positions(
        &mut self,
        start: u64,
        last: u64,
        keep: &mut impl FnMut(u32, &mut T) -> bool,
    ) -> usize {
        let mut visited = 0;
        if !self.sparse.is_empty() {
            let dropped: Vec<u64> = self
                .sparse
                .range_mut(start..=last)
                .inspect(|_| visited += 1)
                .filter_map(|(&position, value)| (!keep(serial(position), value)).then_some(position))
                .collect();
            for position in &dropped {
                self.sparse.remove(position);
            }
            self.live -= dropped.len();
        }
        let end = self.end();
        if last < self.dense_start || start >= end {
            return visited;
        }
        let skipped = start.saturating_sub(self.dense_start);
        let taken = last.min(end - 1) + 1 - (self.dense_start + skipped);
        let slots = self.dense.iter_mut().skip(as_index(skipped)).take(as_index(taken));
        for (slot, position) in slots.zip(self.dense_start + skipped..) {
            if let Some(value) = slot
                && !keep(serial(position), value)
            {
                *slot = None;
                self.live -= 1;
            }
        }
        visited + as_index(taken)
    }

    fn open_gap(&mut self, slots: u64) {
        if slots > GAP_SLOTS_MAX || self.dense.is_empty() {
            let end = self.end();
            while let Some(slot) = self.dense.pop_front() {
                self.move_to_sparse(slot);
            }
            self.dense_start = end + slots;
        } else {
            self.dense.extend((0..slots).map(|_| None));
        }
    }

    fn spill(&mut self) {
        while self.dense.len() > DENSE_SLOTS_MAX {
            let slot = self.dense.pop_front().flatten();
            self.move_to_sparse(slot);
        }
    }

    /// Moves a slot that has just left the front of the dense part to the sparse part.
    fn move_to_sparse(&mut self, slot: Option<T>) {
        if let Some(value) = slot {
            self.sparse.insert(self.dense_start, value);
        }
        self.dense_start += 1;
    }

    fn trim(&mut self) {
        while let Some(None) = self.dense.front() {
            self.dense.pop_front();
            self.dense_start += 1;
        }
    }

    fn end(&self) -> u64 {
        self.dense_start + self.dense.len() as u64
    }

    /// The latest position before the end with this key, or the end itself.
    fn position(&self, key: u32) -> u64 {
        self.end() - u64::from(self.next_key().wrapping_sub(key))
    }

    fn dense_slot(&mut self, position: u64) -> Option<&mut Option<T>> {
        self.dense.get_mut(as_index(position.checked_sub(self.dense_start)?))
    }
}

/// The low half of a position.
#[allow(clippy::cast_possible_truncation)] // the key is the position modulo 2^32
fn serial(position: u64) -> u32 {
    position as u32
}

fn as_index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn keys_in(window: &mut SerialWindow<u32>, first: u32, last: u32) -> Vec<u32> {
        let mut seen = Vec::new();
        window.retain_range(first, last, |key, value| {
            assert_eq!(key, *value);
            seen.push(key);
            true
        });
        seen
    }

    #[test]
    fn keys_wrap_around_the_serial_numbers() {
        let mut window = SerialWindow::new(u32::MAX - 1);
        for expected in [u32::MAX - 1, u32::MAX, 0, 1] {
            assert_eq!(window.push(expected), expected);
        }
        assert_eq!(keys_in(&mut window, u32::MAX, 0), [u32::MAX, 0]);
        assert_eq!(window.remove(u32::MAX), Some(u32::MAX));
        assert_eq!(window.remove(u32::MAX), None);
        assert_eq!(keys_in(&mut window, 0, u32::MAX), [u32::MAX - 1, 0, 1]);
        assert_eq!(window.len(), 3);
    }

    #[test]
    fn stragglers_stay_reachable_and_do_not_hold_the_dense_part() {
        let mut window = SerialWindow::new(0);
        for key in 0..100_000 {
            window.push(key);
            if key % 10_000 != 0 {
                window.remove(key);
            }
        }
        assert_eq!(window.len(), 10);
        assert!(window.dense.len() <= DENSE_SLOTS_MAX);
        assert_eq!(keys_in(&mut window, 5, 40_000), [10_000, 20_000, 30_000, 40_000]);
        assert_eq!(window.remove(0), Some(0));
        assert_eq!(window.drain().count(), 9);
        assert_eq!(window.next_key(), 100_000);
    }

    #[test]
    fn a_key_in_use_is_refused_wherever_it_lives() {
        let mut window = SerialWindow::new(7);
        window.insert(1_000_000, 1_000_000).unwrap();
        window.insert(5, 5).unwrap();
        assert_eq!(window.insert(5, 5), Err(Duplicate));
        assert_eq!(window.insert(1_000_000, 0), Err(Duplicate));
        window.insert(1_000_010, 1_000_010).unwrap();
        window.insert(1_000_004, 1_000_004).unwrap();
        assert_eq!(keys_in(&mut window, 5, u32::MAX), [5, 1_000_000, 1_000_004, 1_000_010]);
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(start: u32, operations in prop::collection::vec((0u8..4, any::<u32>(), 0u32..6_000), 1..300)) {
            let mut window = SerialWindow::new(start);
            let mut model = BTreeSet::new();
            for (kind, word, near) in operations {
                let recent = window.next_key().wrapping_sub(near);
                match kind {
                    0 => {
                        let key = window.next_key();
                        window.push(key);
                        model.insert(key);
                    }
                    1 => {
                        prop_assert_eq!(window.get(recent).is_some(), model.contains(&recent));
                        let fresh = window.insert(recent, recent).is_ok();
                        prop_assert_eq!(fresh, model.insert(recent));
                    }
                    2 => prop_assert_eq!(window.remove(recent).is_some(), model.remove(&recent)),
                    _ => {
                        let first = if word % 5 == 0 { word.rotate_left(7) } else { recent };
                        let last = first.wrapping_add(if word % 2 == 0 { word % 5_000 } else { word });
                        let inside = |key: u32| key.wrapping_sub(first) <= last.wrapping_sub(first);
                        let mut seen = BTreeSet::new();
                        window.retain_range(first, last, |key, _| {
                            seen.insert(key);
                            key % 3 == 0
                        });
                        prop_assert_eq!(&seen, &model.iter().copied().filter(|&key| inside(key)).collect());
                        model.retain(|&key| !inside(key) || key % 3 == 0);
                    }
                }
                prop_assert_eq!(window.len(), model.len());
            }
        }
    }
}
