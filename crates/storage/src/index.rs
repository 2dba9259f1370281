//! Locations of all live values: 12 bytes per key in dense runs.

use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use crate::{Key, PartitionId, Space};

mod chunk;
mod departed;
mod removed;
mod trees;

pub(crate) use departed::{Counted, Departed};
use removed::RemovedPartitions;
use trees::{Tree, Trees};

/// Keys per chunk.
const CHUNK_KEYS: u64 = 256;
/// Top bit of the length: older versions of the key may exist (see [`Index::shadowed`]).
const SHADOWED_BIT: u32 = 1 << 31;

/// The location of a put record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    /// The segment's id, never 0.
    pub(crate) segment: u32,
    /// Position of the record header in the segment.
    pub(crate) offset: u32,
    /// Length of the value; the top bit marks shadowed keys.
    len_and_flag: u32,
}

impl Location {
    pub(crate) const fn new(segment: u32, offset: u32, value_len: u32) -> Self {
        Self { segment, offset, len_and_flag: value_len & !SHADOWED_BIT }
    }

    /// Length of the value in bytes.
    pub(crate) const fn value_len(self) -> u32 {
        self.len_and_flag & !SHADOWED_BIT
    }

    const fn is_shadowed(self) -> bool {
        self.len_and_flag & SHADOWED_BIT != 0
    }

    const fn shadowed(self) -> Self {
        Self { len_and_flag: self.len_and_flag | SHADOWED_BIT, ..self }
    }

    /// Whether both are the same record.
    pub(crate) const fn is_same_place(self, other: Self) -> bool {
        self.segment == other.segment && self.offset == other.offset
    }
}

/// All live keys. The broker assigns the numbers in keys, so clients can't provoke hash collisions.
#[derive(Debug, Default)]
pub(crate) struct Index {
    trees: Trees,
    /// Partitions without a tree because they were removed as a whole. The broker does not use them again.
    removed: RemovedPartitions,
    /// Keys whose older versions may still exist in other segments, with the rank from which on they do. Few: keys that
    /// were overwritten or reused after removal.
    shadowed: FxHashMap<Key, u32>,
    keys: u64,
}

impl Index {
    /// Number of live keys.
    pub(crate) const fn len(&self) -> u64 {
        self.keys
    }

    pub(crate) fn get(&self, key: Key) -> Option<Location> {
        let tree = self.trees.get(key.space, key.partition)?;
        tree.chunks.get(&(key.number / CHUNK_KEYS))?.get(slot(key.number))
    }

    /// The rank from which on older versions of a live key may exist in addition to the live one.
    pub(crate) fn shadowed_since(&self, key: Key, location: Location) -> Option<u32> {
        location.is_shadowed().then(|| self.shadowed.get(&key).copied()).flatten()
    }

    /// Sets the location of `key` and returns the previous one.
    pub(crate) fn insert(
        &mut self,
        key: Key,
        location: Location,
        shadowed_since: Option<u32>,
    ) -> Option<Location> {
        let tree = self.tree(key.space, key.partition)?;
        tree.numbers_end = tree.numbers_end.max(key.number.saturating_add(1));
        let location = if shadowed_since.is_some() { location.shadowed() } else { location };
        let number = key.number / CHUNK_KEYS;
        let chunk = match tree.last_chunk(number) {
            Some(chunk) => chunk,
            None => tree.chunks.entry(number).or_default(),
        };
        let before = chunk.insert(slot(key.number), location);
        if before.is_none() {
            self.keys += 1;
        }
        match shadowed_since {
            Some(rank) => {
                self.shadowed.insert(key, rank);
            }
            None if before.is_some_and(Location::is_shadowed) => {
                self.shadowed.remove(&key);
            }
            None => {}
        }
        before
    }

    /// The tree of a space of a partition, added if missing: there always is one.
    fn tree(&mut self, space: Space, partition: PartitionId) -> Option<&mut Tree> {
        let tree = self.trees.get_or_add(space, partition)?;
        if tree.numbers_end == 0 && self.removed.contains(space, partition) {
            tree.numbers_end = u64::MAX;
        }
        Some(tree)
    }

    /// Changes the location of `key` to the copy of its record, if it still is the original's.
    pub(crate) fn relocate(&mut self, key: Key, from: Location, to: Location) -> bool {
        let Some(tree) = self.trees.get_mut(key.space, key.partition) else { return false };
        let Some(chunk) = tree.chunks.get_mut(&(key.number / CHUNK_KEYS)) else { return false };
        match chunk.get(slot(key.number)) {
            Some(current) if current.is_same_place(from) => {
                let to = if current.is_shadowed() { to.shadowed() } else { to };
                chunk.insert(slot(key.number), to);
                true
            }
            _ => false,
        }
    }

