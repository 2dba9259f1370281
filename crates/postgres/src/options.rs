//! Options of the connection to the database: a URL as in libpq, and requirements for the servers.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::failure::with_source;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(5);
const SCHEMA: &str = "peeklock";

/// Prefixes of PostgreSQL URLs.
pub const URL_SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The mechanism that makes commits survive the loss of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synchronous standbys: a server without `synchronous_standby_names` is refused.
    #[default]
    Standby,
    /// The provider's storage replicates below PostgreSQL.
    Service,
}

/// The reason why a URL can't be used. The URL itself is never repeated, because it may contain a password.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// It is not a PostgreSQL URL.
    #[error("the database URL must begin with postgres:// or postgresql://")]
    Scheme,
    /// It has characters that a URL writes with `%`.
    #[error("the database URL has spaces, line ends or control characters; write them with %, as in %20")]
    Characters,
    /// The client's parser rejects it.
    #[error("the database URL: {}", with_source(.0))]
    Url(tokio_postgres::Error),
    /// A required part is missing.
    #[error("the database URL names no {0}")]
    Missing(&'static str),
    /// A parameter has a value that can't be used.
    #[error("{name} in the database URL: {reason}")]
    Parameter {
        /// The parameter.
        name: String,
        /// The problem and its solution.
        reason: String,
    },
    /// A certificate or key file can't be used.
    #[error("{parameter} {}: {reason}", path.display())]
    File {
        /// The parameter that names it.
        parameter: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
        /// The kind of the system's error, if the file could not be read.
        unread: Option<io::ErrorKind>,
    },
}

/// How the server's certificate is checked, like `sslmode` of libpq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    /// Not at all (`prefer`, `require`).
    None,
    /// It must be issued by a known authority (`verify-ca`).
    Authority,
    /// It must also be valid for the host (`verify-full`).
    Full,
}

/// Options for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) verification: Verification,
    /// `None`: the authorities that the system trusts.
    pub(crate) root_certificate: Option<PathBuf>,
    /// Certificate and key of this client.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Returns the present URL, as a file has it.
pub(crate) type UrlSource = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// Options of a database. Their `Debug` form omits the password.
#[derive(Clone)]
pub struct DatabaseOptions {
    pub(crate) config: Config,
    pub(crate) url_source: Option<UrlSource>,
    pub(crate) tls: TlsOptions,
    pub(crate) durability: Durability,
    pub(crate) schema: String,
    /// Time limit for one host, from the first packet until the session is checked.
    pub(crate) connect_timeout: Duration,
    /// A connection with a pending answer is abandoned when no byte is transferred for this time.
    pub(crate) silence: Duration,
}

