//! Connecting to one server: its addresses, a socket, TLS, the session.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;

use crate::failure::{Failure, with_source};
use crate::login::Login;
use crate::metrics::PostgresMetrics;
use crate::options::{DatabaseOptions, Endpoint};
use crate::session::Session;
use crate::settings;
use crate::stream::{SilenceTolerance, Watch, Watched};
use crate::tls::TlsFiles;

/// A server at one address.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    endpoint: Endpoint,
    /// `None`: a socket in the file system.
    address: Option<SocketAddr>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.endpoint.fmt(formatter)?;
        match self.address {
            Some(address) if address.ip().to_string() != self.endpoint.name() => {
                write!(formatter, " ({})", address.ip())
            }
            _ => Ok(()),
        }
    }
}

/// All addresses of a server: a name may have several.
pub(crate) async fn resolve(endpoint: Endpoint) -> Result<Vec<Target>, String> {
    let target = |address| Target { endpoint: endpoint.clone(), address };
    if let Some(address) = endpoint.address {
        return Ok(vec![target(Some(SocketAddr::new(address, endpoint.port)))]);
    }
    match &endpoint.host {
        Some(Host::Tcp(name)) => {
            let found = lookup_host((name.as_str(), endpoint.port)).await;
            let found = found.map_err(|error| format!("{endpoint}: the name does not resolve: {error}"))?;
            Ok(found.map(Some).map(target).collect())
        }
        _ => Ok(vec![target(None)]),
    }
}

/// The parts shared by all connections to a database.
pub(crate) struct ConnectionContext {
    pub(crate) options: DatabaseOptions,
    pub(crate) login: Login,
    pub(crate) tls: TlsFiles,
    pub(crate) metrics: PostgresMetrics,
    pub(crate) tolerance: SilenceTolerance,
}

/// Connects and checks the session, within the time limit of the options.
pub(crate) async fn reach(
    target: &Target,
    context: &ConnectionContext,
    purpose: &str,
) -> Result<Session, String> {
    let options = &context.options;
    let attempt = start(target, context, purpose);
    let failed = |reason: String| format!("{target}: {reason}");
    match tokio::time::timeout(options.connect_timeout, attempt).await {
        Ok(result) => result.map_err(failed),
        Err(_) => Err(failed(format!("no answer for {:?}", options.connect_timeout))),
    }
}

async fn start(target: &Target, context: &ConnectionContext, purpose: &str) -> Result<Session, String> {
    let ConnectionContext { options, metrics, .. } = context;
    let mut tls = context.tls.connector();
    let mut config = context.login.config(options);
    let application = config.get_application_name().unwrap_or_default();
    config.application_name(format!("{application} {purpose}"));
    let watch = Arc::new(Watch::new(context.tolerance.clone()));
    let socket = socket(target, &mut config, &watch).await.map_err(|error| error.to_string())?;
    let Ok(tls) = MakeTlsConnect::<Watched>::make_tls_connect(&mut tls, &target.endpoint.name());
    let connected = config.connect_raw(socket, tls).await;
    let (client, connection) = connected.map_err(|error| with_source(&error))?;
    let session =
        Session::start(client, connection, target.to_string(), watch, options.silence, metrics.clone());
    match settings::prepare(session.client(), options.durability, &options.schema).await {
        Ok(()) => Ok(session),
        Err(Failure::Lost { reason }) => Err(reason),
        Err(failure) => Err(failure.to_string()),
    }
}

async fn socket(target: &Target, config: &mut Config, watch: &Arc<Watch>) -> io::Result<Watched> {
    let watch = Arc::clone(watch);
    match (target.address, &target.endpoint.host) {
        (Some(address), _) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            keep_alive(&stream, config)?;
            Ok(Watched::new(stream, watch))
        }
        #[cfg(unix)]
        (None, Some(Host::Unix(folder))) => {
            // As in libpq: a local socket needs no TLS.
            config.ssl_mode(SslMode::Disable);
            let path = folder.join(format!(".s.PGSQL.{}", target.endpoint.port));
            Ok(Watched::new(tokio::net::UnixStream::connect(path).await?, watch))
        }
        _ => Err(io::Error::other("the URL gives no address")),
    }
}

fn keep_alive(stream: &TcpStream, config: &Config) -> io::Result<()> {
    let socket = SockRef::from(stream);
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    Ok(())
}
