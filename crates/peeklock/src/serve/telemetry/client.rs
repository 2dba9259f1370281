//! The collector over HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::{HeaderMap, Request};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use peeklock_wire::loggable;
use prost::Message;
use tokio::time::timeout;

use super::counts::{Counts, Signal};
use super::settings::{Settings, SettingsError};
use crate::serve::openid::{authorities, chain, without_authorities};

/// The default in OpenTelemetry's specification.
const TIME_OUT: Duration = Duration::from_secs(10);
/// Answers are short; the rest of a longer one is not read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Longest pause that a collector can demand.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What a collector says about a request that it accepted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// Number of spans or data points that it did not take (OTLP, "Partial Success").
    pub(super) rejected: u64,
    /// Its reason or advice, for the log; empty if there is none.
    pub(super) warning: String,
}

impl Accepted {
    /// Reads the body of an answer. An answer in another format contains no rejection that could be read.
    fn read(body: &[u8]) -> Self {
        // The answers of all signals are encoded alike.
        let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
        let partial = answer.partial_success.unwrap_or_default();
        let rejected = u64::try_from(partial.rejected_spans).unwrap_or_default();
        Self { rejected, warning: loggable(&partial.error_message).into_owned() }
    }
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct ExportError {
    reason: String,
    /// Whether the same request may succeed later.
    pub(super) is_passing: bool,
    /// How long the collector asks to wait.
    pub(super) retry_after: Option<Duration>,
}

impl ExportError {
    fn passing(reason: String) -> Self {
        Self { reason, is_passing: true, retry_after: None }
    }
}

/// A client of the collector; see the module; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    settings: Arc<Settings>,
    pub(super) counts: Counts,
}

impl Collector {
    /// A client without a connection.
    ///
    /// # Errors
    /// [`SettingsError::Authorities`].
    pub(super) async fn new(settings: &Settings, counts: Counts) -> Result<Self, SettingsError> {
        let tls = if settings.endpoint.scheme_str() == Some("https") {
            authorities().await
        } else {
            without_authorities()
        };
        let tls = tls.map_err(SettingsError::Authorities)?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new()).build(connector.build());
        Ok(Self { client, settings: Arc::new(settings.clone()), counts })
    }

    /// The resource that exports.
    pub(super) fn resource(&self) -> Option<Resource> {
        Some(self.settings.resource.clone())
    }

    /// Sends one request of a signal, and counts the result.
    ///
    /// # Errors
    /// [`ExportError`].
    pub(super) async fn export(
        &self,
        signal: Signal,
        request: &impl Message,
    ) -> Result<Accepted, ExportError> {
        let sent = timeout(TIME_OUT, self.send(signal, request.encode_to_vec().into())).await;
        let late = |_| ExportError::passing(format!("no answer in {} s", TIME_OUT.as_secs()));
        let outcome = sent.map_err(late).flatten();
        self.counts.exported(signal, outcome.is_ok());
        outcome
    }

    async fn send(&self, signal: Signal, body: Bytes) -> Result<Accepted, ExportError> {
        let mut request = Request::post(self.settings.address(signal))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("peeklock/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body));
        let invalid = |reason| ExportError { reason, is_passing: false, retry_after: None };
        let request = request.map_err(|error| invalid(error.to_string()))?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| ExportError::passing(chain(&error)))?;
        let (status, retry_after) = (answer.status(), retry_after(answer.headers()));
        // Read completely, so that the connection can be reused.
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        if status.is_success() {
            return Ok(body.map_or_else(|_| Accepted::default(), |body| Accepted::read(&body.to_bytes())));
        }
        // The retryable ones in the specification of OTLP over HTTP.
        let is_passing = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        Err(ExportError {
            reason: format!("the collector answered with status {status}"),
            is_passing,
            retry_after,
        })
    }
}

/// The pause that an answer demands, in seconds; a date is ignored, since clocks may differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let secs = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(secs).min(RETRY_AFTER_MAX))
}

/// The instrumentation scope of the telemetry.
pub(super) fn scope() -> Option<InstrumentationScope> {
    let (name, version) = ("peeklock".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    Some(InstrumentationScope { name, version, ..InstrumentationScope::default() })
}
