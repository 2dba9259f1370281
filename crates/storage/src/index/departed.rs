//! The keys of partitions that were removed as a whole: taken out of the index at once, counted later.

use std::collections::BTreeMap;

use super::chunk::Chunk;
use super::{CHUNK_KEYS, Index, Location};
use crate::{Key, PartitionId, Space};

/// Smaller partitions are removed key by key.
const CHUNKS_MIN: usize = 64;

/// The keys of a space of a partition that was removed.
#[derive(Debug)]
pub(crate) struct Departed {
    space: Space,
    partition: PartitionId,
    chunks: BTreeMap<u64, Chunk>,
}

/// Some removed keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    keys: u64,
    pub(crate) by_segment: BTreeMap<u32, SegmentSums>,
    /// Those of which older versions may exist.
    shadowed: Vec<Key>,
}

/// Sums over the removed keys whose values are in one segment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentSums {
    /// Number of keys.
    pub(crate) keys: u64,
    /// Total size of their values, in bytes.
    pub(crate) value_bytes: u64,
}

impl SegmentSums {
    fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.value_bytes += other.value_bytes;
    }
}

impl Departed {
    /// Whether all keys have been counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Counts and drops the keys of the next chunks.
    pub(crate) fn count_some(&mut self, chunks_max: usize) -> Counted {
        let mut counted = Counted::default();
        for _ in 0..chunks_max {
            let Some((number, chunk)) = self.chunks.pop_first() else { break };
            // Neighbouring keys are mostly in one segment.
            let (mut segment, mut sums) = (0, SegmentSums::default());
            for (slot, location) in chunk.iter_from(0) {
                if segment != location.segment {
                    counted.add(segment, sums);
                    (segment, sums) = (location.segment, SegmentSums::default());
                }
                sums.add(SegmentSums { keys: 1, value_bytes: u64::from(location.value_len()) });
                if location.is_shadowed() {
                    let number = number * CHUNK_KEYS + u64::from(slot);
                    counted.shadowed.push(Key::new(self.space, self.partition, number));
                }
            }
            counted.add(segment, sums);
        }
        counted
    }
}

impl Counted {
    fn add(&mut self, segment: u32, sums: SegmentSums) {
        if sums.keys > 0 {
            self.keys += sums.keys;
            self.by_segment.entry(segment).or_default().add(sums);
        }
    }
}

impl Index {
    /// Removes all keys of a space of a partition in a time that does not depend on their number; `None` if they are few: then
    /// nothing is removed. [`Self::forget`] must follow.
    pub(crate) fn take_partition(&mut self, space: Space, partition: PartitionId) -> Option<Departed> {
        self.trees.get(space, partition).filter(|tree| tree.chunks.len() >= CHUNKS_MIN)?;
        let chunks = self.trees.take(space, partition)?.chunks;
        self.removed.insert(space, partition);
        Some(Departed { space, partition, chunks })
    }

    /// Subtracts keys taken out by [`Self::take_partition`]. A key may have been put again since.
    pub(crate) fn forget(&mut self, counted: &Counted) {
        self.keys = self.keys.saturating_sub(counted.keys);
        for key in &counted.shadowed {
            if !self.get(*key).is_some_and(Location::is_shadowed) {
                self.shadowed.remove(key);
            }
        }
    }
}
