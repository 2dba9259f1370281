//! What a connection's driver calls: the face between sockets and the Service Bus dialect.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use peeklock_connections::Transport;
use peeklock_engine::runtime::{Mailbox, Output};

use crate::endpoint::condition::{self, error};
use crate::endpoint::{Connection, Event, NowMs};
use crate::wire::performative::Error;

/// Who is at the other end of a socket.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Where the peer connects from; `None` where there is no such thing (tests in memory).
    pub address: Option<SocketAddr>,
    /// How the bytes come.
    pub transport: Transport,
    /// Whether the bytes came through TLS.
    pub encrypted: bool,
    /// The subject of the client certificate that TLS verified, if there was one.
    pub certificate: Option<Arc<str>>,
    /// To be told once the peer has shown who it is.
    pub admission: Admission,
}

/// How the acceptor of a connection learns that it is authenticated: unauthenticated ones are limited in number and time.
#[derive(Clone, Default)]
pub struct Admission(Option<Arc<dyn Fn() + Send + Sync>>);

impl Admission {
    /// Calls `admit`, perhaps more than once.
    #[must_use]
    pub fn new(admit: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(admit)))
    }

    /// The peer has shown who it is.
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

/// Makes one [`Application`] per accepted connection.
pub trait ApplicationFactory: Send + Sync + 'static {
    /// What it makes.
    type Application: Application + 'static;

    /// Called once per connection before any event. Requests sent to the engine with `mailbox` as their return
    /// address come back through [`Application::handle_output`] of the new application.
    fn accept(&self, peer: &Peer, mailbox: Mailbox) -> Self::Application;
}

/// The logic of one connection.
///
/// The driver owns the socket, the [`Connection`] and the application, and runs them in one task, in turns:
/// 1. input is fed to the connection; each event goes to [`Self::handle_event`], in order;
/// 2. outputs of the engine, a bounded batch, go to [`Self::handle_output`], in the order of the mailbox;
/// 3. [`Self::handle_timeout`] when its deadline has passed;
/// 4. [`Self::end_of_turn`], once;
/// 5. what the connection has to say is taken for one vectored write;
/// 6. [`Self::after_transmit`], once;
/// 7. [`Self::hand_over`], once, after whatever else happened.
///
/// No method may block or wait. A method changes the connection through the reference it is given and nothing else
/// does, so an id that came with an event stays valid until the event that ends it (`Detached`, `SessionEnded`,
/// `Closed`). Calls for a link that is gone are ignored by the connection.
///
/// [`Event::Closed`] is the last call to [`Self::handle_event`] and comes exactly once for every connection, also
/// when the socket breaks or the broker stops: it is the place to close receivers. Links still attached at that
/// moment get no `Detached` of their own. Afterwards the application is dropped; what the engine still answers is
/// dropped with the mailbox.
pub trait Application: Send {
    /// Something happened at the peer.
    fn handle_event(&mut self, event: Event, connection: &mut Connection, now: NowMs);

    /// The engine said something to this connection's mailbox.
    fn handle_output(&mut self, output: Output, connection: &mut Connection, now: NowMs);

    /// Called once after all events and outputs of a turn and before the turn's write: the place for work that is
    /// done per batch, such as submitting joined settlements.
    fn end_of_turn(&mut self, connection: &mut Connection, now: NowMs);

    /// Called once when what may leave has left the connection for the socket: the place to grant the engine more
    /// deliveries by [`Connection::transmitted`], and to note what was transmitted, which a link that is gone can't
    /// tell any more.
    fn after_transmit(&mut self, connection: &mut Connection) {
        let _ = connection;
    }

    /// The turn is over: what the application still keeps for the engine goes on its way.
    fn hand_over(&mut self) {}

    /// The application's own deadline has passed. Disarm before acting.
    fn handle_timeout(&mut self, connection: &mut Connection, now: NowMs) {
        let _ = (connection, now);
    }

    /// When [`Self::handle_timeout`] is due, if ever. Asked after every turn.
    fn poll_deadline(&self) -> Option<NowMs> {
        None
    }

    /// Ready when something beside peer, engine and time calls for a turn; asked when nothing else is going on, and must
    /// then wake the context later.
    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let _ = context;
        Poll::Pending
    }

    /// How many bytes may wait for the peer in all, answers under way included; said before each turn.
    fn set_room(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// The error of a delivery that was given up half-received because memory is short.
    fn memory_short(&mut self) -> Error {
        error(condition::RESOURCE_LIMIT_EXCEEDED, "there is no memory left for this delivery")
    }

    /// Lets go of what it keeps for the peer beyond the turn ([`Unanswered::kept_bytes`]), because memory is short.
    fn give_up_kept(&mut self) {}

    /// Whether the peer has to authenticate and has not done so yet. Asked often; until it is false for the first time, the
    /// connection has the limits of an unauthenticated one.
    fn is_unauthenticated(&self) -> bool {
        false
    }

    /// Requests sent to the engine and not answered yet, and their bytes, beyond the unsettled deliveries that the
    /// connection counts by itself ([`Connection::incoming_unsettled`]): deliveries that came settled, requests
    /// whose transfer is settled already. The driver stops reading from a peer that has too much of both.
    fn unanswered(&self) -> Unanswered {
        Unanswered::default()
    }
}

/// Work of a peer that waits for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unanswered {
    /// How many.
    pub messages: usize,
    /// Their payloads, in bytes.
    pub bytes: usize,
    /// What their answers may take, in bytes.
    pub answer_bytes: usize,
    /// What is kept until the peer says what becomes of it (messages of transactions), in bytes: it counts as memory, and
    /// reading goes on in spite of it.
    pub kept_bytes: usize,
}
