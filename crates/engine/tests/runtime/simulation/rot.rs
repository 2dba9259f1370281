//! Bytes that change on the disk: only the messages whose bodies contain them are affected.

use std::collections::BTreeMap;

use peeklock_engine::{QueueId, SequenceNumber};

use super::steps::Place;
use super::world::{QUEUES, World};

impl World {
    /// Flips a byte of the body of a message in a queue.
    pub(super) fn rot(&mut self, which: usize, byte: usize) {
        let queues = (0..QUEUES.len()).filter_map(|queue| self.find(Place::Queue(queue)));
        let partitions: Vec<u64> = queues.map(|address| address.queue.0).collect();
        if let Some((partition, content)) = self.broker.store.rot(which, byte, &partitions) {
            let content = String::from_utf8_lossy(&content).into_owned();
            self.auditor(QueueId(partition.0)).rotten(&content);
        }
    }

    /// Checks that only messages with changed bodies are recorded as damaged.
    pub(super) fn observe_damage(&mut self) {
        for damage in self.broker.namespace.damage() {
            let index = QUEUES.iter().position(|name| *name == damage.entity);
            let address = index.and_then(|index| self.find(Place::Queue(index)));
            let number = damage.sequence_number.map(SequenceNumber);
            let is_rot = address
                .zip(number)
                .is_some_and(|(address, number)| self.auditor(address.queue).may_be_damaged(number));
            assert!(is_rot, "{damage:?}");
        }
    }

    /// Number of messages in quarantine, by queue.
    pub(super) fn quarantined(&self) -> BTreeMap<QueueId, usize> {
        let queues = QUEUES.iter().enumerate().map(|(index, name)| {
            let queue = self.find(Place::Queue(index)).expect("the queue stays").queue;
            let count = self.broker.namespace.counts(name).expect("the queue stays").quarantined;
            (queue, usize::try_from(count).unwrap())
        });
        queues.collect()
    }
}
