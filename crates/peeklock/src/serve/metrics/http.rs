//! HTTP requests by route and status.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use peeklock_metrics::{Durations, Family, Page, Source};

const REQUEST_DURATION: Family = Family::histogram(
    "peeklock_http_request_duration_seconds",
    "Time from the head of an HTTP request to the head of its answer, by route and status; a receive includes its wait.",
);

/// The route of a request in the metrics: few values, whatever the paths are.
pub(in crate::serve) fn route(path: &str) -> &'static str {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let has = |segment: &str| path.split('/').any(|one| one.eq_ignore_ascii_case(segment));
    match first {
        "health" => "health",
        "metrics" => "metrics",
        "console" => "console",
        "development" => "development",
        "$servicebus" => "websocket",
        _ if has("messages") => "messages",
        _ => "administration",
    }
}

/// The metrics' source; see the module; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct HttpMetrics(Arc<Mutex<BTreeMap<(&'static str, u16), Durations>>>);

impl HttpMetrics {
    /// Counts an answered request.
    pub(in crate::serve) fn note(&self, route: &'static str, status: StatusCode, took: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        known.entry((route, status.as_u16())).or_default().observe_us(took_us);
    }
}

impl Source for HttpMetrics {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let series = known.iter().map(|((route, status), durations)| {
            ([("route", (*route).to_owned()), ("status", status.to_string())], durations.get())
        });
        page.histograms(&REQUEST_DURATION, series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_few_whatever_the_paths_are() {
        for (path, expected) in [
            ("/health/ready", "health"),
            ("/metrics", "metrics"),
            ("/orders/messages/head", "messages"),
            ("/a/b/Subscriptions/c/Messages", "messages"),
            ("/$servicebus/websocket", "websocket"),
            ("/orders", "administration"),
            ("/", "administration"),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
