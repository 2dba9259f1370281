//! The interface between the driver of a connection and the Service Bus dialect.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use peeklock_connections::Transport;
use peeklock_engine::runtime::{Mailbox, Output};

use crate::endpoint::condition::{self, error};
use crate::endpoint::{Connection, Event, NowMs};
use crate::wire::performative::Error;

/// The peer of a socket.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// The peer's address; `None` for in-memory streams of tests.
    pub address: Option<SocketAddr>,
    /// How the bytes are transported.
    pub transport: Transport,
    /// Whether the bytes came through TLS.
    pub encrypted: bool,
    /// The subject of the client certificate verified by TLS, if there was one.
    pub certificate: Option<Arc<str>>,
    /// Called once the peer has authenticated.
    pub admission: Admission,
}

/// Callback that lifts the limits of number and time on unauthenticated connections.
#[derive(Clone, Default)]
pub struct Admission(Option<Arc<dyn Fn() + Send + Sync>>);

impl Admission {
    /// Calls `admit` on authentication, perhaps more than once.
    #[must_use]
    pub fn new(admit: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(admit)))
    }

    /// Reports that the peer has authenticated.
    pub fn admit(&self) {
        if let Some(admit) = &self.0 {
            admit();
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Admission")
    }
}

/// Creates one [`Application`] per accepted connection.
pub trait ApplicationFactory: Send + Sync + 'static {
    /// The type it creates.
    type Application: Application + 'static;

    /// Called once per connection before any event. Requests sent to the engine with `mailbox` as their return
    /// address come back through [`Application::handle_output`] of the new application.
    fn accept(&self, peer: &Peer, mailbox: Mailbox) -> Self::Application;
}

/// The logic of one connection.
///
/// The driver owns the socket, the [`Connection`] and the application, and runs them in one task, in turns:
/// 1. input is fed to the connection; each event is passed to [`Self::handle_event`], in order;
/// 2. outputs of the engine, a bounded batch, are passed to [`Self::handle_output`], in the order of the mailbox;
/// 3. [`Self::handle_timeout`] when its deadline has passed;
/// 4. [`Self::end_of_turn`], once;
/// 5. the connection's output is taken for one vectored write;
/// 6. [`Self::after_transmit`], once;
/// 7. [`Self::submit_commands`], once, at the end of the turn.
///
/// No method may block or wait. The connection is changed only by these methods, through the reference they are given,
/// so an id from an event stays valid until the event that ends it (`Detached`, `SessionEnded`, `Closed`). Calls for a
/// link that no longer exists are ignored by the connection.
///
/// [`Event::Closed`] is the last call to [`Self::handle_event`] and comes exactly once for every connection, also when
/// the socket breaks or the broker stops: it is the place to close receivers. Links still attached then get no
/// `Detached` of their own. Afterwards the application is dropped; later outputs of the engine are dropped with the
/// mailbox.
pub trait Application: Send {
    /// Handles an event of the connection.
    fn handle_event(&mut self, event: Event, connection: &mut Connection, now: NowMs);

    /// Handles an output of the engine from this connection's mailbox.
    fn handle_output(&mut self, output: Output, connection: &mut Connection, now: NowMs);

    /// Called once after all events and outputs of a turn and before the turn's write: the place for work that is
    /// done per batch, such as submitting joined settlements.
    fn end_of_turn(&mut self, connection: &mut Connection, now: NowMs);

    /// Called once after the turn's output has been taken for the socket: the place to grant the engine more deliveries
    /// by [`Connection::transmitted`], and to note what was transmitted, which is no longer available once a link has
    /// ended.
    fn after_transmit(&mut self, connection: &mut Connection) {
        let _ = connection;
    }

    /// The end of a turn: sends the requests that the application has collected for the engine.
    fn submit_commands(&mut self) {}

    /// Handles the application's own deadline, which has passed. Disarm before acting.
    fn handle_timeout(&mut self, connection: &mut Connection, now: NowMs) {
        let _ = (connection, now);
    }

    /// When [`Self::handle_timeout`] is due, if ever. Queried after every turn.
    fn poll_deadline(&self) -> Option<NowMs> {
        None
    }

    /// Ready when something other than peer, engine and time calls for a turn; otherwise it must wake the context later.
    /// Polled again only after that, after it was ready, and after [`Event::Opened`].
    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let _ = context;
        Poll::Pending
    }

    /// Whether the last turn worked as long as one may. The driver then pauses, so that other tasks have their turns, and
    /// passes no outputs in the next turn: they stay in the mailbox, which is counted as memory.
    fn is_busy(&self) -> bool {
        false
    }

    /// Sets how many bytes may wait for the peer in total, including expected answers; called before each turn.
    fn set_room(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// The error of a partly received delivery that was given up because memory is short.
    fn memory_short(&mut self) -> Error {
        error(condition::RESOURCE_LIMIT_EXCEEDED, "there is no memory left for this delivery")
    }

    /// Drops the data kept for the peer beyond the turn ([`Unanswered::kept_bytes`]), because memory is short.
    fn give_up_kept(&mut self) {}

    /// Whether the peer has to authenticate and has not done so yet. Queried often; until it is false for the first
    /// time, the connection has the limits of an unauthenticated one.
    fn is_unauthenticated(&self) -> bool {
        false
    }

    /// Requests sent to the engine and not answered yet, and their bytes, beyond the unsettled deliveries that the
    /// connection counts itself ([`Connection::incoming_unsettled`]): deliveries sent settled, and requests whose
    /// transfer is already settled; and attaches that wait for a token. The driver stops reading from a peer when both
    /// together are too many.
    fn unanswered(&self) -> Unanswered {
        Unanswered::default()
    }
}

/// Requests of a peer that wait for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unanswered {
    /// Number of requests.
    pub messages: usize,
    /// Size of their payloads, in bytes.
    pub bytes: usize,
    /// Maximum size of their answers, in bytes.
    pub answer_bytes: usize,
    /// Size in bytes of data kept until the peer decides about it (messages of transactions): it counts as memory but
    /// does not stop reading.
    pub kept_bytes: usize,
}
