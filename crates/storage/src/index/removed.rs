//! Partitions that were removed as a whole.

use std::collections::BTreeMap;

use rangemap::RangeInclusiveSet;

use crate::{PartitionId, Space};

/// Partitions from which all numbers of a space were removed at once. New partitions get increasing ids, so the partitions
/// that still exist bound the number of ranges, not those that were removed.
#[derive(Debug, Default)]
pub(super) struct RemovedPartitions {
    ids: BTreeMap<Space, RangeInclusiveSet<u64>>,
}

impl RemovedPartitions {
    pub(super) fn contains(&self, space: Space, PartitionId(id): PartitionId) -> bool {
        self.ids.get(&space).is_some_and(|ids| ids.contains(&id))
    }

    pub(super) fn insert(&mut self, space: Space, PartitionId(id): PartitionId) {
        self.ids.entry(space).or_default().insert(id..=id);
    }

    /// Adds the partitions of `other`.
    pub(super) fn absorb(&mut self, other: Self) {
        for (space, ids) in other.ids {
            self.ids.entry(space).or_default().extend(ids);
        }
    }

    /// Number of ranges.
    #[cfg(test)]
    pub(super) fn ranges(&self) -> usize {
        self.ids.values().map(|ids| ids.iter().count()).sum()
    }
}