impl fmt::Debug for DatabaseOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("DatabaseOptions");
        fields.field("config", &self.config).field("tls", &self.tls).field("durability", &self.durability);
        fields.field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl DatabaseOptions {
    /// Parses a URL like libpq: `postgres://user:password@host1:5432,host2/database?sslmode=verify-full`. All hosts are
    /// servers of one database; each connection finds the primary among them.
    ///
    /// Parameters: `sslmode` (disable, prefer, require, verify-ca, verify-full), `sslrootcert` (a file, or `system`, which is the
    /// default), `sslcert` with `sslkey`, `connect_timeout`, `keepalives`, `keepalives_idle`, `keepalives_interval`,
    /// `keepalives_retries`, `tcp_user_timeout` (seconds), `application_name`, `channel_binding`, `options`, `hostaddr`, and
    /// `target_session_attrs`, which must be `read-write`.
    ///
    /// # Errors
    /// [`OptionsError`], which does not contain the URL.
    pub fn parse(url: &str) -> Result<Self, OptionsError> {
        if !URL_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(OptionsError::Scheme);
        }
        if url.chars().any(|char| char.is_control() || char.is_whitespace()) {
            return Err(OptionsError::Characters);
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = Own::default();
        let mut passed = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !own.take(name, value)? {
                passed.push(pair);
            }
        }
        let mut config: Config = format!("{base}?{}", passed.join("&")).parse().map_err(OptionsError::Url)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(OptionsError::Missing("host"));
        }
        if !matches!(config.get_ports().len(), 0 | 1) && config.get_ports().len() != config.get_hosts().len()
        {
            return Err(parameter("port", "there must be one port, or one for each host"));
        }
        let is_given = |name: &str| passed.iter().any(|pair| pair.split('=').next() == Some(name));
        reach_quickly(&mut config, is_given);
        let (ssl_mode, tls) = own.tls()?;
        config.ssl_mode(ssl_mode);
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let (durability, schema, silence) = (Durability::default(), SCHEMA.to_owned(), SILENCE);
        Ok(Self { config, url_source: None, tls, durability, schema, connect_timeout, silence })
    }

    /// Sets the mechanism that makes commits survive; default [`Durability::Standby`].
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Sets the password, replacing one in the URL.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// Sets where the URL is from: each connection uses the user and the password that it has then.
    #[must_use]
    pub fn with_url_source(self, read: impl Fn() -> io::Result<String> + Send + Sync + 'static) -> Self {
        Self { url_source: Some(Arc::new(read)), ..self }
    }

    /// Sets the time without a transferred byte after which a connection with a pending answer is abandoned; default 5
    /// s. Its commits are then in doubt, and decided by reading back.
    #[must_use]
    pub fn with_silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    /// Sets the schema of the tables; default `peeklock`.
    ///
    /// # Errors
    /// The name has characters other than lower-case letters, digits and `_`, or is longer than PostgreSQL allows.
    pub fn with_schema(self, schema: &str) -> Result<Self, OptionsError> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = schema.bytes().next().is_some_and(|first| !first.is_ascii_digit());
        if !starts_well || schema.len() > 63 || !schema.bytes().all(is_name) || schema.starts_with("pg_") {
            let reason = "lower-case letters, digits and _ are accepted, 63 at most, pg_ not at the front";
            return Err(parameter("schema", reason));
        }
        Ok(Self { schema: schema.to_owned(), ..self })
    }

    /// The servers as `host:port`, for logs and reports.
    #[must_use]
    pub fn hosts(&self) -> String {
        let names: Vec<String> = self.endpoints().into_iter().map(|one| one.to_string()).collect();
        names.join(", ")
    }

    /// The endpoints, one for each host of the URL.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        let (hosts, addresses) = (self.config.get_hosts(), self.config.get_hostaddrs());
        let ports = self.config.get_ports();
        let endpoint = |at: usize| Endpoint {
            host: hosts.get(at).cloned(),
            address: addresses.get(at).copied(),
            port: ports.get(at).or(ports.first()).copied().unwrap_or(5432),
        };
        (0..hosts.len().max(addresses.len())).map(endpoint).collect()
    }
}

/// A server named in the URL.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) host: Option<Host>,
    /// `hostaddr`: avoids the look-up of the name.
    pub(crate) address: Option<std::net::IpAddr>,
    pub(crate) port: u16,
}

impl Endpoint {
    /// The name required in the certificate.
    pub(crate) fn name(&self) -> String {
        match (&self.host, self.address) {
            (Some(Host::Tcp(name)), _) => name.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(path)), _) => path.display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.name(), self.port)
    }
}

/// Shortens time-outs: with the client's defaults, a dead peer is detected only after hours, while the broker is
/// unavailable.
fn reach_quickly(config: &mut Config, is_given: impl Fn(&str) -> bool) {
    if !is_given("keepalives_idle") {
        config.keepalives_idle(Duration::from_secs(10));
    }
    if !is_given("keepalives_interval") {
        config.keepalives_interval(Duration::from_secs(3));
    }
    if !is_given("keepalives_retries") {
        config.keepalives_retries(3);
    }
    if !is_given("tcp_user_timeout") {
        config.tcp_user_timeout(Duration::from_secs(10));
    }
    if !is_given("application_name") {
        config.application_name("peeklock");
    }
}

