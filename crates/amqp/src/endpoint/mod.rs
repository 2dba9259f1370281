//! AMQP 1.0 as a pure state machine: bytes and time go in; bytes, events and a deadline come out.
//!
//! Nothing here knows sockets, tasks, the engine or Service Bus. Both roles are implemented, so tests can connect two
//! endpoints in memory. The five operations: [`Connection::handle_input`], [`Connection::handle_timeout`],
//! [`Connection::poll_transmit`], [`Connection::poll_event`], [`Connection::poll_deadline`].
//!
//! Files by frame: protocol headers and SASL `sasl`, open and close `connection`, begin and end `session`, attach and
//! detach `attach`, incoming transfers `link_in`, outgoing transfers `transmit`, flow `session` and then `link_in` or
//! `link_out`, disposition `disposition`, the empty frame `heartbeat`. A peer's protocol error is a [`condition`] error
//! that ends the link, the session or the connection; no input panics.

pub mod condition;

mod attach;
mod connection;
mod disposition;
mod figures;
mod frames_in;
mod heartbeat;
mod initiator;
mod leaving;
mod limits;
mod link;
mod link_in;
mod link_out;
mod outbox;
mod reassembly;
mod sasl;
mod session;
mod settlements;
mod skip;
#[cfg(test)]
mod tests;
mod transmit;
mod unauthenticated;
mod unsettled;

use bytes::Bytes;
use smallvec::SmallVec;

pub use connection::Connection;
pub use figures::LinkFigures;
pub use leaving::Withdrawn;

use crate::wire::performative::{Attach, DeliveryState, Error, Open, Tag};

/// Milliseconds on any monotonic clock.
pub type NowMs = u64;

/// Identifies a link for the life of a connection; never reused.
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
    /// Counts the link's deliveries in the order of [`Connection::send`], from 0, and wraps. It is not the delivery-id
    /// on the wire: that is assigned when the delivery is sent, because peers require it to be consecutive per session.
    pub delivery_id: u32,
}

impl OutgoingId {
    /// This delivery and those after it on its link.
    pub fn onwards(self) -> impl Iterator<Item = Self> {
        (0..).map(move |ahead| Self { delivery_id: self.delivery_id.wrapping_add(ahead), ..self })
    }
}

/// The tag of a delivery we sent: a lock token in .NET GUID byte order.
pub type DeliveryTag = [u8; 16];

/// Limits and identity of one connection.
///
/// Memory per connection is bounded by these limits: partly received deliveries by `reassembly_bytes_max`, links and
/// sessions by their numbers (some hundred bytes each), frames to write by a constant, and messages to send by the
/// amount the upper layer queues. Deliveries waiting for their outcome are counted by
/// [`Connection::incoming_unsettled`]; the driver stops reading when there are too many.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our container-id.
    pub container_id: String,
    /// Largest frame we accept, in bytes; at least 512.
    pub max_frame_size: u32,
    /// Highest channel number we accept.
    pub channel_max: u16,
    /// Silence after which we close the connection (twice what we announce); `None` for no limit.
    pub idle_time_out_ms: Option<u32>,
    /// Mechanisms we offer, in order; empty if clients have to connect without SASL.
    pub sasl_mechanisms: Vec<String>,
    /// Whether a peer may skip SASL.
    pub sasl_optional: bool,
    /// Links per connection.
    pub links_max: usize,
    /// Sessions per connection.
    pub sessions_max: usize,
    /// Total bytes of partly received deliveries per connection.
    pub reassembly_bytes_max: usize,
    /// Incoming window we announce per session, in transfer frames.
    pub incoming_window: u32,
    /// Capabilities we offer to peers that desire them (AMQP 1.0, 2.7.1).
    pub offered_capabilities: Vec<String>,
    /// Time in milliseconds after which a peer that has not opened the connection is disconnected.
    pub open_time_out_ms: u64,
}

/// A message to send.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The tag on the wire is empty without one, which is allowed if the delivery is sent settled.
    pub tag: Option<DeliveryTag>,
    /// Sent settled: no outcome is awaited.
    pub settled: bool,
    /// 0 for a plain message.
    pub message_format: u32,
    /// The encoded message in up to a few slices: fresh header and annotations, then the sections as stored.
    pub payload: SmallVec<[Bytes; 3]>,
}

