//! Message counts of a queue or subscription as of the last turn, readable by other tasks.

use std::sync::{Mutex, PoisonError};

use crate::QueueId;
use crate::partition::{Activity, Counts, Partition};

/// See the module. Both values are from the same point in time.
#[derive(Debug, Default)]
pub(in crate::runtime) struct SharedCounts(Mutex<(Counts, Activity)>);

impl SharedCounts {
    pub(in crate::runtime) fn get(&self) -> Counts {
        self.both().0
    }

    pub(in crate::runtime) fn both(&self) -> (Counts, Activity) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the counts of a queue, or of a topic's own messages.
    pub(in crate::runtime) fn set_entity(&self, partition: &Partition, id: QueueId) {
        self.set(partition.counts(), partition.activity(id));
    }

    pub(in crate::runtime) fn set(&self, counts: Counts, activity: Activity) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (counts, activity);
    }
}