/// Parameters that the client's parser does not support, or not with all values.
#[derive(Default)]
struct Own {
    mode: Option<String>,
    root_certificate: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Own {
    /// Sets a parameter; returns false when it is not one of these.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, OptionsError> {
        let value = decode(value).ok_or_else(|| parameter(name, "it is not percent-encoded UTF-8"))?;
        match name {
            "sslmode" => self.mode = Some(value),
            "sslrootcert" => self.root_certificate = (value != "system").then(|| value.into()),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            "target_session_attrs" if matches!(value.as_str(), "read-write" | "primary") => {}
            "target_session_attrs" => {
                return Err(parameter(name, "must be read-write, because Peeklock writes; or leave it out"));
            }
            "load_balance_hosts" => {
                return Err(parameter(name, "leave it out: all hosts are asked, and one is the primary"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn tls(self) -> Result<(SslMode, TlsOptions), OptionsError> {
        let (mode, verification) = match self.mode.as_deref() {
            Some("disable") => (SslMode::Disable, Verification::None),
            None | Some("prefer") => (SslMode::Prefer, Verification::None),
            // As in libpq: if an authority is given, the certificate is checked.
            Some("require") if self.root_certificate.is_some() => (SslMode::Require, Verification::Authority),
            Some("require") => (SslMode::Require, Verification::None),
            Some("verify-ca") => (SslMode::Require, Verification::Authority),
            Some("verify-full") => (SslMode::Require, Verification::Full),
            Some(_) => {
                let reason = "must be disable, prefer, require, verify-ca or verify-full";
                return Err(parameter("sslmode", reason));
            }
        };
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(parameter("sslcert", "needs sslkey beside it")),
            (None, Some(_)) => return Err(parameter("sslkey", "needs sslcert beside it")),
        };
        Ok((mode, TlsOptions { verification, root_certificate: self.root_certificate, identity }))
    }
}

fn parameter(name: &str, reason: &str) -> OptionsError {
    OptionsError::Parameter { name: name.to_owned(), reason: reason.to_owned() }
}

/// Resolves percent-encoding (RFC 3986 §2.1).
fn decode(value: &str) -> Option<String> {
    // The library leaves a % unchanged that is not followed by two digits.
    let is_whole = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let is_encoded = value.split('%').skip(1).all(is_whole);
    is_encoded.then(|| percent_decode_str(value).decode_utf8().ok())?.map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        DatabaseOptions::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn a_url_names_several_hosts_with_ports_of_their_own() {
        let url =
            "postgres://me:secret@pg-1,pg-2:6000/db?target_session_attrs=read-write&sslmode=verify-full";
        let options = DatabaseOptions::parse(url).unwrap();
        assert_eq!(options.hosts(), "pg-1:5432, pg-2:6000");
        assert_eq!(options.tls.verification, Verification::Full);
        assert_eq!(options.config.get_ssl_mode(), SslMode::Require);
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn certificates_are_named_by_percent_encoded_paths() {
        let url = "postgresql://h/d?sslmode=require&sslrootcert=%2Fetc%2Fca%20file.pem&sslcert=c&sslkey=k";
        let options = DatabaseOptions::parse(url).unwrap();
        assert_eq!(options.tls.root_certificate, Some(PathBuf::from("/etc/ca file.pem")));
        assert_eq!(options.tls.verification, Verification::Authority);
        assert_eq!(options.tls.identity, Some((PathBuf::from("c"), PathBuf::from("k"))));
    }

    #[test]
    fn time_limits_of_the_url_count_and_the_others_are_short() {
        let url = "postgres://h/d?keepalives_idle=77&connect_timeout=3&tcp_user_timeout=9";
        let options = DatabaseOptions::parse(url).unwrap();
        assert_eq!(options.config.get_keepalives_idle(), Duration::from_secs(77));
        assert_eq!(options.config.get_keepalives_interval(), Some(Duration::from_secs(3)));
        assert_eq!(options.config.get_tcp_user_timeout(), Some(&Duration::from_secs(9)));
        assert_eq!(options.connect_timeout, Duration::from_secs(3));
    }

    #[test]
    fn unusable_parameters_are_refused_by_name_without_the_url() {
        assert!(refusal("mysql://u:secret@h/d").contains("must begin with postgres://"));
        assert!(refusal("postgres://u:secret@h/d?sslmode=maybe").starts_with("sslmode in the database URL"));
        assert!(refusal("postgres://h/d?sslcert=x").contains("needs sslkey"));
        assert!(refusal("postgres://h/d?target_session_attrs=any").contains("must be read-write"));
        assert!(refusal("postgres://h/d?colour=red").contains("colour"));
        for wrong in ["%zz", "%", "a%2", "%%41", "%ff"] {
            assert!(refusal(&format!("postgres://h/d?sslrootcert={wrong}")).contains("percent-encoded"));
        }
        assert!(refusal("postgres:///d").contains("no host"));
        for url in ["postgres://u:secret@h/d?sslmode=maybe", "postgres://u:secret@h:x/d"] {
            assert!(!refusal(url).contains("secret"));
        }
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        let options = || DatabaseOptions::parse("postgres://h/d").unwrap();
        assert!(options().with_schema("peeklock_2").is_ok());
        for name in ["", "2nd", "a\"b", "A", "pg_mine", &"x".repeat(64)] {
            assert!(options().with_schema(name).is_err(), "{name}");
        }
    }
}