/// Something that happened on the connection.
#[derive(Debug)]
pub enum Event {
    /// The peer chose a SASL mechanism; answer with [`Connection::sasl_outcome`].
    Authenticate {
        /// As sent by the peer.
        mechanism: String,
        /// PLAIN: `\0user\0password`.
        initial_response: Option<Bytes>,
    },
    /// The peer's open arrived; ours is sent automatically.
    Opened(Box<Open>),
    /// The peer requests a link; answer with [`Connection::accept_attach`] or [`Connection::refuse_attach`], at once or
    /// later. On the initiating side: the peer's answer to our attach.
    Attach {
        /// The new link.
        link: LinkId,
        /// The AMQP session of the link.
        session: u16,
        /// As sent by the peer.
        attach: Box<Attach>,
    },
    /// A complete delivery.
    Message {
        /// The delivery to settle.
        id: IncomingId,
        /// The sender's tag.
        tag: Tag,
        /// Whether it was sent settled, so that there is nothing to settle.
        settled: bool,
        /// From the transfer.
        message_format: u32,
        /// From the transfer: the id of its transaction. Other states of a sender have no effect and are dropped.
        state: Option<Box<DeliveryState>>,
        /// All frames joined; a slice of the input when there was one frame.
        payload: Bytes,
    },
    /// The endpoint refused a delivery of a transaction: it was too large, or memory was short. Its outcome is sent.
    Refused {
        /// The id of the transaction.
        txn_id: Bytes,
        /// The reason.
        error: Error,
    },
    /// The peer changed the credit of a link we send on.
    Credit {
        /// The link.
        link: LinkId,
        /// Total deliveries since attach that the credit allows.
        limit: u64,
        /// Deliver the available messages, then call [`Connection::drained`].
        drain: bool,
    },
    /// The peer changed the state of deliveries we sent: consecutive ids of one link that are still unsettled.
    Disposition {
        /// The link.
        link: LinkId,
        /// The `delivery_id` of the first one's [`OutgoingId`].
        first: u32,
        /// The tags in delivery-id order, without gaps from `first`.
        tags: SmallVec<[DeliveryTag; 1]>,
        /// The outcome, if any.
        state: Option<DeliveryState>,
        /// The peer has forgotten the deliveries; no answer is expected and ours are forgotten too.
        settled: bool,
    },
    /// The sender settled a delivery whose outcome we had announced with [`Connection::update_incoming`]; never
    /// received by an upper layer that settles at once.
    Settled {
        /// The delivery.
        id: IncomingId,
        /// The sender's state.
        state: Option<DeliveryState>,
    },
    /// The sender answered an outcome announced with [`Connection::update_incoming`] and has not settled (part of a
    /// transaction); never received by an upper layer that settles at once.
    Updated {
        /// The delivery.
        id: IncomingId,
        /// The sender's state.
        state: DeliveryState,
    },
    /// The sender answered a drain requested by [`Connection::set_credit`]: all messages it had have arrived.
    Drained {
        /// The link.
        link: LinkId,
    },
    /// The peer ended a link whose end the upper layer answers ([`Connection::hold_end`]), by
    /// [`Connection::release_end`].
    Ending {
        /// The link.
        link: LinkId,
        /// Whether it is closed rather than suspended.
        closed: bool,
    },
    /// A link ended: by the peer, or by the endpoint because of a protocol error.
    Detached {
        /// The link; the detach has been answered and the link's state dropped.
        link: LinkId,
        /// Whether it is closed rather than suspended.
        closed: bool,
        /// The reason, the peer's or ours.
        error: Option<Error>,
    },
    /// A session ended: by the peer, or by the endpoint because of a protocol error. Its links have ended too
    /// ([`Event::Detached`] came first for each).
    SessionEnded {
        /// Its channel as used in [`Event::Attach`].
        session: u16,
    },
    /// The connection has ended: no further event follows, and all links have ended without events of their own. The
    /// remaining output of [`Connection::poll_transmit`] is to be written, then the socket closed.
    Closed {
        /// The reason, ours or the peer's.
        error: Option<Error>,
        /// Whether the peer sent it.
        by_peer: bool,
    },
}

impl Default for Config {
    /// Values for a broker: frames of 256 KiB (Azure's Standard tier), sessions and links in the thousands (.NET and
    /// Java open an AMQP session per link), two minutes until a silent peer is disconnected.
    fn default() -> Self {
        Self {
            container_id: "peeklock".to_owned(),
            max_frame_size: 256 * 1024,
            channel_max: 8_191,
            idle_time_out_ms: Some(120_000),
            sasl_mechanisms: ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"].map(str::to_owned).to_vec(),
            sasl_optional: false,
            links_max: 20_000,
            sessions_max: 8_192,
            reassembly_bytes_max: 32 * 1024 * 1024,
            incoming_window: 65_536,
            offered_capabilities: Vec::new(),
            open_time_out_ms: 30_000,
        }
    }
}
