//! Histograms of durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of buckets of every histogram; the last has no upper bound.
pub const BUCKETS: usize = 16;

const MS_US: u64 = 1_000;
const SECOND_US: u64 = 1_000 * MS_US;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;

/// The bounds of a histogram's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// For operations of the broker: 100 µs to 10 s.
    #[default]
    Work,
    /// For waiting times of messages: 1 ms to a week.
    Wait,
}

impl Scale {
    /// Upper bounds, in microseconds, in order.
    const fn bounds_us(self) -> &'static [u64; BUCKETS - 1] {
        match self {
            Self::Work => &[
                100,
                250,
                500,
                MS_US,
                5 * MS_US / 2,
                5 * MS_US,
                10 * MS_US,
                25 * MS_US,
                50 * MS_US,
                100 * MS_US,
                250 * MS_US,
                500 * MS_US,
                SECOND_US,
                5 * SECOND_US / 2,
                10 * SECOND_US,
            ],
            Self::Wait => &[
                MS_US,
                5 * MS_US,
                10 * MS_US,
                50 * MS_US,
                100 * MS_US,
                500 * MS_US,
                SECOND_US,
                5 * SECOND_US,
                10 * SECOND_US,
                MINUTE_US,
                5 * MINUTE_US,
                30 * MINUTE_US,
                2 * HOUR_US,
                24 * HOUR_US,
                7 * 24 * HOUR_US,
            ],
        }
    }

    /// The bucket of a duration.
    fn bucket(self, duration_us: u64) -> usize {
        self.bounds_us().partition_point(|bound| *bound < duration_us)
    }
}

/// Counts durations without synchronization, to be added periodically to [`Durations`] of the same scale.
#[derive(Debug, Clone, Default)]
pub struct DurationTally {
    scale: Scale,
    counts: [u64; BUCKETS],
    sum_us: u64,
    has_counts: bool,
}

impl DurationTally {
    /// An empty tally.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        Self { scale, ..Self::default() }
    }

    /// Counts `count` events that took `duration_us` microseconds each.
    pub fn observe_us(&mut self, duration_us: u64, count: u64) {
        if let Some(bucket) = self.counts.get_mut(self.scale.bucket(duration_us)) {
            *bucket += count;
        }
        self.sum_us = self.sum_us.saturating_add(duration_us.saturating_mul(count));
        self.has_counts |= count > 0;
    }

    /// Whether nothing was counted since the last [`Self::clear`].
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.has_counts
    }

    /// Resets all counts.
    pub fn clear(&mut self) {
        *self = Self::new(self.scale);
    }
}

/// A histogram of durations; cheap to clone, all clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Durations {
    scale: Scale,
    counted: Arc<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Durations {
    /// An empty histogram.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        Self { scale, counted: Arc::default() }
    }

    /// Counts an event that took `duration_us` microseconds.
    pub fn observe_us(&self, duration_us: u64) {
        if let Some(bucket) = self.counted.buckets.get(self.scale.bucket(duration_us)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.counted.sum_us.fetch_add(duration_us, Ordering::Relaxed);
    }

    /// Adds a tally of the same scale, with one addition for each changed bucket.
    pub fn add(&self, tally: &DurationTally) {
        for (bucket, count) in self.counted.buckets.iter().zip(&tally.counts).filter(|(_, count)| **count > 0)
        {
            bucket.fetch_add(*count, Ordering::Relaxed);
        }
        self.counted.sum_us.fetch_add(tally.sum_us, Ordering::Relaxed);
    }

    /// A snapshot of the counts.
    #[must_use]
    pub fn get(&self) -> Snapshot {
        Snapshot {
            scale: self.scale,
            counts: std::array::from_fn(|bucket| {
                self.counted.buckets.get(bucket).map_or(0, |count| count.load(Ordering::Relaxed))
            }),
            sum_us: self.counted.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// A distribution of durations at one point in time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    scale: Scale,
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Snapshot {
    /// An empty distribution.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        Self { scale, ..Self::default() }
    }

    /// Number of events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Total duration.
    #[must_use]
    pub fn sum_seconds(&self) -> f64 {
        seconds(self.sum_us)
    }

    /// Upper bounds in seconds, with the number of events in each bucket (not cumulative).
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.scale.bounds_us().iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "beyond 2⁵³ µs, 285 years, the last digits don't matter")]
fn seconds(duration_us: u64) -> f64 {
    duration_us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_on_a_bound_counts_below_it_and_one_beyond_all_in_the_last_bucket() {
        let durations = Durations::new(Scale::Work);
        durations.observe_us(100);
        durations.observe_us(101);
        durations.observe_us(u64::MAX / 2);
        let buckets = durations.get().buckets();
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 3);
        assert_eq!((buckets[0], buckets[1]), ((0.0001, 1), (0.00025, 1)));
        assert_eq!(buckets[BUCKETS - 1], (f64::INFINITY, 1));
    }

    #[test]
    fn counts_of_a_tally_are_added_once() {
        let (durations, mut tally) = (Durations::new(Scale::Wait), DurationTally::new(Scale::Wait));
        assert!(tally.is_empty());
        tally.observe_us(2 * SECOND_US, 3);
        assert!(!tally.is_empty());
        durations.add(&tally);
        tally.clear();
        durations.add(&tally);
        let snapshot = durations.get();
        assert_eq!((snapshot.count(), snapshot.sum_seconds()), (3, 6.0));
    }
}
