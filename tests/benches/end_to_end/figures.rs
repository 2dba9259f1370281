//! Measured numbers: their names, and the combination of several runs.

use std::time::Duration;

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

/// The latencies of many messages. Recording one costs the generator next to nothing.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// Microseconds, and the number of messages with this latency.
    noted: Vec<(u32, u32)>,
}

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration, messages: u32) {
        self.noted.push((u32::try_from(time.as_micros()).unwrap_or(u32::MAX), messages));
    }

    /// The latency that `share` of the messages did not exceed, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.noted.clone();
        sorted.sort_unstable();
        let all: u64 = sorted.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = (all as f64 * share).ceil() as u64;
        let mut passed = 0;
        let found = sorted.iter().find(|(_, count)| {
            passed += u64::from(*count);
            passed >= rank
        });
        found.map_or(0.0, |(micros, _)| f64::from(*micros) / 1e3)
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.noted.iter().map(|(micros, _)| *micros).max().map_or(0.0, |micros| f64::from(micros) / 1e3)
    }
}

impl FromIterator<Self> for Latencies {
    fn from_iter<T: IntoIterator<Item = Self>>(parts: T) -> Self {
        Self { noted: parts.into_iter().flat_map(|part| part.noted).collect() }
    }
}
