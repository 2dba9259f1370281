//! The store while a history is compared.

use peeklock_storage::{Batch, Space};

use super::super::rig::{self, QUEUE};
use super::super::topics::rig as topic_rig;
use super::super::topics::store::Store as TopicStore;
use crate::EntityOptions;
use crate::partition::Partition;

/// The store; each kind of rig checks its invariants.
pub(super) enum Store {
    Queue(rig::Store),
    Topic(TopicStore),
}

impl Store {
    pub(super) fn new(options: &EntityOptions) -> Self {
        match options {
            EntityOptions::Queue(_) => Self::Queue(rig::Store::default()),
            EntityOptions::Topic(_) => Self::Topic(TopicStore::default()),
        }
    }

    pub(super) fn write(&mut self, batch: Batch) {
        match self {
            Self::Queue(store) => store.write(batch),
            Self::Topic(store) => store.write(batch),
        }
    }

    pub(super) fn restore(&self, options: &EntityOptions) -> Partition {
        match (self, options) {
            (Self::Topic(store), EntityOptions::Topic(options)) => store.restore(options.clone()).unwrap(),
            (Self::Queue(store), options) => store.restore(options.clone()),
            (Self::Topic(_), EntityOptions::Queue(_)) => panic!("a topic stays a topic"),
        }
    }

    pub(super) fn check(&self, partition: &Partition) {
        match self {
            Self::Queue(store) => rig::check_invariants(partition, store),
            Self::Topic(store) => topic_rig::check_invariants(partition, store),
        }
    }

    pub(super) fn content_bytes(&self, number: u64) -> Option<usize> {
        let content = match self {
            Self::Queue(store) => store.entries(Space::Body),
            Self::Topic(store) => store.entries(QUEUE, Space::Body),
        };
        content.iter().find(|entry| entry.number == number).map(|entry| entry.value.len())
    }
}
