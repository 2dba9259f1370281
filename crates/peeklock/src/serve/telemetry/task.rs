//! The exporting tasks: one for each signal, so that neither waits for the other.

use std::fmt::Display;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use peeklock_metrics::Metrics;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::client::{Accepted, Collector, scope};
use super::counts::Signal;
use super::families;
use super::starts::Starts;

/// Maximum number of spans in one request.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for more.
const BATCH_WAIT: Duration = Duration::from_millis(500);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Whether exports of a signal succeed; changes are logged.
#[derive(Debug)]
struct Reach {
    signal: Signal,
    is_failing: bool,
    /// Whether the last accepted request was rejected in part, and whether the collector gave a reason or a warning.
    complaint: (bool, bool),
}

impl Reach {
    const fn new(signal: Signal) -> Self {
        Self { signal, is_failing: false, complaint: (false, false) }
    }

    fn note<E: Display>(&mut self, outcome: &Result<Accepted, E>) {
        let signal = self.signal.name();
        if let Ok(Accepted { rejected, warning }) = outcome {
            let complaint = (*rejected > 0, !warning.is_empty());
            if complaint != self.complaint && complaint != (false, false) {
                let reason = warning.as_str();
                tracing::warn!(
                    signal,
                    rejected,
                    reason,
                    "the collector does not take all telemetry as it is"
                );
            }
            self.complaint = complaint;
        }
        match outcome {
            Ok(_) if self.is_failing => tracing::info!(signal, "exporting to OpenTelemetry works again"),
            Err(error) if !self.is_failing => {
                tracing::warn!(signal, %error, "can't export to OpenTelemetry; it is tried again");
            }
            _ => {}
        }
        self.is_failing = outcome.is_err();
    }
}

/// Exports the metrics.
pub(super) struct Pages {
    pub(super) collector: Collector,
    pub(super) registry: Metrics,
}

impl Pages {
    /// Exports every `period`, and once more at the end.
    pub(super) async fn run(self, period: Duration, mut stop: watch::Receiver<bool>) {
        let mut starts = Starts::new(families::now_ns());
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate.
        ticks.tick().await;
        let mut reach = Reach::new(Signal::Metrics);
        loop {
            let is_last = tokio::select! {
                _ = ticks.tick() => false,
                _ = stop.wait_for(|stop| *stop) => true,
            };
            // Sources fail only when memory is short.
            if let Ok(read) = self.registry.read() {
                let request = families::request(&read, self.collector.resource(), &mut starts);
                reach.note(&self.collector.export(Signal::Metrics, &request).await);
            }
            if is_last {
                return;
            }
        }
    }
}

/// Exports spans.
pub(super) struct Batches {
    pub(super) collector: Collector,
    pub(super) queue: mpsc::Receiver<Span>,
}

impl Batches {
    /// Exports spans as they arrive, and the remaining ones at the end.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut reach = Reach::new(Signal::Traces);
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                received = self.queue.recv_many(&mut batch, BATCH_MAX) => if received == 0 { return },
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let full = async {
                while let Some(room) = BATCH_MAX.checked_sub(batch.len()).filter(|room| *room > 0)
                    && self.queue.recv_many(&mut batch, room).await > 0
                {}
            };
            tokio::select! {
                _ = timeout(BATCH_WAIT, full) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            self.export(batch, &mut reach, &mut stop).await;
        }
    }

    /// Retries until the collector accepts the batch, or refuses it permanently; meanwhile the queue fills up, and
    /// further spans are dropped.
    async fn export(&self, batch: Vec<Span>, reach: &mut Reach, stop: &mut watch::Receiver<bool>) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let scope_spans = ScopeSpans { scope: scope(), spans: batch, ..ScopeSpans::default() };
        let spans = ResourceSpans {
            resource: self.collector.resource(),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        let request = ExportTraceServiceRequest { resource_spans: vec![spans] };
        let mut backoff = BACKOFF_MIN;
        loop {
            let outcome = self.collector.export(Signal::Traces, &request).await;
            reach.note(&outcome);
            let counts = &self.collector.counts;
            let pause = match outcome {
                Ok(accepted) => {
                    let rejected = accepted.rejected.min(count);
                    counts.spans_dropped.inc_by(rejected);
                    counts.spans_exported.inc_by(count - rejected);
                    return;
                }
                Err(error) if !error.is_passing || *stop.borrow() => {
                    counts.spans_dropped.inc_by(count);
                    return;
                }
                Err(error) => backoff.max(error.retry_after.unwrap_or_default()),
            };
            tokio::select! {
                () = sleep(pause) => backoff = (backoff * 2).min(BACKOFF_MAX),
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
    }
}
