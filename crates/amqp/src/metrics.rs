//! The metrics of the front end.

use std::fmt;

use peeklock_metrics::{Counters, Family, Page, Source, Unit};

const OPERATIONS_REFUSED: Family = Family::counter(
    "peeklock_operations_refused",
    Unit::None,
    "Operations over AMQP that were refused, by the AMQP condition sent to the client.",
);

/// Counts of errors reported to clients, by condition; cheap to clone, all clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct RefusalMetrics {
    refused: Counters<1>,
}

impl RefusalMetrics {
    /// Counts an error reported to a client. Conditions are those of the error table, so they are few.
    pub(crate) fn count(&self, condition: &'static str) {
        self.refused.get_or_create(&[("error_type", condition)]).inc();
    }
}

impl Source for RefusalMetrics {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counters(&OPERATIONS_REFUSED, &self.refused)
    }
}
