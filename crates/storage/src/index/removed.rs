//! Partitions that were removed as a whole.

use std::collections::BTreeMap;

use crate::{PartitionId, Space};

/// Spaces of partitions from which all numbers were removed at once, as runs of consecutive partitions. New partitions
/// get increasing ids, so the partitions that still exist bound the number of runs, not those that were removed.
#[derive(Debug, Default)]
pub(super) struct RemovedPartitions {
    /// First partition of a run → its last one.
    runs: BTreeMap<(Space, PartitionId), PartitionId>,
}

impl RemovedPartitions {
    pub(super) fn contains(&self, space: Space, partition: PartitionId) -> bool {
        let run = self.runs.range(..=(space, partition)).next_back();
        run.is_some_and(|((of, _), last)| *of == space && partition <= *last)
    }

    pub(super) fn insert(&mut self, space: Space, PartitionId(id): PartitionId) {
        if self.contains(space, PartitionId(id)) {
            return;
        }
        let (mut first, mut last) = (PartitionId(id), PartitionId(id));
        if let Some(next) = id.checked_add(1)
            && let Some(end) = self.runs.remove(&(space, PartitionId(next)))
        {
            last = end;
        }
        let before =
            self.runs.range(..(space, first)).next_back().map(|((of, begin), end)| (*of, *begin, *end));
        if let Some((of, begin, PartitionId(end))) = before
            && of == space
            && end.checked_add(1) == Some(id)
        {
            first = begin;
        }
        self.runs.insert((space, first), last);
    }

    /// Adds the partitions of `other`, which must be of other spaces.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.runs.append(&mut other.runs);
    }

    /// Number of runs.
    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }
}
