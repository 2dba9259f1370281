//! The store of a topic: an ordered map.

use std::collections::BTreeMap;

use bytes::Bytes;
use peeklock_storage::{Batch, Entry, Key, Operation, PartitionId, Space};

use super::rig::TOPIC;
use crate::partition::{Partition, RestoreError};
use crate::{QueueId, TopicOptions};

/// The contents of the store.
#[derive(Debug, Clone, Default)]
pub(in crate::partition::tests) struct Store(pub(in crate::partition::tests) BTreeMap<Key, Bytes>);

impl Store {
    pub(in crate::partition::tests) fn write(&mut self, batch: Batch) {
        for operation in batch.into_operations() {
            match operation {
                Operation::Put { key, value } => drop(self.0.insert(key, value)),
                Operation::Delete { key } => drop(self.0.remove(&key)),
                Operation::DeleteRange { space, partition, numbers } => {
                    self.0.retain(|key, _| {
                        (key.space, key.partition) != (space, partition) || !numbers.contains(&key.number)
                    });
                }
            }
        }
    }

    pub(in crate::partition::tests) fn entries(&self, queue: QueueId, space: Space) -> Vec<Entry> {
        let key = |number| Key::new(space, PartitionId(queue.0), number);
        let range = self.0.range(key(0)..=key(u64::MAX));
        range.map(|(key, value)| Entry { number: key.number, value: value.clone() }).collect()
    }

    pub(in crate::partition::tests) fn restore(
        &self,
        options: TopicOptions,
    ) -> Result<Partition, RestoreError> {
        let both = |id| (self.entries(id, Space::Meta), self.entries(id, Space::Head));
        let (meta, head) = both(TOPIC);
        let mut partition = Partition::restore(TOPIC, options, meta, head)?;
        let ids: Vec<QueueId> = partition.subscriptions().map(|subscription| subscription.queue).collect();
        for id in ids {
            let (meta, head) = both(id);
            partition.restore_subscription(id, meta, head)?;
        }
        partition.restored();
        partition.suspect_bodies();
        Ok(partition)
    }
}
