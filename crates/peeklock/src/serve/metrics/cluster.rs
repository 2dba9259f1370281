//! Metrics of a cluster node about its leases.

use std::fmt;
use std::sync::Arc;

use peeklock_cluster::Member;
use peeklock_metrics::{Family, Page, Source, Unit};

const AGE: Family = Family::gauge(
    "peeklock_cluster_table_age_seconds",
    Unit::Seconds,
    "Time since the last answered request to the table of leases was sent.",
);
const FAILURES: Family = Family::counter(
    "peeklock_cluster_table_failures",
    Unit::None,
    "Requests to the table of leases that failed: not answered, or refused.",
);
const WAITING: Family = Family::gauge(
    "peeklock_cluster_nodes_waiting",
    Unit::None,
    "Other nodes that are ready to take over, as known to this node.",
);

/// The metrics' source; see the module.
#[derive(Debug)]
pub(in crate::serve) struct LeaseFigures(pub(in crate::serve) Arc<Member>);

impl Source for LeaseFigures {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let contact = self.0.contact();
        if let Some(answered_at) = contact.answered_at {
            page.one(&AGE, self.0.elapsed().now().saturating_sub(answered_at).as_secs_f64())?;
        }
        page.one(&FAILURES, contact.failures)?;
        page.one(&WAITING, self.0.waiting().len())
    }
}
