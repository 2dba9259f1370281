//! Bytes that change on the disk: only the messages whose bodies or attributes contain them are affected.

use std::collections::{BTreeMap, BTreeSet};

use peeklock_engine::{QueueId, SequenceNumber};
use peeklock_storage::Space;

use super::steps::Place;
use super::topic::{SUBSCRIPTIONS, TOPIC};
use super::world::{QUEUES, World};

fn queues() -> impl Iterator<Item = Place> {
    (0..QUEUES.len()).map(Place::Queue)
}

fn queues_and_subscriptions() -> impl Iterator<Item = Place> {
    queues().chain((0..SUBSCRIPTIONS.len()).map(Place::Subscription))
}

/// The name of a queue or subscription in reports of damage.
fn name_of(place: Place) -> String {
    match place {
        Place::Queue(index) => QUEUES[index].to_owned(),
        Place::Subscription(index) => format!("{TOPIC}/Subscriptions/{}", SUBSCRIPTIONS[index]),
        place => panic!("nothing of {place:?} is damaged"),
    }
}

impl World {
    fn partitions_of(&self, places: impl Iterator<Item = Place>) -> Vec<u64> {
        places.filter_map(|place| self.find(place)).map(|address| address.queue.0).collect()
    }

    /// Flips a byte of the body of a message in a queue.
    pub(super) fn rot(&mut self, which: usize, byte: usize) {
        let partitions = self.partitions_of(queues());
        if let Some((key, content)) = self.broker.store.rot(which, byte, (Space::Body, &partitions)) {
            let content = String::from_utf8_lossy(&content).into_owned();
            self.auditor(QueueId(key.partition.0)).rotten(&content);
        }
    }

    /// Flips a byte of the stored attributes of a message in a queue or subscription.
    pub(super) fn rot_head(&mut self, which: usize, byte: usize) {
        let partitions = self.partitions_of(queues_and_subscriptions());
        if let Some((key, _)) = self.broker.store.rot(which, byte, (Space::Head, &partitions)) {
            let (queue, number) = (QueueId(key.partition.0), SequenceNumber(key.number));
            self.auditor(queue).rotten_number(number);
            let is_there = |place: &Place| self.find(*place).is_some_and(|address| address.queue == queue);
            let place = queues_and_subscriptions().find(is_there).expect("one of these");
            self.rotten.insert((name_of(place), number.0));
        }
    }

    /// Checks that only messages with changed bytes are recorded as damaged.
    pub(super) fn observe_damage(&mut self) {
        for damage in self.broker.namespace.damage() {
            let number = damage.sequence_number.expect("only messages are damaged");
            let place = queues_and_subscriptions().find(|place| name_of(*place) == damage.entity);
            let address = place.and_then(|place| self.find(place));
            let is_rot = address
                .is_some_and(|address| self.auditor(address.queue).may_be_damaged(SequenceNumber(number)));
            // A subscription may have been deleted since.
            let was_rot = !self.is_repaired && self.rotten.contains(&(damage.entity.clone(), number));
            assert!(is_rot || was_rot, "{damage:?}");
        }
    }

    /// Maximum number of bodies that stay although no head refers to them and all can be read: those of unreadable heads
    /// that were deleted with their subscription, while another one had such heads that could be read again later.
    pub(super) fn unnamed_bodies_max(&self) -> usize {
        let names: Vec<String> = (0..SUBSCRIPTIONS.len()).map(Place::Subscription).map(name_of).collect();
        let of_subscriptions = self.rotten.iter().filter(|(name, _)| names.contains(name));
        let concerned: BTreeSet<&String> = of_subscriptions.clone().map(|(name, _)| name).collect();
        if concerned.len() > 1 { of_subscriptions.count() } else { 0 }
    }

    /// Number of messages in quarantine, by queue or subscription.
    pub(super) fn quarantined(&self) -> BTreeMap<QueueId, usize> {
        let counted = queues_and_subscriptions().filter_map(|place| {
            let queue = self.find(place)?.queue;
            let counts = match place {
                Place::Subscription(index) => {
                    self.broker.namespace.subscription_counts(TOPIC, SUBSCRIPTIONS[index])
                }
                place => self.broker.namespace.counts(&name_of(place)),
            };
            Some((queue, usize::try_from(counts?.quarantined).unwrap()))
        });
        counted.collect()
    }
}
