//! Restricts the web pages that may use the broker, and its host names: allow-lists for the headers `Origin` and
//! `Host`.
//!
//! A browser lets any page send requests to any address, with an `Origin` header that names the page's site; so
//! requests of other sites are refused unless the site is listed. With DNS rebinding a site resolves its own name to
//! the broker's address, and its requests become same-origin; so names that an attacker may own are refused for
//! requests that need no secret: if authorization is off, if the emulator's key is in force, and for the clock of
//! tests.

mod name;
mod response;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use peeklock_access::DEFAULT_KEY;
use peeklock_engine::Secret;
use rustix::system::uname;

use super::routes::METRICS;
use crate::config::{AuthorizationConfig, Config};

pub(super) use response::{preflight, refuse, share};

/// Prefix of paths that need no token even if authorization is required.
const DEVELOPMENT: &str = "/development";

/// Checks requests from web pages.
#[derive(Debug)]
pub(super) struct Pages {
    /// Origins whose pages may use the broker, in browsers' notation.
    origins: Vec<String>,
    /// Host names listed by the operator.
    listed: Vec<String>,
    /// Other names of this broker.
    own: Vec<String>,
    /// Names of the TLS certificate.
    certificate: RwLock<Vec<String>>,
    /// Whether some requests need no secret.
    is_open: AtomicBool,
}

/// The origin of an allowed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Not from a page, or from one of the broker's own origin.
    Own,
    /// From a page of this listed origin.
    Listed(HeaderValue),
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// This is no known name of the broker.
    Host(String),
    /// Pages of this origin may not use the broker.
    Origin(String),
}

impl Pages {
    /// The checks for a configuration.
    pub(super) fn new(config: &Config) -> Self {
        let machine = uname().nodename().to_string_lossy().into_owned();
        let listeners = config.addresses();
        let listeners = listeners.iter().map(|(_, address)| address.host());
        let names = config.tls.names.iter().chain(&config.namespace.name).map(String::as_str);
        let own = listeners.chain(names).chain([&*machine]).map(str::to_ascii_lowercase).collect();
        Self {
            origins: config.network.allowed_origins.clone(),
            listed: config.network.allowed_hosts.clone(),
            own,
            certificate: RwLock::default(),
            is_open: AtomicBool::new(is_open(&config.authorization)),
        }
    }

    /// Applies changed authorization settings.
    pub(super) fn set_authorization(&self, authorization: &AuthorizationConfig) {
        self.is_open.store(is_open(authorization), Ordering::Relaxed);
    }

    /// Sets the names in the certificate in use.
    pub(super) fn set_certificate_names(&self, names: Vec<String>) {
        *self.certificate.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Checks whether a request is allowed.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Source, Refused> {
        let target = uri.authority().map(Authority::as_str);
        let named = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let hosts: Vec<&str> = target.into_iter().chain(named).collect();
        let is_strict = self.is_open.load(Ordering::Relaxed)
            || !self.listed.is_empty()
            || uri.path().starts_with(DEVELOPMENT)
            || (uri.path() == METRICS && !headers.contains_key(AUTHORIZATION));
        if is_strict && let Some(foreign) = hosts.iter().find(|host| !self.is_known(host)) {
            return Err(Refused::Host((*foreign).to_owned()));
        }
        let mut source = Source::Own;
        for origin in headers.get_all(ORIGIN) {
            let text = String::from_utf8_lossy(origin.as_bytes());
            if self.origins.iter().any(|listed| *listed == text) {
                source = Source::Listed(origin.clone());
            } else if !hosts.first().is_some_and(|host| name::is_of_host(&text, host)) {
                return Err(Refused::Origin(text.into_owned()));
            }
        }
        Ok(source)
    }

    /// Whether this is a name of the broker, or one that an external attacker can't own.
    fn is_known(&self, host: &str) -> bool {
        let Some(host) = name::host(host) else { return false };
        if name::is_safe(&host) {
            return true;
        }
        let certificate = self.certificate.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.listed.iter().chain(&self.own).chain(&*certificate);
        known.any(|pattern| name::matches(pattern, &host))
    }
}

/// Whether requests without a secret are possible: authorization is off, or the publicly known key is in force.
fn is_open(authorization: &AuthorizationConfig) -> bool {
    let is_default = |key: &Secret| key.expose() == DEFAULT_KEY;
    !authorization.required
        || authorization.has_default_key()
        || authorization
            .rules
            .iter()
            .any(|rule| is_default(&rule.primary_key) || is_default(&rule.secondary_key))
}
