//! Stands for `telemetry` in a binary that was built without the feature `otlp`.

use std::sync::Arc;

use peeklock_engine::runtime::Spans;
use peeklock_metrics::Metrics;

use crate::config::TelemetryConfig;

/// A collector is named, and nothing can be sent to it.
#[derive(Debug, thiserror::Error)]
#[error("[telemetry] otlp_endpoint: this binary was built without the feature \"otlp\"")]
pub(crate) struct SettingsError;

/// Nothing.
#[derive(Debug)]
pub(super) struct Telemetry;

impl Telemetry {
    /// # Errors
    /// A collector is named in the configuration.
    pub(super) async fn start(config: &TelemetryConfig, _registry: &Metrics) -> Result<Self, SettingsError> {
        if config.otlp_endpoint.is_some() { Err(SettingsError) } else { Ok(Self) }
    }

    /// Nobody makes spans.
    pub(super) fn spans(&self) -> Option<Arc<dyn Spans>> {
        None
    }

    /// There is nothing left.
    pub(super) async fn finish(self) {}
}
