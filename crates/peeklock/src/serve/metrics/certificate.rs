//! The remaining validity of the TLS certificate.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use peeklock_metrics::{Family, Page, Source, Unit};
use peeklock_net::Tls;

const EXPIRY: Family = Family::gauge(
    "peeklock_certificate_expiry_timestamp_seconds",
    Unit::Seconds,
    "Expiry of the TLS certificate of new connections, since the epoch.",
);

/// The metric's source; see the module.
#[derive(Debug)]
pub(in crate::serve) struct CertificateMetrics(pub(in crate::serve) Arc<Tls>);

impl Source for CertificateMetrics {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let ends_at = self.0.certificate_ends_at().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        // Without a certificate there is no series: 0 would look like an expired one.
        ends_at.map_or(Ok(()), |since| page.one(&EXPIRY, since.as_secs()))
    }
}
