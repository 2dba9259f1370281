//! Metrics: families, their values, and the page in OpenMetrics text for scrapes.
//!
//! Each crate lists its families in one file `metrics.rs` (name, kind, unit, help) with the handles of its counters.
//! The handles are passed in; the owner of the process registers a [`Source`] for each in a [`Metrics`], which only
//! that owner holds: no registry is global. Counting is an atomic addition; gauges are read when a page is written.

mod durations;
mod family;
mod page;
mod read;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use durations::{BUCKETS, DurationTally, Durations, Scale, Snapshot};
pub use family::{Family, Kind, Unit};
pub use page::{Page, Value};
pub use prometheus_client::encoding::EncodeLabelSet;
/// A number that only grows; cheap to clone, all clones share the value.
pub use prometheus_client::metrics::counter::Counter;
/// A number that goes up and down; cheap to clone, all clones share the value.
pub use prometheus_client::metrics::gauge::Gauge;
pub use read::{Distribution, ReadFamily, Reading, Series};

/// Counters of one family, one for each combination of label values so far; cheap to clone. `N` is the number of
/// labels, each with its name. A look-up takes a lock, so use it for rare events.
pub type Counters<const N: usize> =
    prometheus_client::metrics::family::Family<[(&'static str, &'static str); N], Counter>;

/// The media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes families of metrics to a page.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// Writes each of its families once.
    ///
    /// # Errors
    /// Those of the page, which fails only for lack of memory.
    fn write(&self, page: &mut Page<'_>) -> fmt::Result;
}

/// All sources of a process; cheap to clone.
#[derive(Clone, Default)]
pub struct Metrics(Arc<RwLock<Registry>>);

impl Metrics {
    /// Adds a source; no other source may write the same families.
    pub fn register(&self, source: impl Source) {
        let mut registry = self.0.write().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(Registered(source)));
    }

    /// The page: current values of all families of all sources.
    ///
    /// # Errors
    /// Those of the sources.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.read().unwrap_or_else(PoisonError::into_inner))?;
        Ok(text)
    }

    /// The page as data.
    ///
    /// # Errors
    /// Those of the sources.
    pub fn read(&self) -> Result<Vec<ReadFamily>, fmt::Error> {
        self.text().map(|text| read::read(&text))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Registered<S>(S);

impl<S: Source> Collector for Registered<S> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.write(&mut Page::new(encoder))
    }
}

/// Measures elapsed time for histograms, by the machine's monotonic clock. It influences no decisions.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Default for Stopwatch {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Stopwatch {
    /// Microseconds since its creation.
    #[must_use]
    pub fn elapsed_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Family = Family::counter("test_sent", Unit::None, "Messages sent.");
    const HELD: Family = Family::gauge("test_held_bytes", Unit::Bytes, "Memory held.");
    const TOOK: Family = Family::histogram("test_took_seconds", "Time that it took.");

    #[derive(Debug, Default)]
    struct Test {
        sent: Counters<1>,
        took: Durations,
    }

    impl Source for Arc<Test> {
        fn write(&self, page: &mut Page<'_>) -> fmt::Result {
            page.counters(&SENT, &self.sent)?;
            page.one(&HELD, 1.5)?;
            page.histogram(&TOOK, &self.took.get())
        }
    }

    #[test]
    fn a_page_has_every_family_with_its_unit_and_ends_with_eof() {
        let (metrics, test) = (Metrics::default(), Arc::new(Test::default()));
        metrics.register(Arc::clone(&test));
        test.sent.get_or_create(&[("to", "a \"b\"")]).inc_by(3);
        test.took.observe_us(700);
        test.took.observe_us(90_000_000);
        let text = metrics.text().unwrap();
        for line in [
            "# HELP test_sent Messages sent.",
            "# TYPE test_sent counter",
            "test_sent_total{to=\"a \\\"b\\\"\"} 3",
            "# TYPE test_held_bytes gauge",
            "# UNIT test_held_bytes bytes",
            "test_held_bytes 1.5",
            "# TYPE test_took_seconds histogram",
            "test_took_seconds_count 2",
            "test_took_seconds_bucket{le=\"0.0005\"} 0",
            "test_took_seconds_bucket{le=\"0.001\"} 1",
            "test_took_seconds_bucket{le=\"+Inf\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn the_page_as_data_says_the_same_as_its_text() {
        let (metrics, test) = (Metrics::default(), Arc::new(Test::default()));
        metrics.register(Arc::clone(&test));
        test.sent.get_or_create(&[("to", "a \"b\",{}\\\n=")]).inc_by(3);
        for took_us in [700, 800, 90_000_000] {
            test.took.observe_us(took_us);
        }
        let [sent, held, took] = metrics.read().unwrap().try_into().unwrap();
        assert_eq!((&*sent.name, sent.kind, &*sent.help), (SENT.name, Kind::Counter, SENT.help));
        let labels = vec![("to".to_owned(), "a \"b\",{}\\\n=".to_owned())];
        assert_eq!(sent.series, [Series { labels, reading: Reading::Number(Value::Integer(3)) }]);
        assert_eq!((&*held.name, held.unit), (HELD.name, Unit::Bytes));
        assert_eq!(held.series[0].reading, Reading::Number(Value::Float(1.5)));
        assert_eq!((&*took.name, took.kind, took.unit), (TOOK.name, Kind::Histogram, Unit::Seconds));
        let Reading::Distribution(read) = &took.series[0].reading else { panic!("{took:?}") };
        assert_eq!((read.bounds.len(), read.counts.len()), (BUCKETS - 1, BUCKETS));
        assert_eq!((read.counts[3], read.counts[BUCKETS - 1], read.counts.iter().sum()), (2, 1, 3_u64));
        assert_eq!(read.sum, 90.0015);
    }
}
