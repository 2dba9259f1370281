//! The subscriptions of a topic as seen by other tasks: found by name, with their counts.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::SubscriptionDescription;
use super::accessed::AccessedAt;
use super::actor::SharedCounts;
use crate::metrics::{EntityMetrics, SeriesPool};
use crate::names::name_key;
use crate::partition::{Activity, Counts, Partition};
use crate::rule::FilterCounts;
use crate::{QueueId, Subscription, SubscriptionOptions, Timestamp};

/// The topic's subscriptions as of the last turn of its actor; may be ahead of what is durable.
#[derive(Debug)]
pub(super) struct Subscriptions {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// In the order of pages.
    by_name: BTreeMap<Box<str>, QueueId>,
    by_id: HashMap<QueueId, Found>,
    /// Over all subscriptions.
    filters: FilterCounts,
    /// The pool that decides which of them have metric series of their own.
    series: Arc<SeriesPool>,
}

/// One subscription.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) subscription: Arc<Subscription>,
    pub(super) options: Arc<SubscriptionOptions>,
    counts: Arc<SharedCounts>,
    accessed: Arc<AccessedAt>,
    pub(super) metrics: Arc<EntityMetrics>,
}

impl Found {
    pub(super) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// Counts and client activity, both from the same point in time.
    pub(super) fn counts_and_activity(&self) -> (Counts, Activity) {
        self.counts.both()
    }

    /// Publishes the present counts.
    fn set(&self, counts: Counts, partition: &Partition) {
        let id = self.subscription.queue;
        self.counts.set(counts, partition.activity(id));
        self.metrics.set_oldest(partition.oldest_available(id));
    }

    /// The description for administrators.
    pub(super) fn describe(&self) -> SubscriptionDescription {
        let subscription = Arc::clone(&self.subscription);
        SubscriptionDescription {
            subscription,
            accessed_at: self.accessed.get(),
            counts: self.counts(),
            totals: self.metrics.totals(),
        }
    }
}

impl Known {
    fn set(&mut self, subscription: &Arc<Subscription>, counts: Counts, partition: &Partition) {
        let id = subscription.queue;
        let before = self.by_id.get(&id);
        let metrics = before.map_or_else(|| self.series.entity(), |known| Arc::clone(&known.metrics));
        let found = Found {
            subscription: Arc::clone(subscription),
            options: Arc::new(subscription.options.clone()),
            counts: Arc::new(SharedCounts::default()),
            accessed: before.map(|known| Arc::clone(&known.accessed)).unwrap_or_default(),
            metrics,
        };
        found.set(counts, partition);
        self.remove(id);
        self.filters = self.filters.plus(FilterCounts::of(&subscription.rules));
        self.by_name.insert(name_key(&subscription.name), id);
        self.by_id.insert(id, found);
    }

    fn remove(&mut self, id: QueueId) {
        if let Some(gone) = self.by_id.remove(&id) {
            self.filters = self.filters.minus(FilterCounts::of(&gone.subscription.rules));
            let key = name_key(&gone.subscription.name);
            // Another subscription may have the name by now.
            if self.by_name.get(&key) == Some(&id) {
                self.by_name.remove(&key);
            }
        }
    }

    fn update(&mut self, partition: &Partition, id: QueueId) {
        match (partition.subscription(id), partition.subscription_counts(id)) {
            (Some(subscription), Some(counts)) => {
                self.set(subscription, counts, partition);
            }
            _ => self.remove(id),
        }
    }
}

impl Subscriptions {
    /// The subscriptions of a partition.
    pub(super) fn of(partition: &mut Partition, series: Arc<SeriesPool>) -> Self {
        let known = Known { series, ..Known::default() };
        let subscriptions = Self { known: RwLock::new(known) };
        subscriptions.reset(partition);
        subscriptions
    }

    /// The subscription of this name.
    pub(super) fn get(&self, name: &str) -> Option<Found> {
        let known = self.known();
        known.by_id.get(known.by_name.get(&name_key(name))?).cloned()
    }

    /// The metrics of a subscription.
    pub(super) fn metrics(&self, id: QueueId) -> Option<Arc<EntityMetrics>> {
        self.known().by_id.get(&id).map(|found| Arc::clone(&found.metrics))
    }

    /// All of them, in no particular order.
    pub(super) fn all(&self) -> Vec<Found> {
        self.known().by_id.values().cloned().collect()
    }

    /// Names in order, as they were first given.
    pub(super) fn names(&self) -> Vec<String> {
        let known = self.known();
        let mut names: Vec<String> =
            known.by_id.values().map(|found| found.subscription.name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// One page in the order of name keys: `top` subscriptions after the first `skip`.
    pub(super) fn page(&self, skip: usize, top: usize) -> Vec<Found> {
        let known = self.known();
        let ids = known.by_name.values().skip(skip).take(top);
        ids.filter_map(|id| known.by_id.get(id).cloned()).collect()
    }

    /// The first `top` subscriptions whose keys come after `key`; without it, from the first subscription.
    pub(super) fn after(&self, key: Option<&str>, top: usize) -> Vec<Found> {
        let known = self.known();
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = known.by_name.range::<str, _>((start, Bound::Unbounded)).take(top);
        ids.filter_map(|(_, id)| known.by_id.get(id).cloned()).collect()
    }

    /// Calls `note` for each subscription.
    pub(super) fn each(&self, note: impl FnMut(&Found)) {
        self.known().by_id.values().for_each(note);
    }

    /// Names of temporary subscriptions.
    pub(super) fn temporary_names(&self) -> Vec<String> {
        let known = self.known();
        let temporary = known.by_id.values().filter(|found| found.options.is_temporary());
        temporary.map(|found| found.subscription.name.to_string()).collect()
    }

    /// Number of subscriptions, and of their filters.
    pub(super) fn sizes(&self) -> (usize, FilterCounts) {
        let known = self.known();
        (known.by_name.len(), known.filters)
    }

    /// Number of messages in all subscriptions that are out of delivery because their stored data is damaged.
    pub(super) fn quarantined(&self) -> u64 {
        self.known().by_id.values().map(|found| found.counts().quarantined).sum()
    }

    /// Applies the changes in the partition since the last call; true if they are more than counts.
    pub(super) fn take_over(&self, partition: &mut Partition) -> bool {
        let changed = partition.take_changed();
        if changed.is_empty() {
            return false;
        }
        let stale: Vec<QueueId> = {
            let known = self.known();
            changed.into_iter().filter(|id| !known.recount(partition, *id)).collect()
        };
        if stale.is_empty() {
            return false;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for id in stale {
            known.update(partition, id);
        }
        true
    }

    /// Records an access by a client.
    pub(super) fn set_accessed(&self, id: QueueId, at: Timestamp) {
        if let Some(found) = self.known().by_id.get(&id) {
            found.accessed.set(at);
        }
    }

    /// Replaces everything, after the partition was read back.
    pub(super) fn reset(&self, partition: &mut Partition) {
        partition.take_changed();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let stale: Vec<QueueId> = known.by_id.keys().copied().collect();
        let all = stale.into_iter().chain(partition.subscription_ids());
        all.for_each(|id| known.update(partition, id));
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Updates the counts of a subscription; false if more than these changed.
    fn recount(&self, partition: &Partition, id: QueueId) -> bool {
        let found = self.by_id.get(&id);
        match (found, partition.subscription(id), partition.subscription_counts(id)) {
            (Some(found), Some(subscription), Some(counts))
                if Arc::ptr_eq(&found.subscription, subscription) =>
            {
                found.set(counts, partition);
                true
            }
            _ => false,
        }
    }
}
