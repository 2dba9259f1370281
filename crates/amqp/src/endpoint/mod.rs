//! AMQP 1.0 as a pure state machine: bytes and time go in; bytes, events and a deadline come out.
//!
//! Nothing here knows sockets, tasks, the engine or Service Bus. Both roles are served, so two endpoints can be
//! pumped into each other in a test. The five verbs: [`Connection::handle_input`],
//! [`Connection::handle_timeout`], [`Connection::poll_transmit`], [`Connection::poll_event`],
//! [`Connection::poll_deadline`].

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::wire::performative::{Attach, DeliveryState, Error, Open};

/// Milliseconds on any clock that never goes back.
pub type NowMs = u64;

/// Names a link for the life of a connection; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A delivery we received; settle it with [`Connection::settle_incoming`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IncomingId {
    /// The link.
    pub link: LinkId,
    /// The peer's delivery-id.
    pub delivery_id: u32,
}

/// A delivery we sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutgoingId {
    /// The link.
    pub link: LinkId,
    /// Our delivery-id.
    pub delivery_id: u32,
}

/// The tag of a delivery we sent: a lock token in .NET GUID byte order.
pub type DeliveryTag = [u8; 16];

/// Limits and identity of one connection.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our container-id.
    pub container_id: String,
    /// Largest frame we accept, in bytes; at least 512.
    pub max_frame_size: u32,
    /// Highest channel number we accept.
    pub channel_max: u16,
    /// We close a peer silent for this long (twice what we announce); `None` waits forever.
    pub idle_time_out_ms: Option<u32>,
    /// Mechanisms we offer, in order; empty means a client without SASL is expected.
    pub sasl_mechanisms: Vec<String>,
    /// Whether a peer may skip SASL.
    pub sasl_optional: bool,
    /// Links per connection.
    pub links_max: usize,
    /// Sessions per connection.
    pub sessions_max: usize,
    /// Sum of partly received deliveries per connection, in bytes.
    pub reassembly_bytes_max: usize,
    /// Incoming window we announce per session, in transfer frames.
    pub incoming_window: u32,
    /// A peer that has not opened the connection by then is cut off, in milliseconds.
    pub open_time_out_ms: u64,
}

/// A message to send.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// At most 16 bytes here, always exactly a GUID.
    pub tag: DeliveryTag,
    /// Sent settled: no outcome is awaited.
    pub settled: bool,
    /// 0 for a plain message.
    pub message_format: u32,
    /// The encoded message in up to a few slices: fresh header and annotations, then the sections as stored.
    pub payload: SmallVec<[Bytes; 3]>,
}

/// What happened at the peer.
#[derive(Debug)]
pub enum Event {
    /// The peer chose a SASL mechanism; answer with [`Connection::sasl_outcome`].
    Authenticate {
        /// As the peer wrote it.
        mechanism: String,
        /// PLAIN: `\0user\0password`.
        initial_response: Option<Bytes>,
    },
    /// The peer's open arrived; ours is sent by itself.
    Opened(Box<Open>),
    /// The peer wants a link; answer with [`Connection::accept_attach`] or [`Connection::refuse_attach`], at once
    /// or later. As initiator: the peer's answer to our attach.
    Attach {
        /// The new link.
        link: LinkId,
        /// Which AMQP session it lives on.
        session: u16,
        /// As the peer sent it.
        attach: Box<Attach>,
    },
    /// A complete delivery.
    Message {
        /// What to settle.
        id: IncomingId,
        /// The sender's tag.
        tag: Bytes,
        /// Nothing to settle.
        settled: bool,
        /// From the transfer.
        message_format: u32,
        /// From the transfer (transactional work).
        state: Option<DeliveryState>,
        /// All frames joined; a slice of the input when there was one frame.
        payload: Bytes,
    },
    /// The peer wants more or fewer deliveries on a link we send on.
    Credit {
        /// Which.
        link: LinkId,
        /// Total deliveries since attach up to which it will take them.
        limit: u64,
        /// Deliver what there is, then call [`Connection::drained`].
        drain: bool,
    },
    /// The peer took a stand on deliveries we sent: consecutive ids of one link that are still unsettled.
    Disposition {
        /// Which link.
        link: LinkId,
        /// First id.
        first: u32,
        /// The tags in delivery-id order, without gaps from `first`.
        tags: SmallVec<[DeliveryTag; 1]>,
        /// The outcome, if any.
        state: Option<DeliveryState>,
        /// The peer has forgotten the deliveries; no answer is expected and ours are forgotten too.
        settled: bool,
    },
    /// The peer's stand on deliveries we sent as initiator or sender is final (client role and tests).
    /// The peer settled or changed the state of something we received: nothing to do for a broker.
    Detached {
        /// Which; already answered and forgotten.
        link: LinkId,
        /// Whether the peer closed rather than suspended it.
        closed: bool,
        /// The peer's reason.
        error: Option<Error>,
    },
    /// A session ended; its links are gone ([`Event::Detached`] came first for each).
    SessionEnded {
        /// Its channel as used in [`Event::Attach`].
        session: u16,
    },
    /// The connection is over: no further event. What [`Connection::poll_transmit`] still gives is to be written,
    /// then the socket closed.
    Closed {
        /// The reason, ours or the peer's.
        error: Option<Error>,
        /// Whether the peer sent it.
        by_peer: bool,
    },
}

