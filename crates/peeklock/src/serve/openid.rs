//! The keys of an OpenID issuer: found by discovery (OpenID Connect Discovery 1.0 §4), fetched at start, every hour,
//! and when a token names an unknown key. Connections never wait for this.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::http::uri::{InvalidUri, Uri};
use hyper_rustls::{ConfigBuilderExt, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use peeklock_access::{Access, KeySet, KeySetError};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout};
#[cfg(feature = "otlp")]
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, WantsVerifier, crypto::ring};

const REFRESH: Duration = Duration::from_secs(3600);
/// Minimum interval between fetches caused by tokens with unknown keys, which any client can send.
const MISSED_MIN: Duration = Duration::from_secs(30);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Time-out of each of the two requests.
const TIME_OUT: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Keeps the keys of the policy's current issuer up to date; never ends.
pub(super) async fn run<F, R>(access: Access, fetch: F)
where
    F: Fn(Box<str>) -> R + Send,
    R: Future<Output = Result<KeySet, FetchError>> + Send,
{
    let mut changes = access.changes();
    let mut may_miss_at = Instant::now();
    let mut backoff = BACKOFF_MIN;
    loop {
        changes.mark_unchanged();
        let Some(issuer) = access.issuer() else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        // This fetch covers earlier misses.
        tokio::select! {
            biased;
            () = access.keys_missed() => {}
            () = std::future::ready(()) => {}
        }
        let pause = match fetch(issuer.clone()).await {
            Ok(keys) => {
                tracing::info!(%issuer, keys = keys.len(), "fetched the issuer's keys");
                access.set_issuer_keys(&issuer, keys);
                backoff = BACKOFF_MIN;
                REFRESH
            }
            Err(error) => {
                tracing::warn!(%issuer, retry_in_s = backoff.as_secs(), "can't fetch the issuer's keys: {error}");
                let pause = backoff;
                backoff = (backoff * 2).min(BACKOFF_MAX);
                pause
            }
        };
        let missed = async {
            access.keys_missed().await;
            sleep_until(may_miss_at).await;
        };
        tokio::select! {
            () = sleep_until(Instant::now() + pause) => {}
            () = missed => may_miss_at = Instant::now() + MISSED_MIN,
            () = another_issuer(&access, &issuer) => backoff = BACKOFF_MIN,
        }
    }
}

/// Waits until the policy names another issuer, or none.
async fn another_issuer(access: &Access, issuer: &str) {
    let mut changes = access.changes();
    while access.issuer().as_deref() == Some(issuer) {
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Why the keys could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{0} is not an address: {1}")]
    Address(String, InvalidUri),
    #[error("{0} is neither https nor http on loopback")]
    Insecure(Uri),
    #[error(
        "no certificate authorities are known to this system ({0}); SSL_CERT_FILE names a PEM file with some"
    )]
    Authorities(io::Error),
    #[error("{0}: {1}")]
    Connect(Uri, String),
    #[error("{0} answered with status {1}")]
    Status(Uri, u16),
    #[error("{0} did not answer in {seconds} s", seconds = TIME_OUT.as_secs())]
    TimeOut(Uri),
    #[error("the answer of {0} is not an OpenID Connect discovery document (issuer and jwks_uri)")]
    Discovery(Uri),
    #[error("{0} names its issuer \"{1}\": write that as issuer")]
    Issuer(Uri, String),
    #[error("the answer of {0} {1}")]
    Keys(Uri, KeySetError),
}

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

/// Requests the address of the keys from the issuer, then the keys.
///
/// # Errors
/// [`FetchError`].
pub(super) async fn fetch(issuer: Box<str>) -> Result<KeySet, FetchError> {
    let address = address(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')))?;
    let answer = get(&address).await?;
    let discovered: Discovered =
        serde_json::from_slice(&answer).map_err(|_| FetchError::Discovery(address.clone()))?;
    if discovered.issuer != *issuer {
        return Err(FetchError::Issuer(address, discovered.issuer.chars().take(200).collect()));
    }
    let address = self::address(&discovered.jwks_uri)?;
    KeySet::parse(&get(&address).await?).map_err(|error| FetchError::Keys(address, error))
}

fn address(text: &str) -> Result<Uri, FetchError> {
    text.parse().map_err(|error| FetchError::Address(text.chars().take(200).collect(), error))
}

/// Redirections are not followed, because they could lead to any host.
async fn get(address: &Uri) -> Result<Bytes, FetchError> {
    let answer = async {
        match address.scheme_str() {
            Some("https") => {
                let config = authorities().await.map_err(FetchError::Authorities)?;
                let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
                get_by(connector.enable_http1().build(), address).await
            }
            Some("http") if address.host().is_some_and(is_loopback) => {
                get_by(HttpConnector::new(), address).await
            }
            _ => Err(FetchError::Insecure(address.clone())),
        }
    };
    timeout(TIME_OUT, answer).await.unwrap_or_else(|_| Err(FetchError::TimeOut(address.clone())))
}

/// A TLS configuration that trusts the system's authorities. Reads files each time, so that they may change at run
/// time.
///
/// # Errors
/// No authorities were found.
pub(super) async fn authorities() -> io::Result<ClientConfig> {
    let read = || Ok(builder()?.with_native_roots()?.with_no_client_auth());
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other).flatten()
}

/// A TLS configuration without trusted authorities, for clients that don't use TLS.
#[cfg(feature = "otlp")]
pub(super) fn without_authorities() -> io::Result<ClientConfig> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn builder() -> io::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    builder.with_safe_default_protocol_versions().map_err(io::Error::other)
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_address = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || host.eq_ignore_ascii_case("localhost")
}

async fn get_by<C>(connector: C, address: &Uri) -> Result<Bytes, FetchError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<Bytes>>(connector);
    let response = client.get(address.clone()).await;
    let response = response.map_err(|error| FetchError::Connect(address.clone(), chain(&error)))?;
    if !response.status().is_success() {
        return Err(FetchError::Status(address.clone(), response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| FetchError::Connect(address.clone(), chain(&*error)))?;
    Ok(body.to_bytes())
}

/// An error with its causes: hyper's error alone says little.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
