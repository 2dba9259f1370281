//! All addresses and the servers behind them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use peeklock_amqp::server::Connections;
use peeklock_amqp::servicebus::ServiceBus;
use peeklock_engine::runtime::{Clock, SystemClock};
use peeklock_net::{
    CertificateSource, Certificates, PortOptions, Ports, Tls, TlsOptions, UnauthenticatedConnections,
    UnauthenticatedLimits,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::descriptors::Room;
use super::error::ServeError;
use super::front_ends::{Amqp, FrontEnds};
use super::http::Http;
use super::metrics::{CertificateMetrics, Monitoring};
use super::pages::Pages;
use super::ready::Addresses;
use crate::config::Config;

/// Directory of certificates made by the broker, inside the data directory.
const TLS_DIRECTORY: &str = "tls";

/// Bound ports whose connections are not accepted yet.
pub(super) struct Listening {
    listeners: Vec<TcpListener>,
    amqp: SocketAddr,
    http: SocketAddr,
    all: Vec<SocketAddr>,
}

impl Listening {
    /// Binds every configured address.
    ///
    /// # Errors
    /// The first address that can't be listened on.
    pub(super) async fn bind(config: &Config) -> Result<Self, ServeError> {
        let (mut listeners, mut all) = (Vec::new(), Vec::new());
        let (mut amqp, mut http) = (None, None);
        for (what, address) in config.addresses() {
            let bound = TcpListener::bind((address.host(), address.port())).await;
            let refused = |error| ServeError::Bind { what, address: address.clone(), error };
            let listener = bound.map_err(refused)?;
            let local = listener.local_addr().map_err(ServeError::System)?;
            // Each address with port 0 gets a different port.
            match what {
                "AMQP" => amqp = Some(local),
                "HTTP" => http = Some(local),
                _ => {}
            }
            all.push(local);
            listeners.push(listener);
        }
        let missing = || ServeError::System(std::io::ErrorKind::AddrNotAvailable.into());
        let amqp = amqp.ok_or_else(missing)?;
        // The same address for both is one listener.
        Ok(Self { listeners, amqp, http: http.unwrap_or(amqp), all })
    }
}

/// The addresses being served.
pub(super) struct Network {
    addresses: Addresses,
    pages: Arc<Pages>,
    http: Arc<Http>,
    amqp: watch::Sender<Amqp>,
    /// Connections of an ended term.
    leaving: Vec<Arc<Connections<ServiceBus>>>,
    closing: JoinSet<usize>,
    tls: Arc<Tls>,
    serving: JoinHandle<()>,
    keeping_up: Option<JoinHandle<()>>,
}

impl Network {
    /// Starts serving HTTP; AMQP and TLS connections wait.
    pub(super) fn start(
        listening: Listening,
        router: Router,
        config: &Config,
        room: Room,
        monitoring: &Monitoring,
    ) -> Self {
        let addresses = Addresses::new(listening.amqp, listening.http, listening.all, &config.authorization);
        let pages = Arc::new(Pages::new(config));
        let authenticated_max = usize::try_from(room.connections_max).unwrap_or(usize::MAX);
        let http = Http::new(router, Arc::clone(&pages), authenticated_max, monitoring);
        let tls = Arc::new(Tls::default());
        monitoring.registry.register(CertificateMetrics(Arc::clone(&tls)));
        let amqp = watch::Sender::new(Amqp::Starting);
        let connections = monitoring.connections.clone();
        let front_ends = FrontEnds { amqp: amqp.subscribe(), http: Arc::clone(&http), connections };
        let total_max = usize::try_from(room.unauthenticated_max).unwrap_or(usize::MAX);
        let per_address_max =
            usize::try_from(config.network.unauthenticated_per_address_max).unwrap_or(usize::MAX);
        let unauthenticated =
            UnauthenticatedConnections::new(UnauthenticatedLimits { total_max, per_address_max });
        monitoring.connections.set_unauthenticated(unauthenticated.clone());
        let options = PortOptions { tls_required: config.tls.required, ..PortOptions::default() };
        let ports = Ports::new(front_ends, Arc::clone(&tls), unauthenticated, options);
        let serving = tokio::spawn(ports.run(listening.listeners));
        let (leaving, closing) = (Vec::new(), JoinSet::new());
        Self { addresses, pages, http, amqp, leaving, closing, tls, serving, keeping_up: None }
    }

    /// Starts serving TLS, and keeps its certificates up to date.
    ///
    /// # Errors
    /// Unusable files.
    pub(super) fn secure(
        &mut self,
        config: &Config,
        time: &SystemClock,
    ) -> Result<Arc<Certificates>, ServeError> {
        let time = time.clone();
        let now = Arc::new(move || UNIX_EPOCH + Duration::from_millis(time.now().0));
        let certificates = Arc::new(Certificates::load(tls_options(config), Arc::clone(&self.tls), now)?);
        self.pages.set_certificate_names(certificates.names());
        self.addresses.set_authority(certificates.authority().map(absolute));
        self.keeping_up = Some(tokio::spawn(Arc::clone(&certificates).keep_up()));
        Ok(certificates)
    }

    /// Starts serving AMQP.
    pub(super) fn serve_amqp(&self, connections: Connections<ServiceBus>) {
        self.amqp.send_replace(Amqp::Served(Arc::new(connections)));
    }

    /// Makes new connections wait. Existing ones continue.
    pub(super) fn hold_amqp(&mut self) {
        if let Amqp::Served(connections) = self.amqp.send_replace(Amqp::Standby) {
            self.leaving.push(connections);
        }
    }

    /// [`Self::hold_amqp`], and closes existing connections: SDKs reconnect automatically and at once.
    pub(super) fn close_amqp(&mut self) {
        self.hold_amqp();
        while self.closing.try_join_next().is_some() {}
        for connections in self.leaving.drain(..) {
            self.closing.spawn(async move { connections.close().await });
        }
    }

    /// Waits for the connections closed by [`Self::close_amqp`], and lets HTTP requests finish.
    pub(super) async fn finish(&mut self, grace: Duration) {
        let closed = async { while self.closing.join_next().await.is_some() {} };
        tokio::join!(closed, self.http.drain(grace));
    }

    /// The check of requests from web pages.
    pub(super) fn pages(&self) -> Arc<Pages> {
        Arc::clone(&self.pages)
    }

    /// The addresses to connect to.
    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Resolves when serving ended unexpectedly.
    pub(super) async fn ended(&mut self) -> Result<(), JoinError> {
        (&mut self.serving).await
    }

    /// Lets connections finish. Health requests are still answered.
    pub(super) async fn drain(&self, grace: Duration) {
        let served = self.amqp.borrow().clone();
        let amqp = async {
            if let Amqp::Served(connections) = served {
                connections.drain().await;
            }
        };
        tokio::join!(amqp, self.http.drain(grace));
    }

    /// Closes the remaining connections.
    pub(super) async fn close(self) {
        for task in [Some(self.serving), self.keeping_up].into_iter().flatten() {
            task.abort();
            // The task was cancelled.
            let _ = task.await;
        }
    }
}

fn tls_options(config: &Config) -> TlsOptions {
    let source = match (&config.tls.certificate, &config.tls.key) {
        (Some(certificate), Some(key)) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
        _ => CertificateSource::Local {
            directory: config.data_dir.join(TLS_DIRECTORY),
            names: config.tls.names.clone(),
        },
    };
    TlsOptions { source, client_ca: config.tls.client_ca.clone() }
}

/// An absolute path, which is valid for clients with any working directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
