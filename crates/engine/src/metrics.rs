//! The metrics of entities.

pub(crate) mod families;

use std::ops::AddAssign;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use peeklock_metrics::{DurationTally, Durations, Scale, Snapshot};

use crate::Timestamp;

macro_rules! totals {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Counters of the messages of a queue, topic or subscription since the broker started.
        ///
        /// Counted when a command is decided: a batch that the store then refuses (disk full) stays counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Totals {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl AddAssign for Totals {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        #[derive(Debug, Default)]
        struct SharedTotals {
            $($field: AtomicU64,)*
        }

        impl SharedTotals {
            /// One atomic addition for each number that changed.
            fn add(&self, totals: &Totals) {
                $(if totals.$field > 0 {
                    self.$field.fetch_add(totals.$field, Ordering::Relaxed);
                })*
            }

            fn get(&self) -> Totals {
                Totals { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}

totals! {
    /// Messages accepted, including scheduled ones; for a subscription, its copies.
    accepted,
    /// Their bytes.
    accepted_bytes,
    /// Deliveries to receivers, including dead letters and repeated deliveries, without forwarders.
    delivered,
    /// Their bytes.
    delivered_bytes,
    /// Messages completed, including those received in receive-and-delete mode.
    completed,
    /// Messages abandoned by their receivers.
    abandoned,
    /// Messages deferred by their receivers.
    deferred,
    /// Messages deleted without being received, or cancelled while they were scheduled.
    deleted,
    /// Messages removed or dead-lettered because their time to live was over.
    expired,
    /// Messages moved to another entity by forwarding.
    forwarded,
    /// Duplicates dropped by duplicate detection.
    duplicates,
    /// Expired locks.
    locks_expired,
    /// Renewals of message locks and session locks.
    lock_renewals,
    /// Dead letters: the time to live was over.
    dead_lettered_ttl,
    /// Dead letters: the maximum delivery count was reached.
    dead_lettered_max_delivery,
    /// Dead letters: the header was too large.
    dead_lettered_header,
    /// Dead letters: a rule could not be evaluated.
    dead_lettered_filter,
    /// Dead letters: no session id in an entity with sessions.
    dead_lettered_session,
    /// Dead letters and transfer dead letters: the forwarding target refused the message.
    dead_lettered_forwarding,
    /// Dead letters: a receiver dead-lettered the message.
    dead_lettered_application,
}

impl Totals {
    /// Dead letters by reason, with the labels of metrics.
    #[must_use]
    pub const fn dead_lettered_by_reason(&self) -> [(&'static str, u64); 7] {
        [
            ("ttl", self.dead_lettered_ttl),
            ("max_delivery", self.dead_lettered_max_delivery),
            ("header", self.dead_lettered_header),
            ("filter", self.dead_lettered_filter),
            ("session", self.dead_lettered_session),
            ("forwarding", self.dead_lettered_forwarding),
            ("application", self.dead_lettered_application),
        ]
    }

    /// Dead letters in total.
    #[must_use]
    pub fn dead_lettered(&self) -> u64 {
        self.dead_lettered_by_reason().iter().map(|(_, count)| count).sum()
    }

    /// Settlements by outcome, with the labels of metrics.
    #[must_use]
    pub const fn settled_by_outcome(&self) -> [(&'static str, u64); 5] {
        [
            ("complete", self.completed),
            ("abandon", self.abandoned),
            ("defer", self.deferred),
            ("dead_letter", self.dead_lettered_application),
            ("delete", self.deleted),
        ]
    }
}

/// Counts of an actor for one entity that are not published yet: plain integers.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) totals: Totals,
    pub(crate) accept: DurationTally,
    pub(crate) wait: DurationTally,
    pub(crate) hold: DurationTally,
    pub(crate) receivers: i64,
    pub(crate) senders: i64,
}

impl Default for Tally {
    fn default() -> Self {
        let wait = || DurationTally::new(Scale::Wait);
        let (totals, accept) = (Totals::default(), DurationTally::new(Scale::Work));
        Self { totals, accept, wait: wait(), hold: wait(), receivers: 0, senders: 0 }
    }
}

/// Histograms of one series; allocated on first use, because most entities need none.
#[derive(Debug)]
struct EntityDurations {
    accept: Durations,
    wait: Durations,
    hold: Durations,
}

/// The published metrics of one queue, topic or subscription.
#[derive(Debug, Default)]
pub(crate) struct EntityMetrics {
    totals: SharedTotals,
    durations: OnceLock<Box<EntityDurations>>,
    receivers: AtomicI64,
    senders: AtomicI64,
    /// Enqueued time of the oldest available message, plus 1; 0 if there is none.
    oldest: AtomicU64,
    /// Its own series, or the pool that sums up the others.
    series: Option<Series>,
}

#[derive(Debug)]
enum Series {
    Own(#[expect(dead_code, reason = "its drop frees the series")] OwnSeries),
    Shared(Arc<SeriesPool>),
}

/// Limits the number of entities with series of their own, and sums up the others.
#[derive(Debug, Default)]
pub(crate) struct SeriesPool {
    free: AtomicUsize,
    others: EntityMetrics,
}

impl SeriesPool {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(max), others: EntityMetrics::default() })
    }

    /// Metrics of a new entity: it has series of its own for its whole life if the limit is not reached yet.
    pub(crate) fn entity(self: &Arc<Self>) -> Arc<EntityMetrics> {
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
        let series = match taken {
            Ok(_) => Series::Own(OwnSeries(Arc::clone(self))),
            Err(_) => Series::Shared(Arc::clone(self)),
        };
        Arc::new(EntityMetrics { series: Some(series), ..EntityMetrics::default() })
    }

    /// The sum over all entities without series of their own, deleted ones included.
    pub(crate) const fn others(&self) -> &EntityMetrics {
        &self.others
    }
}

/// The series of an entity; dropping this frees it for another one.
#[derive(Debug)]
struct OwnSeries(Arc<SeriesPool>);

impl Drop for OwnSeries {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

impl EntityMetrics {
    pub(crate) const fn has_own_series(&self) -> bool {
        matches!(self.series, Some(Series::Own(_)))
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals.get()
    }

    /// Publishes a tally and empties it.
    pub(crate) fn publish(&self, tally: &mut Tally) {
        self.totals.add(&tally.totals);
        add(&self.receivers, tally.receivers);
        add(&self.senders, tally.senders);
        if let Some(Series::Shared(pool)) = &self.series {
            // Histograms are kept for entities with their own series, and for the sum.
            return pool.others.publish(tally);
        }
        let Tally { accept, wait, hold, .. } = tally;
        if !(accept.is_empty() && wait.is_empty() && hold.is_empty()) {
            let durations = self.durations.get_or_init(Box::default);
            for (tally, durations) in
                [(accept, &durations.accept), (wait, &durations.wait), (hold, &durations.hold)]
            {
                if !tally.is_empty() {
                    durations.add(tally);
                    tally.clear();
                }
            }
        }
        (tally.totals, tally.receivers, tally.senders) = (Totals::default(), 0, 0);
    }

    pub(crate) fn set_oldest(&self, enqueued_at: Option<Timestamp>) {
        self.oldest.store(enqueued_at.map_or(0, |at| at.0.saturating_add(1)), Ordering::Relaxed);
    }

    /// Enqueued time of the oldest available message.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.oldest.load(Ordering::Relaxed).checked_sub(1).map(Timestamp)
    }

    pub(crate) fn links(&self) -> (u64, u64) {
        let read = |count: &AtomicI64| u64::try_from(count.load(Ordering::Relaxed)).unwrap_or(0);
        (read(&self.receivers), read(&self.senders))
    }

    /// The histograms of accept, wait and hold.
    pub(crate) fn durations(&self) -> [Snapshot; 3] {
        match self.durations.get() {
            Some(durations) => [durations.accept.get(), durations.wait.get(), durations.hold.get()],
            None => [Snapshot::new(Scale::Work), Snapshot::new(Scale::Wait), Snapshot::new(Scale::Wait)],
        }
    }
}

impl Default for EntityDurations {
    fn default() -> Self {
        let wait = || Durations::new(Scale::Wait);
        Self { accept: Durations::new(Scale::Work), wait: wait(), hold: wait() }
    }
}

fn add(to: &AtomicI64, change: i64) {
    if change != 0 {
        to.fetch_add(change, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(accepted: u64) -> Tally {
        let mut tally = Tally { totals: Totals { accepted, ..Totals::default() }, ..Tally::default() };
        tally.wait.observe_us(5, accepted);
        tally
    }

    #[test]
    fn an_entity_beyond_the_limit_counts_for_itself_and_in_the_sum() {
        let pool = SeriesPool::new(1);
        let (first, second) = (pool.entity(), pool.entity());
        assert_eq!((first.has_own_series(), second.has_own_series()), (true, false));
        first.publish(&mut tally(1));
        let mut counted = tally(2);
        second.publish(&mut counted);
        assert_eq!(counted.totals, Totals::default(), "a tally is counted once");
        second.publish(&mut counted);
        assert_eq!((first.totals().accepted, second.totals().accepted), (1, 2));
        assert_eq!(pool.others().totals().accepted, 2);
        assert_eq!(pool.others().durations()[1].count(), 2);
        assert_eq!(first.durations()[1].count(), 1);
    }

    #[test]
    fn a_deleted_entity_frees_its_series_and_the_sum_does_not_go_down() {
        let pool = SeriesPool::new(1);
        let (first, second) = (pool.entity(), pool.entity());
        second.publish(&mut tally(2));
        drop((first, second));
        assert_eq!(pool.others().totals().accepted, 2);
        assert!(pool.entity().has_own_series());
    }
}
