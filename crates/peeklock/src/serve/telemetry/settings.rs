//! Destination and identity of the export: the configuration, and the variables of OpenTelemetry's specification, which
//! override it.

use std::io;

use hyper::http::uri::Uri;
use hyper::http::{HeaderName, HeaderValue};
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::common::v1::KeyValue as EncodedKeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource as EncodedResource;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::EnvResourceDetector;
use percent_encoding::percent_decode_str;

use super::counts::Signal;
use crate::config::{TelemetryConfig, otlp_endpoint};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const SERVICE: &str = "peeklock";

/// Why the configured export is not possible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// A variable is invalid; headers are not displayed, because they may contain keys.
    #[error("the variable {0}: {1}")]
    Variable(&'static str, String),
    /// No certificate authorities for TLS.
    #[error(
        "no certificate authorities are known to this system for the OpenTelemetry collector ({0}); SSL_CERT_FILE names a PEM file with some"
    )]
    Authorities(io::Error),
}

/// The resolved settings; see the module.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) endpoint: Uri,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) resource: EncodedResource,
}

impl Settings {
    /// Combines configuration and variables; `None` if nothing is to be exported.
    ///
    /// # Errors
    /// [`SettingsError::Variable`].
    pub(super) fn resolve(
        config: &TelemetryConfig,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SettingsError> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if set(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let named = set(ENDPOINT).map(|text| otlp_endpoint(text.trim())).transpose();
        let named = named.map_err(|error| SettingsError::Variable(ENDPOINT, error))?;
        let Some(endpoint) = named.or_else(|| config.otlp_endpoint.clone()) else { return Ok(None) };
        let headers = set(HEADERS).map(|text| headers(&text)).transpose();
        let headers = headers.map_err(|error| SettingsError::Variable(HEADERS, error))?;
        let resource = resource(set(SERVICE_NAME));
        Ok(Some(Self { endpoint, headers: headers.unwrap_or_default(), resource }))
    }

    /// The URL for a signal, as in the specification: a path appended to the address.
    pub(super) fn address(&self, signal: Signal) -> String {
        let endpoint = self.endpoint.to_string();
        format!("{}/v1/{}", endpoint.trim_end_matches('/'), signal.name())
    }
}

/// Parses `key=value,key=value`, with percent-encoded values.
fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let one = |(at, entry): (usize, &str)| {
        let wrong = || format!("entry {} is not a header like name=value", at + 1);
        let (name, value) = entry.split_once('=').ok_or_else(wrong)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
        let name = name.trim().parse::<HeaderName>().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    text.split(',').filter(|entry| !entry.trim().is_empty()).enumerate().map(one).collect()
}

/// The resource that exports: the service's name and version, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`; later
/// ones have precedence.
fn resource(service_name: Option<String>) -> EncodedResource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder_empty()
        .with_service_name(SERVICE)
        .with_attribute(version)
        .with_detector(Box::new(EnvResourceDetector::new()));
    let resource = match service_name {
        Some(name) => resource.with_service_name(name),
        None => resource,
    };
    let encode = |(key, value): (&opentelemetry::Key, &opentelemetry::Value)| EncodedKeyValue {
        key: key.to_string(),
        value: Some(value.clone().into()),
        ..EncodedKeyValue::default()
    };
    let mut attributes: Vec<_> = resource.build().iter().map(encode).collect();
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
    EncodedResource { attributes, ..EncodedResource::default() }
}
