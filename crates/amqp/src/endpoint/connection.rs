//! The connection: its state, open and close (part 2.4).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use slab::Slab;

use super::condition::{self, Fault, error};
use super::disposition::Backlog;
use super::heartbeat::Timers;
use super::limits::FRAME_SIZE_FLOOR;
use super::link::Links;
use super::outbox::Outbox;
use super::sasl::SaslPhase;
use super::session::Session;
use super::skip::Skipped;
use super::{Config, Event, NowMs};
use crate::wire::Str;
use crate::wire::performative::{Error, Open, Performative};

/// ```text
/// server: Header ──sasl──▶ Sasl(Init) ▶ Sasl(Deciding) ▶ AmqpHeader ──▶ Opening ──open──▶ Open
///            └──────────────────────── amqp ───────────────────────────────┘
/// client: Header ──sasl──▶ Sasl(Mechanisms) ▶ Sasl(Outcome) ▶ AmqpHeader ▶ Opening ─open─▶ Open
/// Open ──our close──▶ Closing ──peer's close, end of input, time──▶ Closed ◀── errors, peer's close
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for the peer's first protocol header.
    Header,
    /// Authentication.
    Sasl(SaslPhase),
    /// Waits for the peer's AMQP header, after SASL.
    AmqpHeader,
    /// Waits for the peer's open.
    Opening,
    /// Both sides have sent their open.
    Open,
    /// Our close is queued or sent; input other than the peer's close is ignored.
    Closing,
    /// The connection has ended.
    Closed,
}

/// The side that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedBy {
    Us,
    Peer,
}

/// Limits from the peer's open.
#[derive(Debug)]
pub(super) struct PeerLimits {
    pub(super) frame_size_max: u32,
    pub(super) channel_max: u16,
}

/// One AMQP connection.
///
/// Every protocol error of a peer ends in an error frame to that peer, never in a panic. Calls that name a link,
/// session or delivery that no longer exists do nothing.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) is_client: bool,
    pub(super) hostname: Str,
    pub(super) phase: Phase,
    pub(super) open_sent: bool,
    /// Our close, not sent until queued output has been written.
    pub(super) close_due: Option<Option<Error>>,
    pub(super) close_sent: bool,
    pub(super) peer: PeerLimits,
    pub(super) sessions: Slab<Session>,
    /// Sessions that wait for the peer's end.
    pub(super) sessions_ending: usize,
    /// Session keys by the peer's channel and by ours.
    pub(super) channels_in: BTreeMap<u16, usize>,
    pub(super) channels_out: BTreeMap<u16, usize>,
    /// Channels whose session the peer has ended: later frames on them are ignored.
    pub(super) channels_ended: BTreeSet<u16>,
    pub(super) links: Links,
    pub(super) events: VecDeque<Event>,
    pub(super) outbox: Outbox,
    pub(super) timers: Timers,
    /// A transfer on a link that the upper layer has not accepted yet; no further input is handled until it has.
    pub(super) held: Option<(u16, Performative, Bytes)>,
    /// A frame whose remaining bytes are discarded as they arrive.
    pub(super) skipped: Option<Skipped>,
    /// Number of bytes that the last [`Self::handle_input`] left.
    pub(super) input_left: usize,
    /// Number of unsettled deliveries that the present [`Self::handle_input`] has visited for dispositions.
    pub(super) visits: usize,
    pub(super) backlog: Backlog,
    pub(super) reassembly_bytes: usize,
    pub(super) pending_bytes: usize,
    /// Keys of sessions that have something to send and are allowed to.
    pub(super) ready: VecDeque<usize>,
    /// Keys of sessions with settlements or flows to write.
    pub(super) dirty: Vec<usize>,
    /// Whether the limits of an unauthenticated connection apply.
    pub(super) is_limited: bool,
}

impl Connection {
    /// The accepting side.
    #[must_use]
    pub fn server(config: Config, now: NowMs) -> Self {
        Self::new(config, "", false, now)
    }

    /// The connecting side (tests, tools). Its frames are pipelined: they are sent without waiting for the peer's open.
    #[must_use]
    pub fn client(config: Config, hostname: &str, now: NowMs) -> Self {
        let mut connection = Self::new(config, hostname, true, now);
        connection.start_handshake();
        connection.send_open();
        connection
    }

