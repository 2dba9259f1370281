//! Accepting connections, and taking leave of them.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use peeklock_engine::runtime::{Clock, Mailbox};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::application::{ApplicationFactory, Peer};
use super::limits::{ACCEPT_RETRY_MS, LEAVE_MS};
use super::timer::Timer;
use super::transport::{Ended, StopSignal, Transport};
use crate::endpoint::{Config, Connection};

/// What a listener does with its connections.
#[derive(Debug, Clone)]
pub struct ListenerOptions {
    /// Connections at a time; more are hung up on.
    pub connections_max: usize,
    /// For each connection's endpoint.
    pub endpoint: Config,
    /// How long connections may go on after the signal to stop before they are closed, in milliseconds.
    pub grace_ms: u64,
}

/// A bound port that serves AMQP.
pub struct Listener<F> {
    listener: TcpListener,
    factory: Arc<F>,
    clock: Arc<dyn Clock>,
    options: ListenerOptions,
}

impl<F: ApplicationFactory> Listener<F> {
    /// Binds the port; connections wait until [`Self::run`].
    ///
    /// # Errors
    /// The system's: address in use, not allowed, not ours.
    pub async fn bind(
        address: SocketAddr,
        factory: Arc<F>,
        clock: Arc<dyn Clock>,
        options: ListenerOptions,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self::new(listener, factory, clock, options))
    }

    /// Serves a port that is bound already; connections wait until [`Self::run`].
    #[must_use]
    pub fn new(
        listener: TcpListener,
        factory: Arc<F>,
        clock: Arc<dyn Clock>,
        options: ListenerOptions,
    ) -> Self {
        Self { listener, factory, clock, options }
    }

    /// Where it listens: the port that the system chose when asked for port 0.
    ///
    /// # Errors
    /// The system's.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` resolves, then takes leave: no new connections, the grace for those that are there, then
    /// a close with `amqp:connection:forced` for the rest, and at last a cut.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let (close, closing) = watch::channel(false);
        tokio::select! {
            () = stop => {}
            () = self.accept_all(&mut tasks, &closing) => {}
        }
        let Self { listener, clock, options, .. } = self;
        drop((listener, closing));
        let timer = Timer::new(clock);
        tracing::debug!(connections = tasks.len(), "no longer accepting connections");
        for pause_ms in [options.grace_ms, LEAVE_MS] {
            tokio::select! {
                () = timer.sleep_ms(pause_ms) => {}
                () = async { while tasks.join_next().await.is_some() {} } => {}
            }
            close.send_replace(true);
        }
        if !tasks.is_empty() {
            tracing::warn!(connections = tasks.len(), "connections cut: they did not close in time");
            tasks.shutdown().await;
        }
    }

    async fn accept_all(&self, tasks: &mut JoinSet<()>, closing: &watch::Receiver<bool>) {
        let mut full = false;
        loop {
            let (socket, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(failure) => {
                    tracing::warn!(error = %failure, "a connection could not be accepted");
                    let retry = Timer::new(Arc::clone(&self.clock)).sleep_ms(ACCEPT_RETRY_MS);
                    retry.await;
                    continue;
                }
            };
            while tasks.try_join_next().is_some() {}
            if tasks.len() >= self.options.connections_max {
                if !std::mem::replace(&mut full, true) {
                    tracing::warn!(limit = self.options.connections_max, "too many connections");
                }
                continue;
            }
            full = false;
            self.start(socket, address, tasks, closing);
        }
    }

    fn start(
        &self,
        socket: TcpStream,
        address: SocketAddr,
        tasks: &mut JoinSet<()>,
        closing: &watch::Receiver<bool>,
    ) {
        if let Err(failure) = socket.set_nodelay(true) {
            tracing::debug!(error = %failure, %address, "TCP_NODELAY could not be set");
        }
        let mut closing = closing.clone();
        let stop: StopSignal = Box::pin(async move {
            if closing.wait_for(|closing| *closing).await.is_err() {
                // The listener is gone without a word: nothing to obey any more.
                std::future::pending::<()>().await;
            }
        });
        let peer = Peer { address: Some(address), ..Peer::default() };
        let (mailbox, outputs) = Mailbox::new();
        let application = self.factory.accept(&peer, mailbox);
        let connection = Connection::server(self.options.endpoint.clone(), self.clock.now().0);
        // A later protocol sniffer reads first and hands over here.
        let first_bytes = BytesMut::new();
        let clock = Arc::clone(&self.clock);
        let transport = Transport::new(socket, first_bytes, connection, (application, outputs), clock, stop);
        let span = tracing::info_span!("connection", peer = %address, container = tracing::field::Empty);
        tasks.spawn(async move { log_end(&transport.run().await) }.instrument(span));
    }
}

impl<F> fmt::Debug for Listener<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// The one line about a connection's end.
fn log_end(ended: &Ended) {
    match &ended.error {
        None => tracing::debug!("connection closed"),
        Some(error) => tracing::info!(
            condition = &*error.condition,
            description = error.description.as_deref(),
            by_peer = ended.by_peer,
            "connection ended"
        ),
    }
}
