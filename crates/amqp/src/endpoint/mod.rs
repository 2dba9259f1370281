//! AMQP 1.0 as a pure state machine: bytes and time go in; bytes, events and a deadline come out.
//!
//! Nothing here knows sockets, tasks, the engine or Service Bus. Both roles are served, so two endpoints can be
//! pumped into each other in a test. The five verbs: [`Connection::handle_input`],
//! [`Connection::handle_timeout`], [`Connection::poll_transmit`], [`Connection::poll_event`],
//! [`Connection::poll_deadline`].
//!
//! Which file knows which frame: protocol headers and SASL `sasl`, open and close `connection`, begin and end
//! `session`, attach and detach `attach`, transfers in `link_in`, transfers out `transmit`, flow `session` and then
//! `link_in` or `link_out`, disposition `disposition`, the empty frame `heartbeat`. A peer's mistake is a
//! [`condition`] error that ends the link, the session or the connection; nothing a peer sends panics.

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
    /// Counts the link's deliveries in the order of [`Connection::send`], from 0, and wraps. It is not the number
    /// on the wire: that is given when the delivery leaves, because peers want it consecutive per session.
    pub delivery_id: u32,
}

/// The tag of a delivery we sent: a lock token in .NET GUID byte order.
pub type DeliveryTag = [u8; 16];

/// Limits and identity of one connection.
///
/// Memory per connection is bounded by these limits: partly received deliveries by `reassembly_bytes_max`, links
/// and sessions by their numbers (some hundred bytes each), frames to write by a constant, and messages to send by
/// what the upper layer queues. Deliveries waiting for their outcome are counted by
/// [`Connection::incoming_unsettled`]; the driver stops reading.
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
    /// What we offer to peers that desire it (AMQP 1.0, 2.7.1).
    pub offered_capabilities: Vec<String>,
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
        tag: Tag,
        /// Nothing to settle.
        settled: bool,
        /// From the transfer.
        message_format: u32,
        /// From the transfer (transactional work).
        state: Option<Box<DeliveryState>>,
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
    /// seen by an upper layer that settles at once.
    Settled {
        /// Which.
        id: IncomingId,
        /// The sender's state.
        state: Option<DeliveryState>,
    },
    /// The sender answered an outcome announced with [`Connection::update_incoming`] and has not settled (work of a
    /// transaction); never seen by an upper layer that settles at once.
    Updated {
        /// Which.
        id: IncomingId,
        /// The sender's state.
        state: DeliveryState,
    },
    /// The sender answered a drain that [`Connection::set_credit`] asked for: what it had is here.
    Drained {
        /// Which.
        link: LinkId,
    },
    /// The peer ended a link whose end waits for the upper layer ([`Connection::hold_end`]): [`Connection::release_end`] answers.
    Ending {
        /// Which.
        link: LinkId,
        /// Whether it is closed rather than suspended.
        closed: bool,
    },
    /// The peer, or the endpoint because of a mistake of the peer, ended a link.
    Detached {
        /// Which; already answered and forgotten.
        link: LinkId,
        /// Whether it is closed rather than suspended.
        closed: bool,
        /// The reason, the peer's or ours.
        error: Option<Error>,
    },
    /// The peer, or the endpoint because of a mistake of the peer, ended a session; its links are gone
    /// ([`Event::Detached`] came first for each).
    SessionEnded {
        /// Its channel as used in [`Event::Attach`].
        session: u16,
    },
    /// The connection is over: no further event, and all links are gone without one of their own. What [`Connection::poll_transmit`] still gives is to be written,
    /// then the socket closed.
    Closed {
        /// The reason, ours or the peer's.
        error: Option<Error>,
        /// Whether the peer sent it.
        by_peer: bool,
    },
}

impl Default for Config {
    /// What a broker would choose: frames of 256 KiB (Azure's Standard tier), sessions and links in the thousands
    /// (.NET and Java open an AMQP session per link), two minutes until a silent peer is cut off.
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
