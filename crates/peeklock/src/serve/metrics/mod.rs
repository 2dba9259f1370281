//! The metrics of `GET /metrics`: the registry of this process, and the binary's own metrics.

mod certificate;
mod cluster;
mod connections;
mod http;
mod process;
mod readers;
mod text_format;

pub(super) use certificate::CertificateMetrics;
pub(super) use cluster::LeaseFigures;
pub(super) use connections::{ConnectionMetrics, Spoken};
pub(super) use http::{HttpMetrics, route};
pub(super) use readers::Readers;
pub(super) use text_format::{TEXT_FORMAT, text_format, wants_text_format};

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use peeklock_amqp::RefusalMetrics;
use peeklock_metrics::{Counters, Family, Metrics, Page, Source, Unit};

use super::health::Health;
use crate::audit::AuditControl;

const CONFIG_RELOADS: Family = Family::counter(
    "peeklock_config_reloads",
    Unit::None,
    "Times that the configuration was read again (SIGHUP), by outcome.",
);

/// The binary's own metrics, and the registry of all; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Monitoring {
    /// All sources.
    pub(super) registry: Metrics,
    pub(super) connections: ConnectionMetrics,
    pub(super) http: HttpMetrics,
    pub(super) refusals: RefusalMetrics,
    /// The metrics of the current term.
    pub(super) term: TermSources,
    reloads: Counters<1>,
}

/// Sources that are replaced with each term; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct TermSources(Arc<RwLock<Vec<Box<dyn Source>>>>);

impl TermSources {
    /// Replaces the sources.
    pub(super) fn set(&self, sources: Vec<Box<dyn Source>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = sources;
    }
}

impl Source for TermSources {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let sources = self.0.read().unwrap_or_else(PoisonError::into_inner);
        sources.iter().try_for_each(|source| source.write(page))
    }
}

impl Monitoring {
    /// Registers the metrics that are available before the store is open.
    pub(super) fn start(health: &Health, audit: &AuditControl) -> Self {
        let monitoring = Self::default();
        for outcome in ["ok", "refused"] {
            monitoring.reloads.get_or_create(&[("outcome", outcome)]).inc_by(0);
        }
        monitoring.registry.register(process::Process(health.clone()));
        monitoring.registry.register(monitoring.connections.clone());
        monitoring.registry.register(monitoring.http.clone());
        monitoring.registry.register(monitoring.refusals.clone());
        monitoring.registry.register(Reloads(monitoring.reloads.clone()));
        monitoring.registry.register(audit.changes());
        monitoring.registry.register(monitoring.term.clone());
        monitoring
    }

    /// Counts a reload of the configuration.
    pub(super) fn reloaded(&self, is_ok: bool) {
        let outcome = if is_ok { "ok" } else { "refused" };
        self.reloads.get_or_create(&[("outcome", outcome)]).inc();
    }
}

#[derive(Debug)]
struct Reloads(Counters<1>);

impl Source for Reloads {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counters(&CONFIG_RELOADS, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_starting_says_so_and_has_no_figures_of_its_store() {
        let text = Monitoring::start(&Health::default(), &AuditControl::default()).registry.text().unwrap();
        assert!(text.contains("# TYPE peeklock_ready gauge\npeeklock_ready 0\n"), "{text}");
        assert!(text.contains("peeklock_config_reloads_total{outcome=\"refused\"} 0\n"), "{text}");
        assert!(!text.contains("peeklock_damage"), "{text}");
    }
}
