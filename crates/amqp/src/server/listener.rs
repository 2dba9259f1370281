//! A port that serves only AMQP over plain TCP: for tests, and for programs that embed the front end.

use std::fmt;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use peeklock_engine::runtime::Clock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::application::{ApplicationFactory, Peer};
use super::connections::{Connections, ListenerOptions};
use super::limits::ACCEPT_RETRY_MS;
use super::timer::Timer;

/// A bound port that serves AMQP.
pub struct Listener<F> {
    listener: TcpListener,
    connections: Arc<Connections<F>>,
    clock: Arc<dyn Clock>,
}

impl<F: ApplicationFactory> Listener<F> {
    /// Binds the port; connections wait until [`Self::run`].
    ///
    /// # Errors
    /// The system's: address in use, not allowed, not local.
    pub async fn bind(
        address: SocketAddr,
        factory: Arc<F>,
        clock: Arc<dyn Clock>,
        options: ListenerOptions,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self::new(listener, factory, clock, options))
    }

    /// Serves a port that is already bound; connections wait until [`Self::run`].
    #[must_use]
    pub fn new(
        listener: TcpListener,
        factory: Arc<F>,
        clock: Arc<dyn Clock>,
        options: ListenerOptions,
    ) -> Self {
        let connections = Arc::new(Connections::new(factory, Arc::clone(&clock), options));
        Self { listener, connections, clock }
    }

    /// The address it listens on, with the port chosen by the system if 0 was requested.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` resolves, then shuts down: refuses new connections, lets open ones continue for the grace
    /// period, closes the rest with `amqp:connection:forced`, and finally cuts those still open.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, connections, clock } = self;
        let mut tasks = JoinSet::new();
        tokio::select! {
            () = stop => {}
            () = accept_all(&listener, &connections, &clock, &mut tasks) => {}
        }
        drop(listener);
        tracing::debug!(connections = tasks.len(), "no longer accepting connections");
        connections.drain().await;
        tasks.shutdown().await;
    }
}

async fn accept_all<F: ApplicationFactory>(
    listener: &TcpListener,
    connections: &Arc<Connections<F>>,
    clock: &Arc<dyn Clock>,
    tasks: &mut JoinSet<()>,
) {
    loop {
        let (socket, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(failure) => {
                tracing::warn!(error = %failure, "a connection could not be accepted");
                Timer::new(Arc::clone(clock)).sleep_ms(ACCEPT_RETRY_MS).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        if let Err(failure) = socket.set_nodelay(true) {
            tracing::debug!(error = %failure, %address, "TCP_NODELAY could not be set");
        }
        let peer = Peer { address: Some(address), ..Peer::default() };
        let connections = Arc::clone(connections);
        tasks.spawn(async move { connections.serve(socket, BytesMut::new(), peer, pending()).await });
    }
}

impl<F> fmt::Debug for Listener<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").field("listener", &self.listener).finish_non_exhaustive()
    }
}
