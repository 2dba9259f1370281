//! The metrics of a namespace: counters of its entities, and gauges as of a scrape.

use std::fmt;
use std::sync::{Arc, Weak};

use peeklock_metrics::{EncodeLabelSet, Family, Page, Snapshot, Source};

use super::entity::Entity;
use super::namespace::{Inner, Namespace};
use super::subscriptions::Found;
use super::{Clock, EntityKind};
use crate::EntityOptions;
use crate::metrics::{EntityMetrics, Totals, families as family};
use crate::partition::{Activity, Counts};

/// Name of the series that sum up entities without series of their own; not a valid entity name.
const OTHERS: &str = "(others)";

/// A source of metrics that does not keep the namespace alive.
pub struct NamespaceFigures(Weak<Inner>);

impl fmt::Debug for NamespaceFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NamespaceFigures").finish_non_exhaustive()
    }
}

impl Namespace {
    /// The metrics of all entities.
    #[must_use]
    pub fn figures(&self) -> NamespaceFigures {
        NamespaceFigures(Arc::downgrade(&self.inner))
    }

    /// Totals of every queue, topic and subscription, with their names in metrics.
    #[must_use]
    pub fn all_totals(&self) -> Vec<(String, Totals)> {
        let mut all = Vec::new();
        for entity in self.inner.directory.all() {
            let subscriptions = entity.subscriptions.all();
            let named = |found: &Found| {
                (subscription_name(&entity.name, &found.subscription.name), found.metrics.totals())
            };
            all.extend(subscriptions.iter().map(named));
            all.push((entity.name.clone(), entity.metrics.totals()));
        }
        all
    }
}

/// The series of one entity, or of all entities without series of their own.
#[derive(Default)]
struct Row {
    name: String,
    kind: &'static str,
    counts: Counts,
    activity: Activity,
    /// For queues and topics.
    size_limit_bytes: Option<u64>,
    totals: Totals,
    durations: [Snapshot; 3],
    receivers: u64,
    senders: u64,
    age_seconds: f64,
}

impl Row {
    fn new(
        name: String,
        kind: &'static str,
        (counts, activity): (Counts, Activity),
        metrics: &EntityMetrics,
        clock: &dyn Clock,
    ) -> Self {
        let (receivers, senders) = metrics.links();
        let age_ms = metrics.oldest().map_or(0, |oldest| clock.now().0.saturating_sub(oldest.0));
        Self {
            name,
            kind,
            counts,
            activity,
            size_limit_bytes: None,
            totals: metrics.totals(),
            durations: metrics.durations(),
            receivers,
            senders,
            age_seconds: seconds(age_ms),
        }
    }

    fn labels(&self) -> impl EncodeLabelSet {
        [("entity", self.name.clone()), ("entity_type", self.kind.to_owned())]
    }

    fn with<'a>(&self, name: &'a str, value: &'a str) -> impl EncodeLabelSet + use<'a> {
        ([("entity", self.name.clone()), ("entity_type", self.kind.to_owned())], [(name, value)])
    }

    /// Adds the gauges of an entity to this sum.
    fn add(&mut self, other: &Self) {
        self.counts.add(other.counts);
        self.activity.add(other.activity);
        self.age_seconds = self.age_seconds.max(other.age_seconds);
    }

