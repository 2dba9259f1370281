//! The metrics of authorization.

use std::fmt;

use peeklock_metrics::{Counters, Family, Page, Source, Unit};

use crate::Denied;

const AUTH_FAILURES: Family = Family::counter(
    "peeklock_auth_failures",
    Unit::None,
    "Credentials and operations that were refused, by reason.",
);

/// The counters of an [`crate::Access`]; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AccessMetrics {
    failures: Counters<1>,
}

impl AccessMetrics {
    pub(crate) fn count(&self, denied: &Denied) {
        self.failures.get_or_create(&[("reason", denied.reason())]).inc();
    }
}

impl Source for AccessMetrics {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counters(&AUTH_FAILURES, &self.failures)
    }
}
