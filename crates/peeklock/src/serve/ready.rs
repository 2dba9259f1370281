//! Publishes the addresses for users and programs.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use peeklock_access::{DEFAULT_KEY, DEFAULT_RULE_NAME};
use peeklock_engine::AuthorizationRule;
use serde::Serialize;

use crate::config::AuthorizationConfig;

/// The addresses in use, with the ports that the system chose for port 0.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Addresses {
    /// The process id.
    pid: u32,
    /// The address of AMQP.
    pub(super) amqp: SocketAddr,
    /// The address of HTTP.
    pub(super) http: SocketAddr,
    /// All addresses, including these two; each serves every protocol.
    addresses: Vec<SocketAddr>,
    /// The connection string for the SDKs, without TLS.
    pub(super) connection_string: String,
    /// The connection string for the SDKs, with TLS.
    connection_string_tls: String,
    /// The CA certificate that clients have to trust, if the broker made it.
    #[serde(rename = "ca_file")]
    pub(super) authority: Option<PathBuf>,
}

impl Addresses {
    /// The addresses of the listeners, without a CA.
    pub(super) fn new(
        amqp: SocketAddr,
        http: SocketAddr,
        addresses: Vec<SocketAddr>,
        authorization: &AuthorizationConfig,
    ) -> Self {
        let connection_string_tls = connection_string(amqp, authorization.rules.first());
        let connection_string = format!("{connection_string_tls}UseDevelopmentEmulator=true;");
        let pid = std::process::id();
        Self { pid, amqp, http, addresses, connection_string, connection_string_tls, authority: None }
    }

    /// The other addresses, comma-separated; `None` without any.
    pub(super) fn others(&self) -> Option<String> {
        let others = self.addresses.iter().filter(|address| **address != self.amqp && **address != self.http);
        let others: Vec<String> = others.map(SocketAddr::to_string).collect();
        (!others.is_empty()).then(|| others.join(", "))
    }

    /// Sets the CA certificate that clients have to trust.
    pub(super) fn set_authority(&mut self, authority: Option<PathBuf>) {
        self.authority = authority;
    }
}

/// The connection string for an SDK on this machine; over TLS, unless it is marked as the emulator's. For a configured
/// rule it contains only the name; the default rule's key is publicly known.
fn connection_string(amqp: SocketAddr, rule: Option<&AuthorizationRule>) -> String {
    let (name, key) = rule.map_or((DEFAULT_RULE_NAME, DEFAULT_KEY), |rule| (&*rule.name, "<its key>"));
    let host = match amqp {
        _ if amqp.ip().is_loopback() || amqp.ip().is_unspecified() => "localhost".to_owned(),
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let port = amqp.port();
    format!("Endpoint=sb://{host}:{port};SharedAccessKeyName={name};SharedAccessKey={key};")
}

/// The ready file, which exists while the broker accepts connections; removed when dropped.
#[derive(Debug)]
pub(super) struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes an earlier process's file, so that its addresses are not used, and checks that the file can be written
    /// later.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn prepare(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let partial = partial(path);
        fs::write(&partial, "")?;
        fs::remove_file(partial)
    }

    /// Writes the addresses; readers see the whole file or none.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn write(path: &Path, addresses: &Addresses) -> io::Result<Self> {
        let partial = partial(path);
        fs::write(&partial, serde_json::to_vec(addresses)?)?;
        fs::rename(&partial, path)?;
        Ok(Self(path.to_owned()))
    }
}

/// The path of the file until it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_addresses_are_named_beside_those_of_amqp_and_http() {
        let others = |all: &[&str]| {
            let all: Vec<SocketAddr> = all.iter().map(|address| address.parse().unwrap()).collect();
            Addresses::new(all[0], all[1], all, &AuthorizationConfig::default()).others()
        };
        let own = ["127.0.0.1:5672", "127.0.0.1:5300"];
        assert_eq!(others(&own), None);
        let all = [own[0], own[1], "127.0.0.1:5671", "[::1]:443"];
        assert_eq!(others(&all).as_deref(), Some("127.0.0.1:5671, [::1]:443"));
    }

    #[test]
    fn local_addresses_are_called_localhost() {
        let host = |address: &str| {
            let text = connection_string(address.parse().unwrap(), None);
            let rest = text.strip_prefix("Endpoint=sb://").unwrap();
            assert!(rest.ends_with(";SharedAccessKey=SAS_KEY_VALUE;"));
            rest.split(';').next().unwrap().to_owned()
        };
        assert_eq!(host("127.0.0.1:5672"), "localhost:5672");
        assert_eq!(host("0.0.0.0:1"), "localhost:1");
        assert_eq!(host("[::]:1"), "localhost:1");
        assert_eq!(host("192.0.2.1:1"), "192.0.2.1:1");
        assert_eq!(host("[2001:db8::1]:1"), "[2001:db8::1]:1");
    }
}