    /// Removes `key` and returns its location.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Location> {
        let tree = self.trees.get_mut(key.space, key.partition)?;
        let Slotted { before, empty } = Slotted::remove(tree, key.number);
        if empty {
            tree.chunks.remove(&(key.number / CHUNK_KEYS));
        }
        let before = before?;
        self.keys -= 1;
        if before.is_shadowed() {
            self.shadowed.remove(&key);
        }
        Some(before)
    }

    /// Removes every key in `numbers` and passes its location to `forgotten`. A partition from which all numbers are
    /// removed is forgotten.
    pub(crate) fn remove_range(
        &mut self,
        space: Space,
        partition: PartitionId,
        numbers: RangeInclusive<u64>,
        forgotten: impl FnMut(Location),
    ) {
        let is_whole = numbers == (0..=u64::MAX);
        self.remove_keys(space, partition, numbers, forgotten);
        if is_whole {
            self.trees.take(space, partition);
            self.removed.insert(space, partition);
        }
    }

    fn remove_keys(
        &mut self,
        space: Space,
        partition: PartitionId,
        numbers: RangeInclusive<u64>,
        mut forgotten: impl FnMut(Location),
    ) {
        let Some(tree) = self.trees.get_mut(space, partition) else { return };
        let (first, last) = numbers.into_inner();
        if first > last {
            return;
        }
        let mut emptied = Vec::new();
        for (chunk_number, chunk) in tree.chunks.range_mut(first / CHUNK_KEYS..=last / CHUNK_KEYS) {
            let base = chunk_number * CHUNK_KEYS;
            let from = slot(first.max(base));
            let to = slot(last.min(base.saturating_add(CHUNK_KEYS - 1)));
            chunk.remove_range(from..=to, |number, location| {
                self.keys -= 1;
                if location.is_shadowed() {
                    self.shadowed.remove(&Key::new(space, partition, base + u64::from(number)));
                }
                forgotten(location);
            });
            if chunk.is_empty() {
                emptied.push(*chunk_number);
            }
        }
        for chunk_number in emptied {
            tree.chunks.remove(&chunk_number);
        }
    }

    /// Live keys from `from` on, in number order.
    pub(crate) fn range(
        &self,
        space: Space,
        partition: PartitionId,
        from: u64,
    ) -> impl Iterator<Item = (u64, Location)> + '_ {
        let tree = self.trees.get(space, partition);
        tree.into_iter().flat_map(move |tree| {
            tree.chunks.range(from / CHUNK_KEYS..).flat_map(move |(chunk_number, chunk)| {
                let base = chunk_number * CHUNK_KEYS;
                let first = if base >= from { 0 } else { slot(from) };
                chunk.iter_from(first).map(move |(slot, location)| (base + u64::from(slot), location))
            })
        })
    }

    /// One past the highest number known for this space and partition, the last number if it was removed as a whole.
    pub(crate) fn numbers_end(&self, space: Space, partition: PartitionId) -> u64 {
        match self.trees.get(space, partition) {
            Some(tree) if tree.numbers_end > 0 => tree.numbers_end,
            _ if self.removed.contains(space, partition) => u64::MAX,
            _ => 0,
        }
    }

    /// Raises [`Index::numbers_end`] beyond `number`.
    pub(crate) fn note_number(&mut self, space: Space, partition: PartitionId, number: u64) {
        if self.numbers_end(space, partition) <= number
            && let Some(tree) = self.tree(space, partition)
        {
            tree.numbers_end = number.saturating_add(1);
        }
    }

    /// Raises [`Index::numbers_end`] beyond a key and returns the previous value, if the key was beyond it: then it is
    /// in no record on disk.
    pub(crate) fn note_if_new(&mut self, key: Key) -> Option<u64> {
        let tree = self.tree(key.space, key.partition)?;
        let end = tree.numbers_end;
        // No end can be beyond the last number, so that number always counts as known.
        let past = key.number.checked_add(1).filter(|past| *past > end)?;
        tree.numbers_end = past;
        Some(end)
    }

    /// Adds the keys of `other`, which must be of other spaces or partitions.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.trees.absorb(other.trees);
        self.removed.absorb(other.removed);
        self.shadowed.extend(other.shadowed);
        self.keys += other.keys;
    }

    /// The spaces and partitions that have live keys.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (Space, PartitionId)> + '_ {
        self.trees.filled()
    }
}

/// The result of removing one key from a tree.
struct Slotted {
    before: Option<Location>,
    empty: bool,
}

impl Slotted {
    fn remove(tree: &mut Tree, number: u64) -> Self {
        match tree.chunks.get_mut(&(number / CHUNK_KEYS)) {
            Some(chunk) => Self { before: chunk.remove(slot(number)), empty: chunk.is_empty() },
            None => Self { before: None, empty: false },
        }
    }
}

/// The slot of `number` in its chunk.
#[expect(clippy::cast_possible_truncation, reason = "a chunk has 256 places")]
const fn slot(number: u64) -> u8 {
    (number % CHUNK_KEYS) as u8
}

#[cfg(test)]
mod tests;
