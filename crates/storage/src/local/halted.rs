//! Partitions whose batches are refused because an earlier one was.

use std::collections::BTreeSet;

use super::writer::{Waiting, full};
use crate::PartitionId;

/// Batches of a partition build on each other, so the one behind a refused batch must not be written.
#[derive(Debug, Default)]
pub(super) struct Halted {
    partitions: BTreeSet<PartitionId>,
}

impl Halted {
    /// Accepts batches of `partition` again.
    pub(super) fn resume(&mut self, partition: PartitionId) {
        self.partitions.remove(&partition);
    }

    /// Halts the partitions of refused batches, and refuses what comes behind in a halted partition.
    pub(super) fn spread(&mut self, waiting: &mut [Waiting]) {
        if self.partitions.is_empty() && waiting.iter().all(|one| one.refusal.is_none()) {
            return;
        }
        for one in waiting {
            if one.batch.partitions().any(|partition| self.partitions.contains(&partition)) {
                one.refusal.get_or_insert_with(|| full("an earlier batch of the partition was refused"));
            }
            if one.refusal.is_some() {
                self.partitions.extend(one.batch.partitions());
            }
        }
    }
}
