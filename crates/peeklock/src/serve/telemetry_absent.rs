//! Replaces `telemetry` in a binary that was built without the feature `otlp`.

use std::sync::Arc;

use peeklock_engine::runtime::Spans;
use peeklock_metrics::Metrics;

use crate::config::TelemetryConfig;

/// A collector is configured, but the binary can't send to it.
#[derive(Debug, thiserror::Error)]
#[error("[telemetry] otlp_endpoint: this binary was built without the feature \"otlp\"")]
pub(crate) struct SettingsError;

/// A placeholder.
#[derive(Debug)]
pub(super) struct Telemetry;

impl Telemetry {
    /// # Errors
    /// A collector is configured.
    pub(super) async fn start(config: &TelemetryConfig, _registry: &Metrics) -> Result<Self, SettingsError> {
        if config.otlp_endpoint.is_some() { Err(SettingsError) } else { Ok(Self) }
    }

    /// No spans are recorded.
    pub(super) fn spans(&self) -> Option<Arc<dyn Spans>> {
        None
    }

    /// Nothing remains to be sent.
    pub(super) async fn finish(self) {}
}