/// One AMQP connection.
///
/// Everything a peer can do wrong ends in an error frame to that peer, never in a panic.
#[derive(Debug)]
pub struct Connection {}

#[allow(unused_variables)] // signatures only; the endpoint's author replaces this file
impl Connection {
    /// The accepting side.
    #[must_use]
    pub fn server(config: Config, now: NowMs) -> Self {
        unimplemented!()
    }

    /// The connecting side (tests, tools).
    #[must_use]
    pub fn client(config: Config, hostname: &str, now: NowMs) -> Self {
        unimplemented!()
    }

    /// Takes complete frames out of `input`; leaves the rest. May stop early when an internal queue is full: call
    /// again after draining events and output.
    pub fn handle_input(&mut self, input: &mut BytesMut, now: NowMs) {
        unimplemented!()
    }

    /// The peer closed the socket.
    pub fn handle_end_of_input(&mut self) {
        unimplemented!()
    }

    /// To be called at [`Self::poll_deadline`]: heartbeats, idle peers.
    pub fn handle_timeout(&mut self, now: NowMs) {
        unimplemented!()
    }

    /// Appends bytes to write to `output` in order, until about `bytes_max` are there or nothing is left. Small
    /// frames are joined; large payloads stay slices.
    pub fn poll_transmit(&mut self, output: &mut Vec<Bytes>, bytes_max: usize, now: NowMs) {
        unimplemented!()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        unimplemented!()
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<NowMs> {
        unimplemented!()
    }

    /// Answers [`Event::Authenticate`].
    pub fn sasl_outcome(&mut self, accepted: bool) {
        unimplemented!()
    }

    /// Answers an attach. `reply` is what the peer shall see; name, handle and role are filled in. A link on
    /// which we receive gets `credit` at once.
    pub fn accept_attach(&mut self, link: LinkId, reply: Attach, credit: u32) {
        unimplemented!()
    }

    /// Refuses an attach: attach with a null terminus and a closing detach with the error, back to back.
    pub fn refuse_attach(&mut self, link: LinkId, error: Error) {
        unimplemented!()
    }

    /// Queues a delivery; it leaves when link credit and session window allow. `None` when the link is gone.
    pub fn send(&mut self, link: LinkId, message: Outgoing) -> Option<OutgoingId> {
        unimplemented!()
    }

    /// Deliveries of this link handed to [`Self::poll_transmit`]'s output so far (number, payload bytes): the
    /// measure for granting the engine more.
    #[must_use]
    pub fn transmitted(&self, link: LinkId) -> (u64, u64) {
        unimplemented!()
    }

    /// Payload bytes queued by [`Self::send`] and not yet transmitted, over all links.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        unimplemented!()
    }

    /// Deliveries that peers sent unsettled and that [`Self::settle_incoming`] has not settled yet (number, payload
    /// bytes), over all links. The measure for a driver to stop reading.
    #[must_use]
    pub fn incoming_unsettled(&self) -> (usize, usize) {
        unimplemented!()
    }

    /// Settles a delivery we received; neighbours with equal state are joined into one frame. Credit on links we
    /// receive on is topped up by itself as deliveries are settled.
    pub fn settle_incoming(&mut self, id: IncomingId, state: DeliveryState) {
        unimplemented!()
    }

    /// Settles a delivery we sent, telling the peer its final state.
    pub fn settle_outgoing(&mut self, id: OutgoingId, state: DeliveryState) {
        unimplemented!()
    }

    /// Answers a drain: advances the delivery-count over the unused credit and tells the peer.
    pub fn drained(&mut self, link: LinkId) {
        unimplemented!()
    }

    /// Closes a link from our side.
    pub fn detach(&mut self, link: LinkId, error: Option<Error>) {
        unimplemented!()
    }

    /// Closes the connection from our side; queued output still leaves first.
    pub fn close(&mut self, error: Option<Error>) {
        unimplemented!()
    }
}
