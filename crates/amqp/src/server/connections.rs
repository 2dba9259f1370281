//! Serves accepted connections, and closes them at shutdown.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use peeklock_budget::Budget;
use peeklock_engine::runtime::{Clock, Mailbox};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::application::{ApplicationFactory, Peer};
use super::limits::LEAVE_MS;
use super::log_span;
use super::timer::Timer;
use super::transport::{Ended, Stop, StopSignal, Transport};
use super::unauthenticated;
use crate::endpoint::{Config, Connection};
use crate::wire::loggable;

/// Settings for serving connections.
#[derive(Debug, Clone)]
pub struct ListenerOptions {
    /// Maximum number of connections at a time; further ones are closed.
    pub connections_max: usize,
    /// Configuration of each connection's endpoint.
    pub endpoint: Config,
    /// Time for connections to finish after the signal to stop before they are closed, in milliseconds.
    pub grace_ms: u64,
}

/// Serves AMQP over any reliable byte stream, each connection in the task that calls [`Self::serve`].
pub struct Connections<F> {
    factory: Arc<F>,
    clock: Arc<dyn Clock>,
    options: ListenerOptions,
    budget: Budget,
    phase: watch::Sender<Phase>,
    /// Every served connection holds a receiver until its end.
    present: watch::Sender<()>,
    /// Whether the last connection was refused because the maximum was reached.
    full: AtomicBool,
    /// Memory of connections whose peers have not authenticated.
    unauthenticated: unauthenticated::Budget,
}

/// Phases of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// New connections are refused.
    Draining,
    /// All connections are closed.
    Closing,
}

impl<F: ApplicationFactory> Connections<F> {
    /// No connections yet.
    #[must_use]
    pub fn new(factory: Arc<F>, clock: Arc<dyn Clock>, options: ListenerOptions) -> Self {
        let (phase, present) = (watch::Sender::new(Phase::Open), watch::Sender::new(()));
        let (budget, full, unauthenticated) =
            (Budget::default(), AtomicBool::new(false), unauthenticated::Budget::new());
        Self { factory, clock, options, budget, phase, present, full, unauthenticated }
    }

    /// Adds a limit on the memory that all connections together may hold.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Serves one connection to its end. `first_bytes` have already been read to detect the protocol. When `cut`
    /// resolves, the connection ends without a close frame. A connection beyond the maximum, or after [`Self::drain`]
    /// began, is closed.
    pub async fn serve<S>(
        &self,
        socket: S,
        first_bytes: BytesMut,
        peer: Peer,
        cut: impl Future<Output = ()> + Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let phase = self.phase.subscribe();
        if *phase.borrow() != Phase::Open {
            return;
        }
        let present = self.present.subscribe();
        let is_full = self.present.receiver_count() > self.options.connections_max;
        if self.full.swap(is_full, Ordering::Relaxed) != is_full && is_full {
            tracing::warn!(limit = self.options.connections_max, "too many connections");
        }
        if is_full {
            return;
        }
        let (mailbox, outputs) = Mailbox::new();
        let account = mailbox.account();
        let application = self.factory.accept(&peer, mailbox);
        let connection = Connection::server(self.options.endpoint.clone(), self.clock.now().0);
        let clock = Arc::clone(&self.clock);
        let stop = stop_signal(phase, cut);
        let run = Transport::new(socket, first_bytes, connection, (application, outputs), clock, stop)
            .within(&self.budget, account)
            .limited(self.unauthenticated.share())
            .run();
        let address = peer.address.map(|address: SocketAddr| address.to_string()).unwrap_or_default();
        log_span::scope(&address, async { log_end(&run.await) }).await;
        drop(present);
    }

    /// Refuses new connections, lets open ones continue for the grace period, then closes the rest with
    /// `amqp:connection:forced`. Returns the number of those still open some seconds later, which are to be cut.
    pub async fn drain(&self) -> usize {
        self.phase.send_replace(Phase::Draining);
        self.wait_ms(self.options.grace_ms).await;
        self.close().await
    }

    /// [`Self::drain`] without the grace period.
    pub async fn close(&self) -> usize {
        self.phase.send_replace(Phase::Closing);
        self.wait_ms(LEAVE_MS).await;
        let left = self.present.receiver_count();
        if left > 0 {
            tracing::warn!(connections = left, "connections cut: they did not close in time");
        }
        left
    }

    /// Waits at most this long for all connections to end.
    async fn wait_ms(&self, pause_ms: u64) {
        let timer = Timer::new(Arc::clone(&self.clock));
        tokio::select! {
            () = timer.sleep_ms(pause_ms) => {}
            () = self.present.closed() => {}
        }
    }
}

/// The shutdown signal of a connection's driver.
fn stop_signal(
    mut phase: watch::Receiver<Phase>,
    cut: impl Future<Output = ()> + Send + 'static,
) -> StopSignal {
    Box::pin(async move {
        let closing = async {
            if phase.wait_for(|phase| *phase == Phase::Closing).await.is_err() {
                // The owner was dropped: no signal can follow any more.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = closing => Stop::Close,
            () = cut => Stop::Cut,
        }
    })
}

impl<F> fmt::Debug for Connections<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.present.receiver_count();
        formatter.debug_struct("Connections").field("connections", &connections).finish_non_exhaustive()
    }
}

/// Logs the end of a connection.
fn log_end(ended: &Ended) {
    match &ended.error {
        None => tracing::debug!("connection closed"),
        Some(error) => tracing::info!(
            condition = %loggable(&error.condition),
            description = error.description.as_deref().map(loggable).map(tracing::field::display),
            by_peer = ended.by_peer,
            "connection ended"
        ),
    }
}
