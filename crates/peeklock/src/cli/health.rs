//! `peeklock health [URL]`: for a container's health check.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use peeklock_net::tls_client::{Trust, connect};

use super::output;
use crate::config::{HTTP_LISTEN_DEFAULT, ListenAddress};
use crate::exit::Exit;

const HTTP_PORT_DEFAULT: u16 = 80;
const HTTPS_PORT_DEFAULT: u16 = 443;
/// The answer of a broker that requires TLS (`tls.required`).
const TLS_REQUIRED: u16 = 403;
/// Upper bound of the size of an answer of `/health`.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// Whom to ask.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// The broker's health address [default: http://ADDR:PORT/health of --http, variable PEEKLOCK_HTTP].
    #[arg(value_name = "URL")]
    url: Option<String>,

    /// The broker's HTTP address [default: 127.0.0.1:5300].
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "PEEKLOCK_HTTP",
        hide_env_values = true,
        conflicts_with = "url"
    )]
    http: Option<ListenAddress>,

    /// The emulator's variable: HTTP is served on this port.
    #[arg(long, env = "EMULATOR_HTTP_PORT", hide = true)]
    emulator_http_port: Option<u16>,

    /// Check only that the process answers, whether or not it is ready.
    #[arg(long, conflicts_with = "url")]
    live: bool,

    /// PEM file with the CA to trust; without it, the certificate is verified only if the broker is on another
    /// machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Seconds to wait for the connection, and then for the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

pub(super) fn run(args: &HealthArgs) -> Exit {
    let url = args.url.clone().unwrap_or_else(|| default_url(args));
    let Some(mut target) = Target::parse(&url) else {
        output::error(format!("\"{url}\" is not a URL such as http://127.0.0.1:5300/health"));
        return Exit::Usage;
    };
    let asking = Asking { ca: args.ca.clone(), timeout: Duration::from_secs(args.timeout) };
    let mut answer = asking.ask(&target);
    if matches!(answer, Ok((TLS_REQUIRED, _))) && args.url.is_none() {
        // Without a URL the scheme is not specified, so TLS is tried.
        target.tls = true;
        answer = asking.ask(&target);
    }
    match answer {
        Ok((200, body)) => {
            output::line(body);
            Exit::Success
        }
        Ok((status, body)) => {
            output::error(format!("{url} answers {status}: {body}"));
            Exit::Failure
        }
        Err(error) => {
            output::error(format!("{url} does not answer: {error}"));
            Exit::Failure
        }
    }
}

/// The broker's address as reached by a client on the same machine.
fn default_url(args: &HealthArgs) -> String {
    let path = if args.live { "/health/live" } else { "/health" };
    let Some(address) = configured_address(args) else {
        return format!("http://{HTTP_LISTEN_DEFAULT}{path}");
    };
    let port = address.port();
    match address.host() {
        "0.0.0.0" => format!("http://127.0.0.1:{port}{path}"),
        "::" => format!("http://[::1]:{port}{path}"),
        _ => format!("http://{address}{path}"),
    }
}

/// The address, parsed like the broker's flags.
fn configured_address(args: &HealthArgs) -> Option<ListenAddress> {
    let address = args.http.clone();
    let Some(port) = args.emulator_http_port else { return address };
    Some(address.or_else(|| HTTP_LISTEN_DEFAULT.parse().ok())?.with_port(port))
}

/// Parts of a parsed `http://` or `https://` URL.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    tls: bool,
    /// `host:port` for connecting.
    authority: String,
    path: String,
}

impl Target {
    fn parse(url: &str) -> Option<Self> {
        let (tls, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://")?),
        };
        let (authority, path) = rest.find('/').map_or((rest, "/health"), |slash| rest.split_at(slash));
        if authority.is_empty() || !url.chars().all(|char| char.is_ascii_graphic()) {
            return None;
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if tls { HTTPS_PORT_DEFAULT } else { HTTP_PORT_DEFAULT };
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
        Some(Self { tls, authority, path: path.to_owned() })
    }

    /// The host alone, as in certificates.
    fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// Settings of a request.
struct Asking {
    ca: Option<PathBuf>,
    timeout: Duration,
}

impl Asking {
    /// Sends one GET; returns the status and the body.
    fn ask(&self, target: &Target) -> io::Result<(u16, String)> {
        let mut failure = io::Error::other("the name has no address");
        for address in target.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => return self.converse(stream, target),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn converse(&self, stream: TcpStream, target: &Target) -> io::Result<(u16, String)> {
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        if !target.tls {
            return exchange(stream, target);
        }
        let trust = match &self.ca {
            Some(file) => Trust::Authority(file.clone()),
            None if stream.peer_addr()?.ip().to_canonical().is_loopback() => Trust::AnyCertificate,
            None => return Err(io::Error::other("its certificate can't be verified: give --ca FILE")),
        };
        exchange(connect(stream, target.host(), &trust)?, target)
    }
}

fn exchange(mut stream: impl Read + Write, target: &Target) -> io::Result<(u16, String)> {
    let Target { authority, path, .. } = target;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = String::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer) {
        // The peer closed without a TLS close_notify; a truncated body is no worse than none.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(not_http)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(not_http)?;
    Ok((status, body.trim().to_owned()))
}

fn not_http() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_urls() {
        let target = |url: &str| Target::parse(url).map(|target| (target.tls, target.authority, target.path));
        let parts = |authority: &str, path: &str| Some((false, authority.to_owned(), path.to_owned()));
        assert_eq!(target("http://localhost:1/health"), parts("localhost:1", "/health"));
        assert_eq!(target("http://localhost"), parts("localhost:80", "/health"));
        assert_eq!(target("http://[::1]:5300/x"), parts("[::1]:5300", "/x"));
        assert_eq!(target("http://[::1]/x"), parts("[::1]:80", "/x"));
        assert_eq!(target("https://[::1]/x"), Some((true, "[::1]:443".to_owned(), "/x".to_owned())));
        assert_eq!(Target::parse("https://[::1]/x").unwrap().host(), "::1");
        assert_eq!(target("ftp://localhost"), None);
        assert_eq!(target("http:///health"), None);
        assert_eq!(target("http://a/\r\nInjected: header"), None);
    }

    #[test]
    fn asks_the_local_broker_by_default() {
        let args = |http: Option<&str>, emulator_http_port, live| HealthArgs {
            url: None,
            http: http.map(|address| address.parse().unwrap()),
            emulator_http_port,
            live,
            ca: None,
            timeout: 3,
        };
        let url = |address: &str| default_url(&args(Some(address), None, false));
        assert_eq!(default_url(&args(None, None, false)), "http://127.0.0.1:5300/health");
        assert_eq!(url("0.0.0.0:80"), "http://127.0.0.1:80/health");
        assert_eq!(url("[::]:80"), "http://[::1]:80/health");
        assert_eq!(url("broker:80"), "http://broker:80/health");
        assert_eq!(default_url(&args(None, Some(1), true)), "http://127.0.0.1:1/health/live");
        assert_eq!(default_url(&args(Some("[::]:80"), Some(81), false)), "http://[::1]:81/health");
    }
}