    /// Each message is in exactly one state, so the sum is the number of messages.
    const fn states(&self) -> [(&'static str, u64); 7] {
        let Counts { active, deferred, dead_letter, scheduled, transfer_dead_letter, quarantined, .. } =
            self.counts;
        let locked = self.activity.locked;
        [
            ("active", active.saturating_sub(deferred + locked)),
            ("locked", locked),
            ("deferred", deferred),
            ("scheduled", scheduled),
            ("dead_letter", dead_letter),
            ("transfer_dead_letter", transfer_dead_letter),
            ("quarantined", quarantined),
        ]
    }

    const fn sessions(&self) -> [(&'static str, u64); 2] {
        let Activity { sessions_waiting, sessions_locked, .. } = self.activity;
        [("waiting", sessions_waiting), ("locked", sessions_locked)]
    }
}

/// All rows, and the number of entities of each type.
struct Rows {
    rows: Vec<Row>,
    entities: [(&'static str, u64); 3],
}

impl Rows {
    fn collect(inner: &Inner) -> Self {
        let clock = &*inner.common.clock;
        let others = inner.common.series.others();
        let mut others = Row::new(OTHERS.to_owned(), "others", Default::default(), others, clock);
        let mut rows = Vec::new();
        let (mut queues, mut topics, mut subscriptions) = (0, 0, 0);
        for entity in inner.directory.all() {
            let kind = match entity.kind {
                EntityKind::Queue => {
                    queues += 1;
                    "queue"
                }
                EntityKind::Topic => {
                    topics += 1;
                    "topic"
                }
            };
            let row =
                Row::new(entity.name.clone(), kind, entity.counts_and_activity(), &entity.metrics, clock);
            let row = Row { size_limit_bytes: Some(size_limit_bytes(&entity)), ..row };
            put(&mut rows, &mut others, &entity.metrics, row);
            for found in entity.subscriptions.all() {
                subscriptions += 1;
                let name = subscription_name(&entity.name, &found.subscription.name);
                let row = Row::new(name, "subscription", found.counts_and_activity(), &found.metrics, clock);
                put(&mut rows, &mut others, &found.metrics, row);
            }
        }
        // The row of sums is omitted if nothing was ever counted in it.
        if others.totals != Totals::default() || others.counts != Counts::default() {
            rows.push(others);
        }
        Self { rows, entities: [("queue", queues), ("topic", topics), ("subscription", subscriptions)] }
    }

    /// Writes one value of each row.
    fn each<V: Into<peeklock_metrics::Value>>(
        &self,
        page: &mut Page<'_>,
        family: &Family,
        value: impl Fn(&Row) -> Option<V>,
    ) -> fmt::Result {
        page.each(family, self.rows.iter().filter_map(|row| Some((row.labels(), value(row)?))))
    }

    /// Writes several values of each row, distinguished by a label.
    fn each_by<const N: usize>(
        &self,
        page: &mut Page<'_>,
        family: &Family,
        label: &'static str,
        values: impl Fn(&Row) -> [(&'static str, u64); N],
    ) -> fmt::Result {
        let series = self
            .rows
            .iter()
            .flat_map(|row| values(row).into_iter().map(move |(word, value)| (row.with(label, word), value)));
        page.each(family, series)
    }

    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.each(&family::ENTITIES, self.entities.map(|(kind, count)| ([("entity_type", kind)], count)))?;
        self.each_by(page, &family::MESSAGES, "state", Row::states)?;
        self.each(page, &family::SIZE, |row| {
            Some(row.counts.size_bytes).filter(|_| row.kind != "subscription")
        })?;
        self.each(page, &family::SIZE_LIMIT, |row| row.size_limit_bytes)?;
        self.each(page, &family::OLDEST, |row| Some(row.age_seconds))?;
        self.each(page, &family::RECEIVERS, |row| Some(row.receivers))?;
        self.each(page, &family::SENDERS, |row| Some(row.senders))?;
        self.each(page, &family::CREDIT, |row| Some(row.activity.credit))?;
        self.each_by(page, &family::SESSIONS, "state", Row::sessions)?;
        self.each(page, &family::SESSION_STATES, |row| Some(row.activity.sessions_with_state))?;
        self.each(page, &family::RECEIVED, |row| Some(row.totals.accepted))?;
        self.each(page, &family::DELIVERED, |row| Some(row.totals.delivered))?;
        self.each_by(page, &family::SETTLED, "outcome", |row| row.totals.settled_by_outcome())?;
        self.each_by(page, &family::DEAD_LETTERED, "reason", |row| row.totals.dead_lettered_by_reason())?;
        self.each(page, &family::EXPIRED, |row| Some(row.totals.expired))?;
        self.each(page, &family::FORWARDED, |row| Some(row.totals.forwarded))?;
        self.each(page, &family::DUPLICATES, |row| Some(row.totals.duplicates))?;
        self.each(page, &family::LOCKS_EXPIRED, |row| Some(row.totals.locks_expired))?;
        self.each(page, &family::LOCK_RENEWALS, |row| Some(row.totals.lock_renewals))?;
        self.each_by(page, &family::BYTES, "direction", |row| {
            [("in", row.totals.accepted_bytes), ("out", row.totals.delivered_bytes)]
        })?;
        self.histograms(page, &family::ACCEPT, |[accept, ..]| accept)?;
        self.histograms(page, &family::WAIT, |[_, wait, _]| wait)?;
        self.histograms(page, &family::HOLD, |[.., hold]| hold)
    }

    /// Writes non-empty histograms only, since each has eighteen series.
    fn histograms(
        &self,
        page: &mut Page<'_>,
        family: &Family,
        which: impl Fn(&[Snapshot; 3]) -> &Snapshot,
    ) -> fmt::Result {
        let used = self.rows.iter().filter(|row| which(&row.durations).count() > 0);
        page.histograms(family, used.map(|row| (row.labels(), which(&row.durations).clone())))
    }
}

/// Adds a row, or adds it to the sums if the entity has no series of its own.
fn put(rows: &mut Vec<Row>, others: &mut Row, metrics: &EntityMetrics, row: Row) {
    if metrics.has_own_series() {
        rows.push(row);
    } else {
        others.add(&row);
    }
}

fn subscription_name(topic: &str, name: &str) -> String {
    format!("{topic}/Subscriptions/{name}")
}

fn size_limit_bytes(entity: &Entity) -> u64 {
    EntityOptions::max_size_bytes(&entity.options())
}

impl Source for NamespaceFigures {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        self.0.upgrade().map_or(Ok(()), |inner| Rows::collect(&inner).write(page))
    }
}

#[expect(clippy::cast_precision_loss, reason = "beyond 2⁵³ ms the last digits don't matter")]
fn seconds(duration_ms: u64) -> f64 {
    duration_ms as f64 / 1000.0
}
