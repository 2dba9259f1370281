//! The subscriptions of a topic as the outside sees them: found by name, with their counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::SubscriptionDescription;
use super::actor::SharedCounts;
use crate::names::name_key;
use crate::partition::{Counts, Partition};
use crate::{QueueId, Subscription, SubscriptionOptions};

/// What the topic's actor knows of its subscriptions, as of its last turn; it may be ahead of what is durable.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    known: RwLock<Known>,
    /// Held by who declares or deletes subscriptions by name, so that a name is not created twice.
    pub(super) changing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<Box<str>, QueueId>,
    by_id: BTreeMap<QueueId, Found>,
}

/// One subscription.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) subscription: Arc<Subscription>,
    pub(super) options: Arc<SubscriptionOptions>,
    counts: Arc<SharedCounts>,
}

impl Found {
    pub(super) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// What administrators see.
    pub(super) fn describe(&self) -> SubscriptionDescription {
        let subscription = Arc::clone(&self.subscription);
        SubscriptionDescription { subscription, accessed_at: None, counts: self.counts() }
    }
}

impl Known {
    fn set(&mut self, subscription: &Arc<Subscription>, counts: Counts) {
        let id = subscription.queue;
        let found = Found {
            subscription: Arc::clone(subscription),
            options: Arc::new(subscription.options.clone()),
            counts: Arc::new(SharedCounts::default()),
        };
        found.counts.set(counts);
        self.by_name.insert(name_key(&subscription.name), id);
        self.by_id.insert(id, found);
    }

    fn remove(&mut self, id: QueueId) {
        if let Some(gone) = self.by_id.remove(&id) {
            let key = name_key(&gone.subscription.name);
            // The name may have a new owner already.
            if self.by_name.get(&key) == Some(&id) {
                self.by_name.remove(&key);
            }
        }
    }

    fn update(&mut self, partition: &Partition, id: QueueId) {
        match (partition.subscription(id), partition.subscription_counts(id)) {
            (Some(subscription), Some(counts)) => self.set(subscription, counts),
            _ => self.remove(id),
        }
    }
}

impl Subscriptions {
    /// Those of a partition.
    pub(super) fn of(partition: &mut Partition) -> Self {
        let subscriptions = Self::default();
        subscriptions.reset(partition);
        subscriptions
    }

    /// The subscription of this name.
    pub(super) fn get(&self, name: &str) -> Option<Found> {
        let known = self.known();
        known.by_id.get(known.by_name.get(&name_key(name))?).cloned()
    }

    /// Names in order, as they were first given.
    pub(super) fn names(&self) -> Vec<String> {
        let known = self.known();
        let mut names: Vec<String> =
            known.by_id.values().map(|found| found.subscription.name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// Takes over what changed in the partition since it was last asked.
    pub(super) fn take_over(&self, partition: &mut Partition) {
        let changed = partition.take_changed();
        if changed.is_empty() {
            return;
        }
        let stale: Vec<QueueId> = {
            let known = self.known();
            changed.into_iter().filter(|id| !known.recount(partition, *id)).collect()
        };
        if !stale.is_empty() {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            for id in stale {
                known.update(partition, id);
            }
        }
    }

    /// Takes over everything, as after the partition was read back.
    pub(super) fn reset(&self, partition: &mut Partition) {
        partition.take_changed();
        let mut known = Known::default();
        for subscription in partition.subscriptions() {
            known.update(partition, subscription.queue);
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Brings the counts of a subscription up to date; false if more than those changed.
    fn recount(&self, partition: &Partition, id: QueueId) -> bool {
        let found = self.by_id.get(&id);
        match (found, partition.subscription(id), partition.subscription_counts(id)) {
            (Some(found), Some(subscription), Some(counts))
                if Arc::ptr_eq(&found.subscription, subscription) =>
            {
                found.counts.set(counts);
                true
            }
            _ => false,
        }
    }
}
