//! The metrics of the driver.

use std::fmt;

use peeklock_metrics::{Counter, Durations, Family, Page, Source, Unit};

const APPENDS: Family = Family::histogram(
    "peeklock_postgres_append_duration_seconds",
    "Time from an append to its acknowledgement by the primary and its standbys.",
);
const APPENDED: Family = Family::counter(
    "peeklock_postgres_appended_bytes",
    Unit::Bytes,
    "Bytes of the records that were acknowledged.",
);
const IN_DOUBT: Family = Family::counter(
    "peeklock_postgres_in_doubt",
    Unit::None,
    "Appends without an answer, which were decided by reading back.",
);
const UNCONFIRMED: Family = Family::counter(
    "peeklock_postgres_unconfirmed",
    Unit::None,
    "Warnings that a commit was answered without its standby, because its backend was cancelled.",
);
const CONNECTIONS: Family = Family::counter(
    "peeklock_postgres_connections",
    Unit::None,
    "Connections opened to the primary; a growing number means that they don't last.",
);
const REFUSALS: Family = Family::counter(
    "peeklock_postgres_refusals",
    Unit::None,
    "Attempts to connect that found no usable server.",
);

/// The counters of the driver; cheap to clone, all clones share the values.
#[derive(Debug, Clone, Default)]
pub struct PostgresMetrics {
    /// Time from the call to the answer.
    pub(crate) append_duration: Durations,
    /// Bytes of heads and bodies.
    pub(crate) appended_bytes: Counter,
    /// Appends and seizures with an unknown outcome.
    pub(crate) in_doubt: Counter,
    /// Notices that a wait for a standby ended early.
    pub(crate) unconfirmed: Counter,
    /// Connections for all purposes.
    pub(crate) connections: Counter,
    /// Failed attempts to find a primary among all hosts.
    pub(crate) refusals: Counter,
}

impl Source for PostgresMetrics {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.histogram(&APPENDS, &self.append_duration.get())?;
        for (family, counter) in [
            (&APPENDED, &self.appended_bytes),
            (&IN_DOUBT, &self.in_doubt),
            (&UNCONFIRMED, &self.unconfirmed),
            (&CONNECTIONS, &self.connections),
            (&REFUSALS, &self.refusals),
        ] {
            page.one(family, counter.get())?;
        }
        Ok(())
    }
}
