//! Bytes that change on the disk: they cost the messages whose contents they belong to, and nobody else notices.

use std::collections::BTreeMap;

use peeklock_engine::{QueueId, SequenceNumber};

use super::steps::Place;
use super::world::{QUEUES, World};

impl World {
    /// Flips a byte of a content that rests in a queue.
    pub(super) fn rot(&mut self, which: usize, byte: usize) {
        let queues = (0..QUEUES.len()).filter_map(|queue| self.find(Place::Queue(queue)));
        let partitions: Vec<u64> = queues.map(|address| address.queue.0).collect();
        if let Some((partition, content)) = self.broker.store.rot(which, byte, &partitions) {
            let content = String::from_utf8_lossy(&content).into_owned();
            self.auditor(QueueId(partition.0)).rotten(&content);
        }
    }

    /// Nothing is noted as damaged but messages whose contents were hit; how many are in quarantine, by queue.
    pub(super) fn quarantined(&mut self) -> BTreeMap<QueueId, usize> {
        let mut quarantined = BTreeMap::new();
        for (index, name) in QUEUES.iter().enumerate() {
            let queue = self.find(Place::Queue(index)).expect("the queue stays").queue;
            let count = self.broker.namespace.counts(name).expect("the queue stays").quarantined;
            quarantined.insert(queue, usize::try_from(count).unwrap());
            let damaged = self.broker.namespace.damage().into_iter().filter(|damage| damage.entity == *name);
            for damage in damaged {
                let number = damage.sequence_number.map(SequenceNumber);
                assert!(
                    number.is_some_and(|number| self.auditor(queue).may_be_damaged(number)),
                    "{damage:?}"
                );
            }
        }
        let damage = self.broker.namespace.damage();
        assert!(damage.iter().all(|damage| QUEUES.contains(&damage.entity.as_str())), "{damage:?}");
        quarantined
    }
}
