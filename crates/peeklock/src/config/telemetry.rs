//! `[telemetry]`: metrics and traces to an OpenTelemetry collector.

use std::ops::RangeInclusive;

use hyper::http::uri::{Authority, Uri};
use toml::de::DeValue;

use super::table::{Table, show};

/// A shorter interval causes useless load, a longer one gaps in graphs.
const INTERVAL_MS: RangeInclusive<u64> = 1_000..=60 * 60 * 1_000;
/// The default in OpenTelemetry's specification.
const INTERVAL_DEFAULT_MS: u64 = 60_000;

/// Settings of telemetry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TelemetryConfig {
    /// The collector's address for OTLP over HTTP; `None` for no export, unless a variable sets one.
    pub(crate) otlp_endpoint: Option<Uri>,
    /// Whether metrics are sent.
    pub(crate) metrics: bool,
    /// Interval of sending metrics.
    pub(crate) interval_ms: u64,
    /// Whether spans are sent.
    pub(crate) traces: bool,
    /// The share of messages without a trace of their sender that get spans: 0 to 1.
    pub(crate) sampling: f64,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            metrics: true,
            interval_ms: INTERVAL_DEFAULT_MS,
            traces: true,
            sampling: 0.0,
        }
    }
}

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> TelemetryConfig {
    let default = TelemetryConfig::default();
    let endpoint = table.text("otlp_endpoint", "\"http://127.0.0.1:4318\"", |text| match text {
        "" => Ok(None),
        _ => endpoint(text).map(Some),
    });
    let config = TelemetryConfig {
        otlp_endpoint: endpoint.flatten(),
        metrics: table.boolean("metrics", default.metrics),
        interval_ms: table.duration_ms("interval", default.interval_ms, &INTERVAL_MS),
        traces: table.boolean("traces", default.traces),
        sampling: table.read("sampling", sampling).unwrap_or(default.sampling),
    };
    table.finish();
    config
}

/// Parses the address of a collector.
///
/// # Errors
/// A message for the end of a sentence about it.
pub(crate) fn endpoint(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("\"{text}\" is not an address: {error}"))?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let names_a_host = uri.authority().is_some_and(|authority| !Authority::host(authority).is_empty());
    if !is_http || !names_a_host {
        return Err(format!("\"{text}\" is not an address like http://127.0.0.1:4318"));
    }
    if uri.query().is_some() {
        return Err(format!("\"{text}\" has a query; signals have paths of their own behind the address"));
    }
    Ok(uri)
}

fn sampling(value: &DeValue<'_>) -> Result<f64, String> {
    let number = match value {
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    };
    number.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
        format!("expected a share from 0.0 to 1.0, found {}; write sampling = 0.1", show(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_http() {
        for good in ["http://127.0.0.1:4318", "https://collector/otlp", "http://[::1]:4318/"] {
            assert!(endpoint(good).is_ok(), "{good}");
        }
        for wrong in ["127.0.0.1:4318", "collector", "grpc://collector:4317", "http://", "http://a/?b", "a b"]
        {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
