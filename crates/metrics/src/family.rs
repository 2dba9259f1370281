//! Name and meaning of a family of metrics.

/// The kind of a family's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Values only grow, until the process ends.
    Counter,
    /// Values go up and down.
    Gauge,
    /// Values are distributions.
    Histogram,
}

/// The unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count without unit.
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// A row of a crate's table of metrics.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The OpenMetrics name: with the unit, for a counter without `_total`.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The unit, which is the name's suffix if there is one.
    pub unit: Unit,
    /// One sentence of help text.
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
