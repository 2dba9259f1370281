//! What a family of metrics is called and means.

/// What its numbers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They only grow, until the process ends.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are distributions.
    Histogram,
}

/// What is counted, if it has a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// A row of a crate's table of metrics.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// As OpenMetrics calls it: with the unit, of a counter without `_total`.
    pub name: &'static str,
    /// What its numbers do.
    pub kind: Kind,
    /// Ends the name, if there is one.
    pub unit: Unit,
    /// One sentence for people.
    pub help: &'static str,
}

impl Family {
    /// A counter.
    #[must_use]
    pub const fn counter(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, unit, help }
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, unit, help }
    }

    /// A histogram of durations.
    #[must_use]
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, unit: Unit::Seconds, help }
    }

    /// The name without its unit.
    pub(crate) fn stem(&self) -> &'static str {
        let suffix = match self.unit {
            Unit::None => "",
            Unit::Bytes => "_bytes",
            Unit::Seconds => "_seconds",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }
}
