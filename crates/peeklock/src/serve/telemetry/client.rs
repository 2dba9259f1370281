//! The collector over HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use tokio::time::timeout;

use super::counts::{Counts, Signal};
use super::settings::{Settings, SettingsError};
use crate::serve::openid::{authorities, chain, without_authorities};

/// The default in OpenTelemetry's specification.
const TIME_OUT: Duration = Duration::from_secs(10);
/// Answers are short, and their contents are ignored.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct ExportError {
    reason: String,
    /// Whether the same request may succeed later.
    pub(super) is_passing: bool,
}

impl ExportError {
    fn passing(reason: String) -> Self {
        Self { reason, is_passing: true }
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
    pub(super) async fn export(&self, signal: Signal, request: &impl Message) -> Result<(), ExportError> {
        let sent = timeout(TIME_OUT, self.send(signal, request.encode_to_vec().into())).await;
        let late = |_| ExportError::passing(format!("no answer in {} s", TIME_OUT.as_secs()));
        let outcome = sent.map_err(late).flatten();
        self.counts.exported(signal, outcome.is_ok());
        outcome
    }

    async fn send(&self, signal: Signal, body: Bytes) -> Result<(), ExportError> {
        let mut request = Request::post(self.settings.address(signal))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("peeklock/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body));
        let request =
            request.map_err(|error| ExportError { reason: error.to_string(), is_passing: false })?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| ExportError::passing(chain(&error)))?;
        let status = answer.status();
        // Read completely, so that the connection can be reused.
        let _ = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        if status.is_success() {
            return Ok(());
        }
        // The retryable ones in the specification of OTLP over HTTP.
        let is_passing = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        Err(ExportError { reason: format!("the collector answered with status {status}"), is_passing })
    }
}

/// The instrumentation scope of the telemetry.
pub(super) fn scope() -> Option<InstrumentationScope> {
    let (name, version) = ("peeklock".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    Some(InstrumentationScope { name, version, ..InstrumentationScope::default() })
}
