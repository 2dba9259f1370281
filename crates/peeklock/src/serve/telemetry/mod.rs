//! Exports metrics and spans to an OpenTelemetry collector: OTLP over HTTP, as protobuf.
//!
//! The export never blocks other tasks. Spans are queued, and dropped and counted if the queue is full; metrics are
//! totals, so a lost page is compensated by the next one.

mod client;
mod counts;
mod families;
mod settings;
mod spans;
mod starts;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use peeklock_engine::runtime::Spans;
use peeklock_metrics::Metrics;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::config::TelemetryConfig;
use client::Collector;
use counts::Counts;
use settings::Settings;
pub(in crate::serve) use settings::SettingsError;
use spans::Recorder;

/// Spans that wait to be sent; with a kilobyte each, this bounds the memory while a collector does not answer.
const SPANS_MAX: usize = 4096;
/// Time-out of the last export when the broker stops.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// The exporting tasks; see the module.
#[derive(Debug)]
pub(super) struct Telemetry {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
    spans: Option<Arc<dyn Spans>>,
}

impl Telemetry {
    /// Starts exporting, if configuration or variables name a collector. Its own counters are registered in any case.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub(super) async fn start(config: &TelemetryConfig, registry: &Metrics) -> Result<Self, SettingsError> {
        let counts = Counts::default();
        registry.register(counts.clone());
        let stop = watch::Sender::new(false);
        let mut telemetry = Self { tasks: JoinSet::new(), stop, spans: None };
        let Some(settings) = Settings::resolve(config, |name| std::env::var(name).ok())? else {
            return Ok(telemetry);
        };
        let collector = Collector::new(&settings, counts.clone()).await?;
        tracing::info!(endpoint = %settings.endpoint, metrics = config.metrics, traces = config.traces, "exporting to OpenTelemetry");
        if config.metrics {
            let pages = task::Pages { collector: collector.clone(), registry: registry.clone() };
            let interval = Duration::from_millis(config.interval_ms);
            telemetry.tasks.spawn(pages.run(interval, telemetry.stop.subscribe()));
        }
        if config.traces {
            let (sender, queue) = mpsc::channel(SPANS_MAX);
            telemetry.spans = Some(Arc::new(Recorder::new(config.sampling, sender, counts)));
            telemetry.tasks.spawn(task::Batches { collector, queue }.run(telemetry.stop.subscribe()));
        }
        Ok(telemetry)
    }

    /// The recorder of spans, if they are exported.
    pub(super) fn spans(&self) -> Option<Arc<dyn Spans>> {
        self.spans.clone()
    }

    /// Exports the remaining data once, and ends.
    pub(super) async fn finish(mut self) {
        self.stop.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Data not sent by then is lost.
        let _ = tokio::time::timeout(LAST_EXPORT, all).await;
    }
}
