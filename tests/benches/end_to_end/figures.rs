//! Measured numbers: their names, and the combination of several runs.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The desired direction of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// One measured number. Its name includes the unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) better: Better,
}

impl Figure {
    pub(crate) const fn higher(name: &'static str, value: f64) -> Self {
        Self { name, value, better: Better::Higher }
    }

    pub(crate) const fn lower(name: &'static str, value: f64) -> Self {
        Self { name, value, better: Better::Lower }
    }
}

/// The values of one figure in several runs.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) better: Better,
    pub(crate) values: Vec<f64>,
}

impl Series {
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    pub(crate) fn least(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn most(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Converts the figures of each run to one series per figure.
pub(crate) fn series(runs: &[Vec<Figure>]) -> Vec<Series> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of = |position: usize| runs.iter().filter_map(|run| run.get(position)).map(|one| one.value).collect();
    let numbered = first.iter().enumerate();
    numbered.map(|(at, one)| Series { name: one.name, better: one.better, values: of(at) }).collect()
}

/// Longest latency that is told from longer ones: an hour, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;

/// The latencies of many messages, in microseconds to three digits. Its memory does not grow with their number, so that
/// recording one costs the generator next to nothing.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration, messages: u32) {
        self.0.saturating_record_n(time.as_micros() as u64, u64::from(messages));
    }

    /// The latency that `share` of the messages did not exceed, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST_US, 3).unwrap())
    }
}

impl FromIterator<Self> for Latencies {
    fn from_iter<T: IntoIterator<Item = Self>>(parts: T) -> Self {
        parts.into_iter().fold(Self::default(), |mut all, part| {
            all.0.add(part.0).unwrap();
            all
        })
    }
}