    fn new(config: Config, hostname: &str, is_client: bool, now: NowMs) -> Self {
        Self {
            timers: Timers::new(&config, now),
            config,
            is_client,
            hostname: hostname.into(),
            phase: Phase::Header,
            open_sent: false,
            close_due: None,
            close_sent: false,
            peer: PeerLimits { frame_size_max: FRAME_SIZE_FLOOR, channel_max: u16::MAX },
            sessions: Slab::new(),
            sessions_ending: 0,
            channels_in: BTreeMap::new(),
            channels_ended: BTreeSet::new(),
            channels_out: BTreeMap::new(),
            links: Links::default(),
            events: VecDeque::new(),
            outbox: Outbox::default(),
            held: None,
            skipped: None,
            input_left: 0,
            visits: 0,
            backlog: Backlog::default(),
            reassembly_bytes: 0,
            pending_bytes: 0,
            ready: VecDeque::new(),
            dirty: Vec::new(),
            is_limited: false,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`Event::Closed`] has been returned or is queued.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether our close has been given out by [`Self::poll_transmit`]; nothing follows it (part 2.4.3).
    #[must_use]
    pub fn has_transmitted_close(&self) -> bool {
        self.close_sent && self.outbox.len() == 0
    }

    /// The peer closed the socket, or it broke.
    pub fn handle_end_of_input(&mut self) {
        match self.phase {
            Phase::Closed => {}
            Phase::Closing => self.finish(None, EndedBy::Us),
            _ => {
                let reason = "the peer closed the socket without closing the connection";
                self.finish(Some(error(condition::CONNECTION_FORCED, reason)), EndedBy::Peer);
            }
        }
    }

    /// Closes the connection from our side, after output that can be sent at once (settlements, deliveries within
    /// credit and window). [`Event::Closed`] follows when the peer has answered, or when the time-out for its answer
    /// has passed.
    pub fn close(&mut self, error: Option<Error>) {
        match self.phase {
            Phase::Closing | Phase::Closed => {}
            Phase::Opening | Phase::Open => {
                self.send_open();
                self.close_due = Some(error);
                self.phase = Phase::Closing;
            }
            Phase::Header | Phase::Sasl(_) | Phase::AmqpHeader => self.finish(error, EndedBy::Us),
        }
    }

    /// Closes the connection at once with an error; queued deliveries are dropped.
    pub fn abort(&mut self, error: Error) {
        self.fail(error);
    }

    pub(super) fn on_open(&mut self, open: Open) -> Result<(), Fault> {
        if self.phase != Phase::Opening {
            return Err(Fault::connection(condition::NOT_ALLOWED, "the connection is open already"));
        }
        self.phase = Phase::Open;
        self.peer = PeerLimits {
            frame_size_max: open.max_frame_size.unwrap_or(u32::MAX).max(FRAME_SIZE_FLOOR),
            channel_max: open.channel_max.unwrap_or(u16::MAX),
        };
        self.outbox.limit_frames(self.peer.frame_size_max);
        self.timers.peer_opened(open.idle_time_out_ms)?;
        let is_desired =
            |offered: &String| open.desired_capabilities.iter().any(|desired| **desired == **offered);
        self.config.offered_capabilities.retain(is_desired);
        self.send_open();
        self.events.push_back(Event::Opened(Box::new(open)));
        Ok(())
    }

    pub(super) fn on_close(&mut self, error: Option<Error>) {
        let ended_by = if self.phase == Phase::Closing { EndedBy::Us } else { EndedBy::Peer };
        self.close_due = None;
        if !self.close_sent {
            self.send_open();
            self.flush_settlements();
            self.send_close(None);
        }
        self.finish(error, ended_by);
    }

    /// Closes the connection because of an error, ours or the peer's, without waiting for an answer.
    pub(super) fn fail(&mut self, error: Error) {
        if matches!(self.phase, Phase::Opening | Phase::Open | Phase::Closing) && !self.close_sent {
            self.send_open();
            self.send_close(Some(error.clone()));
        }
        self.finish(Some(error), EndedBy::Us);
    }

    /// Ends the connection: drops all state except the bytes still to be written.
    pub(super) fn finish(&mut self, error: Option<Error>, ended_by: EndedBy) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.close_due = None;
        self.held = None;
        self.skipped = None;
        self.sessions = Slab::new();
        self.links = Links::default();
        self.channels_in.clear();
        self.channels_out.clear();
        self.ready.clear();
        self.dirty.clear();
        self.pending_bytes = 0;
        self.reassembly_bytes = 0;
        self.backlog = Backlog::default();
        self.events.push_back(Event::Closed { error, by_peer: ended_by == EndedBy::Peer });
    }

    /// Queues our open unless that has been done.
    pub(super) fn send_open(&mut self) {
        if std::mem::replace(&mut self.open_sent, true) {
            return;
        }
        let open = Open {
            container_id: self.config.container_id.as_str().into(),
            hostname: self.is_client.then(|| self.hostname.clone()),
            max_frame_size: Some(self.announced_frame_size_max()),
            channel_max: Some(self.config.channel_max),
            idle_time_out_ms: self.timers.announced_idle_ms,
            offered_capabilities: self
                .config
                .offered_capabilities
                .iter()
                .map(|one| one.as_str().into())
                .collect(),
            ..Open::default()
        };
        self.outbox.frame(0, &Performative::Open(open));
    }

    /// The largest frame that we announce, in bytes: no more than the peer accepts, if that is known. Service Bus answers the
    /// same (smallrye-reactive-messaging 987), and uamqp can't encode frames larger than those it accepts.
    fn announced_frame_size_max(&self) -> u32 {
        let configured = self.config.max_frame_size.max(FRAME_SIZE_FLOOR);
        match self.phase {
            Phase::Open => configured.min(self.peer.frame_size_max),
            _ => configured,
        }
    }

    pub(super) fn send_close(&mut self, error: Option<Error>) {
        self.close_sent = true;
        self.outbox.frame(0, &Performative::Close(error));
    }

    /// Whether frames may still be queued.
    pub(super) fn can_send_frames(&self) -> bool {
        !self.close_sent && self.phase != Phase::Closed
    }

    /// Marks a session as having settlements or flows to write.
    pub(super) fn mark_dirty(&mut self, key: usize) {
        if let Some(session) = self.sessions.get_mut(key)
            && !std::mem::replace(&mut session.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    /// Whether [`Self::handle_input`] could continue with the rest of `input` without more bytes: it stops early when
    /// too many events or too much output is queued, after much work, and while it needs an answer from the upper layer.
    #[must_use]
    pub fn has_input_work(&self, input: &BytesMut) -> bool {
        self.accepts_input() && (self.held.is_some() || self.is_frame_complete(input))
    }
}
