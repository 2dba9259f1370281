//! Batches on their way to the log, and the refusal of those that depend on a refused one.

use std::collections::BTreeMap;

use crate::{Batch, CommitNotifier, Error, PartitionId};

/// A batch on its way to the log, with its refusal if it has been refused.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) batch: Batch,
    pub(crate) notifier: CommitNotifier,
    pub(crate) refusal: Option<Error>,
}

/// Partitions with a refused batch. Batches of a partition build on each other, so later ones must not be written.
#[derive(Debug, Default)]
pub(crate) struct Halted {
    /// With the error for later batches.
    partitions: BTreeMap<PartitionId, Error>,
}

impl Halted {
    /// Accepts batches of `partition` again.
    pub(crate) fn resume(&mut self, partition: PartitionId) {
        self.partitions.remove(&partition);
    }

    /// Halts the partitions of refused batches, and refuses later batches of halted partitions.
    pub(crate) fn spread(&mut self, waiting: &mut [Waiting]) {
        if self.partitions.is_empty() && waiting.iter().all(|one| one.refusal.is_none()) {
            return;
        }
        for one in waiting {
            if one.refusal.is_none() {
                let halted = |partition| self.partitions.get(&partition).cloned();
                one.refusal = one.batch.partitions().find_map(halted);
            }
            let Some(refusal) = &one.refusal else { continue };
            for partition in one.batch.partitions() {
                self.partitions.entry(partition).or_insert_with(|| behind(refusal));
            }
        }
    }
}

/// The error for batches that build on a refused one: they can be repeated after an outage, as that one.
pub(crate) fn behind(refusal: &Error) -> Error {
    let reason = "an earlier batch of the partition was refused";
    match refusal.is_outage() {
        true => Error::Unavailable { reason: reason.to_owned() },
        false => full(reason),
    }
}

/// Refuses, with `error`, the accepted batches that `which` selects.
pub(crate) fn refuse(waiting: &mut [Waiting], error: &Error, which: impl Fn(&Batch) -> bool) {
    for one in waiting.iter_mut().filter(|one| one.refusal.is_none() && which(&one.batch)) {
        one.refusal = Some(error.clone());
    }
}

pub(crate) fn full(reason: &str) -> Error {
    Error::Full { reason: reason.to_owned() }
}
