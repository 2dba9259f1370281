//! Start times of cumulative series. One that counts from zero again, or that was absent meanwhile, has a later start than
//! before (OpenTelemetry's metrics data model, "Resets and Gaps"): its entity was deleted and created again, or a node of a
//! cluster serves its next term.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use peeklock_metrics::{ReadFamily, Reading, Series};

/// The start times as of the last export.
#[derive(Debug)]
pub(super) struct Starts {
    /// The time of the last export; at first, the start of the process.
    last_ns: u64,
    /// The series by the hash of name and labels.
    known: HashMap<u64, Known>,
    /// The same of the export under construction.
    next: HashMap<u64, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    value: f64,
    started_ns: u64,
}

impl Starts {
    /// All series of the first export have counted since `started_ns`.
    pub(super) fn new(started_ns: u64) -> Self {
        Self { last_ns: started_ns, known: HashMap::new(), next: HashMap::new() }
    }

    /// The time since which a series has counted.
    pub(super) fn of(&mut self, family: &ReadFamily, series: &Series) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&family.name, &series.labels).hash(&mut hasher);
        let key = hasher.finish();
        let value = value(&series.reading);
        let known = self.known.get(&key).filter(|known| known.value <= value);
        let started_ns = known.map_or(self.last_ns, |known| known.started_ns);
        self.next.insert(key, Known { value, started_ns });
        started_ns
    }

    /// Ends an export.
    pub(super) fn exported(&mut self, now_ns: u64) {
        self.known = std::mem::take(&mut self.next);
        self.last_ns = now_ns;
    }
}

/// The value that only grows: of a distribution, its number of events.
#[expect(clippy::cast_precision_loss, reason = "beyond 2⁵³ the last digits don't matter")]
fn value(reading: &Reading) -> f64 {
    match reading {
        Reading::Number(value) => value.as_f64(),
        Reading::Distribution(distribution) => distribution.counts.iter().sum::<u64>() as f64,
    }
}

#[cfg(test)]
mod tests {
    use peeklock_metrics::{Kind, Unit, Value};

    use super::*;

    #[test]
    fn a_series_that_counts_from_zero_again_or_was_absent_has_a_new_start() {
        let family = ReadFamily {
            name: "sent".to_owned(),
            kind: Kind::Counter,
            unit: Unit::None,
            help: String::new(),
            series: Vec::new(),
        };
        let series = |entity: &str, value| Series {
            labels: vec![("entity".to_owned(), entity.to_owned())],
            reading: Reading::Number(Value::Integer(value)),
        };
        let mut starts = Starts::new(10);
        let mut export = |now_ns, all: &[(&str, u64)]| {
            let found: Vec<u64> =
                all.iter().map(|(entity, value)| starts.of(&family, &series(entity, *value))).collect();
            starts.exported(now_ns);
            found
        };
        assert_eq!(export(20, &[("a", 5), ("b", 5)]), [10, 10]);
        assert_eq!(
            export(30, &[("a", 5), ("b", 4), ("c", 1)]),
            [10, 20, 20],
            "c has counted since then at most"
        );
        assert_eq!(export(40, &[("b", 9)]), [20]);
        assert_eq!(export(50, &[("a", 7), ("b", 9)]), [40, 20]);
    }
}
