//! Counters of exported and dropped telemetry.

use std::fmt;

use peeklock_metrics::{Counter, Counters, Family, Page, Source, Unit};

const SPANS: Family = Family::counter(
    "peeklock_telemetry_spans",
    Unit::None,
    "Spans made for OpenTelemetry: exported, or dropped because the collector did not keep up or refused them.",
);
const EXPORTS: Family = Family::counter(
    "peeklock_telemetry_exports",
    Unit::None,
    "Requests to the OpenTelemetry collector, by signal and outcome.",
);

/// The kinds of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Traces,
}

impl Signal {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Traces => "traces",
        }
    }
}

/// The counters; see the module; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    pub(super) spans_exported: Counter,
    pub(super) spans_dropped: Counter,
    exports: Counters<2>,
}

impl Default for Counts {
    /// Every series exists from the start, so that the first event is visible as an increase.
    fn default() -> Self {
        let counts = Self {
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            exports: Counters::default(),
        };
        for signal in [Signal::Metrics, Signal::Traces] {
            for is_ok in [true, false] {
                counts.exports.get_or_create(&labels(signal, is_ok)).inc_by(0);
            }
        }
        counts
    }
}

impl Counts {
    /// Counts an answered or failed request.
    pub(super) fn exported(&self, signal: Signal, is_ok: bool) {
        self.exports.get_or_create(&labels(signal, is_ok)).inc();
    }
}

fn labels(signal: Signal, is_ok: bool) -> [(&'static str, &'static str); 2] {
    [("signal", signal.name()), ("outcome", if is_ok { "ok" } else { "failed" })]
}

impl Source for Counts {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let spans = [("exported", &self.spans_exported), ("dropped", &self.spans_dropped)];
        page.each(&SPANS, spans.map(|(outcome, count)| ([("outcome", outcome)], count.get())))?;
        page.counters(&EXPORTS, &self.exports)
    }
}
