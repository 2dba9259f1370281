//! Sessions: begin, end, windows (part 2.5).

use std::collections::{BTreeMap, VecDeque};

use slab::Slab;

use super::condition::{self, Fault};
use super::connection::Connection;
use super::disposition::{IncomingSlot, OutgoingSlot};
use super::limits::{OUTGOING_WINDOW, UNSETTLED_OUTGOING_MAX};
use super::link::{Link, LinkPhase, Side};
use super::settlements::Settlements;
use super::unsettled::SerialWindow;
use super::{Event, LinkId};
use crate::wire::performative::{Begin, Error, Flow, Performative};

/// Highest handle a peer may use on a session.
pub(super) const HANDLE_MAX: u32 = 65_535;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionPhase {
    /// Our begin waits for the peer's.
    Offered,
    /// Both have begun.
    Begun,
    /// Our end is sent; frames from before the peer's end are ignored.
    Ending,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) phase: SessionPhase,
    /// Distinguishes sessions that have used the same key.
    pub(super) number: u64,
    pub(super) channel_out: u16,
    pub(super) channel_in: Option<u16>,
    next_incoming_id: u32,
    /// Transfer frames the peer may still send before we widen its window.
    incoming_window_left: u32,
    incoming_window: u32,
    pub(super) next_outgoing_id: u32,
    /// Transfer frames we may still send.
    pub(super) outgoing_window_left: u32,
    pub(super) peer_handle_max: u32,
    /// Link keys by our handle and by the peer's.
    pub(super) handles_out: Slab<usize>,
    pub(super) handles_in: BTreeMap<u32, usize>,
    /// Deliveries we sent, by delivery-id.
    pub(super) outgoing: SerialWindow<OutgoingSlot>,
    /// Deliveries we received, by the peer's delivery-id.
    pub(super) incoming: SerialWindow<IncomingSlot>,
    /// Keys of links with something to send.
    pub(super) ready: VecDeque<usize>,
    /// In the connection's list of ready sessions.
    pub(super) scheduled: bool,
    /// In the connection's list of dirty sessions.
    pub(super) dirty: bool,
    pub(super) flow_due: bool,
    /// Keys of links that owe a flow.
    pub(super) flows_due: Vec<usize>,
    /// Settlements of deliveries we sent, and of those we received, to be joined.
    pub(super) settled_outgoing: Settlements,
    pub(super) settled_incoming: Settlements,
    /// Transfer frames for which links have reserved room in the peer's window.
    pub(super) reserved_frames: u32,
}

impl Session {
    fn new(number: u64, channel_out: u16, incoming_window: u32) -> Self {
        Self {
            phase: SessionPhase::Offered,
            number,
            channel_out,
            channel_in: None,
            next_incoming_id: 0,
            incoming_window_left: incoming_window,
            incoming_window,
            next_outgoing_id: 0,
            outgoing_window_left: 0,
            peer_handle_max: u32::MAX,
            handles_out: Slab::new(),
            handles_in: BTreeMap::new(),
            outgoing: SerialWindow::new(0),
            incoming: SerialWindow::new(0),
            ready: VecDeque::new(),
            scheduled: false,
            dirty: false,
            flow_due: false,
            flows_due: Vec::new(),
            settled_outgoing: Settlements::default(),
            settled_incoming: Settlements::default(),
            reserved_frames: 0,
        }
    }

    fn begun(&mut self, channel_in: u16, begin: &Begin) {
        self.phase = SessionPhase::Begun;
        self.channel_in = Some(channel_in);
        self.next_incoming_id = begin.next_outgoing_id;
        self.outgoing_window_left = begin.incoming_window;
        self.peer_handle_max = begin.handle_max.unwrap_or(u32::MAX);
    }

    fn begin_frame(&self) -> Performative {
        Performative::Begin(Begin {
            remote_channel: self.channel_in,
            next_outgoing_id: self.next_outgoing_id,
            incoming_window: self.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: Some(HANDLE_MAX),
            properties: Vec::new(),
        })
    }

    /// Whether the window and the number of unsettled deliveries allow another transfer frame.
    pub(super) fn may_transmit(&self) -> bool {
        self.outgoing_window_left > 0
            && self.phase == SessionPhase::Begun
            && self.outgoing.len() < UNSETTLED_OUTGOING_MAX
    }

    /// Counts a transfer frame of the peer; the window is widened before it is used up. Exceeding the window is no
    /// error: Python counts deliveries where the specification counts frames.
    pub(super) fn count_transfer_in(&mut self) {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        self.incoming_window_left = self.incoming_window_left.saturating_sub(1);
        if self.incoming_window_left <= self.incoming_window / 2 {
            self.flow_due = true;
        }
    }

    /// Applies the session part of a flow (part 2.5.6).
    fn on_flow(&mut self, flow: &Flow) {
        self.next_incoming_id = flow.next_outgoing_id;
        // Absent until the peer has seen our begin: it has received nothing yet. Our first transfer-id is 0.
        let arrived = flow.next_incoming_id.unwrap_or(0);
        let on_the_way = serial_distance(arrived, self.next_outgoing_id);
        self.outgoing_window_left = flow.incoming_window.saturating_sub(on_the_way);
    }

    /// A flow with the state of the session and of one link. Widens the peer's incoming window.
    pub(super) fn flow_frame(&mut self, link: Option<&Link>) -> Flow {
        self.incoming_window_left = self.incoming_window;
        self.flow_due = false;
        let mut flow = Flow {
            next_incoming_id: self.channel_in.map(|_| self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        };
        if let Some(link) = link {
            flow.handle = Some(link.handle_out);
            match &link.side {
                Side::In(side) => side.fill_flow(&mut flow),
                Side::Out(side) => side.fill_flow(&mut flow),
            }
        }
        flow
    }
}

/// How far `to` is ahead of `from`; 0 when it is behind (RFC 1982).
pub(super) fn serial_distance(from: u32, to: u32) -> u32 {
    let distance = to.wrapping_sub(from);
    if distance > u32::MAX / 2 { 0 } else { distance }
}

/// Maximum number of remembered channels whose session the peer has ended.
const CHANNELS_ENDED_MAX: usize = 1024;

impl Connection {
    pub(super) fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<(), Fault> {
        if channel > self.config.channel_max {
            let reason = format!("channel {channel} is above the limit of {}", self.config.channel_max);
            return Err(Fault::connection(condition::FRAMING_ERROR, reason));
        }
        if self.channels_in.contains_key(&channel) {
            let reason = format!("a session has begun on channel {channel} already");
            return Err(Fault::connection(condition::NOT_ALLOWED, reason));
        }
        let key = match begin.remote_channel {
            Some(channel_out) => self.offered_session(channel_out)?,
            None => {
                let channel_out = self.free_channel(channel).ok_or_else(|| {
                    Fault::connection(condition::RESOURCE_LIMIT_EXCEEDED, "the peer's channel-max is used up")
                })?;
                self.add_session(channel_out)
            }
        };
        self.channels_in.insert(channel, key);
        self.channels_ended.remove(&channel);
        let Some(session) = self.sessions.get_mut(key) else { return Ok(()) };
        session.begun(channel, begin);
        if begin.remote_channel.is_none() {
            self.outbox.frame(session.channel_out, &session.begin_frame());
        }
        if self.sessions.len() - self.sessions_ending > self.sessions_max() {
            let reason = format!("at most {} sessions per connection", self.sessions_max());
            let error = condition::error(condition::RESOURCE_LIMIT_EXCEEDED, reason);
            self.end_session(key, Some(error), false);
        }
        Ok(())
    }

    /// Client: begins a session without waiting for the answer; returns its channel, or `None` when no channel is free
    /// or the connection is closing.
    pub fn begin(&mut self) -> Option<u16> {
        if !self.can_send_frames() || self.close_due.is_some() {
            return None;
        }
        let channel = self.free_channel(0)?;
        let key = self.add_session(channel);
        let session = self.sessions.get(key)?;
        self.outbox.frame(channel, &session.begin_frame());
        Some(channel)
    }

    /// Ends a session from our side, with its links; no event follows.
    pub fn end(&mut self, session: u16, error: Option<Error>) {
        if let Some(&key) = self.channels_out.get(&session)
            && self.sessions.get(key).is_some_and(|session| session.phase != SessionPhase::Ending)
        {
            self.end_session(key, error, false);
        }
    }

    pub(super) fn on_end(&mut self, key: usize, error: Option<Error>) {
        self.flush_session_settlements(key);
        self.drop_links(key, error.as_ref(), true);
        let Some(session) = self.sessions.get(key) else { return };
        let channel_out = session.channel_out;
        self.outbox.frame(channel_out, &Performative::End(None));
        self.forget_session(key);
        self.emit(Event::SessionEnded { session: channel_out });
    }

    /// Ends a session from our side; `announce` reports it to the upper layer.
    pub(super) fn end_session(&mut self, key: usize, error: Option<Error>, announce: bool) {
        if !self.can_send_frames() {
            return;
        }
        self.flush_session_settlements(key);
        self.drop_links(key, error.as_ref(), announce);
        let Some(session) = self.sessions.get_mut(key) else { return };
        let channel_out = session.channel_out;
        session.phase = SessionPhase::Ending;
        self.sessions_ending += 1;
        self.outbox.frame(channel_out, &Performative::End(error));
        if announce {
            self.emit(Event::SessionEnded { session: channel_out });
        }
    }

    pub(super) fn forget_session(&mut self, key: usize) {
        let Some(session) = self.sessions.try_remove(key) else { return };
        self.channels_out.remove(&session.channel_out);
        if let Some(channel) = session.channel_in {
            self.channels_in.remove(&channel);
            self.channels_ended.insert(channel);
            if self.channels_ended.len() > CHANNELS_ENDED_MAX {
                self.channels_ended.pop_first();
            }
        }
        if session.phase == SessionPhase::Ending {
            self.sessions_ending -= 1;
        }
    }

    pub(super) fn on_flow(&mut self, key: usize, flow: &Flow) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(key) else { return Ok(()) };
        session.on_flow(flow);
        self.schedule_session(key);
        let Some(handle) = flow.handle else {
            if flow.echo {
                self.owe_flow(key, None);
            }
            return Ok(());
        };
        let link_key = self.link_at(key, handle)?;
        match self.links.get_mut(link_key).map(|link| (link.phase, &link.side)) {
            None | Some((LinkPhase::Detaching, _)) => {}
            Some((_, Side::In(_))) => self.on_flow_from_sender(link_key, flow),
            Some((_, Side::Out(_))) => {
                Self::check_flow(link_key, flow)?;
                self.on_flow_from_receiver(link_key, flow);
            }
        }
        Ok(())
    }

    /// The key of the link with this handle of the peer.
    pub(super) fn link_at(&self, session: usize, handle: u32) -> Result<usize, Fault> {
        let link = self.sessions.get(session).and_then(|session| session.handles_in.get(&handle));
        link.copied().ok_or_else(|| {
            let reason = format!("no link is attached with handle {handle}");
            Fault::session(session, condition::UNATTACHED_HANDLE, reason)
        })
    }

    /// Notes that a session, or one of its links, has to send a flow by the end of the turn.
    pub(super) fn owe_flow(&mut self, session: usize, link: Option<usize>) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        match link {
            Some(link) => state.flows_due.push(link),
            None => state.flow_due = true,
        }
        self.mark_dirty(session);
    }

    /// Writes the flows that a session owes.
    pub(super) fn flush_flows(&mut self, key: usize) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        for link_key in std::mem::take(&mut session.flows_due) {
            let Some(link) = self.links.get_mut(link_key).filter(|link| link.session == key) else {
                continue;
            };
            if link.phase == LinkPhase::Attached && link.take_flow_due() {
                self.outbox.frame(session.channel_out, &Performative::Flow(session.flow_frame(Some(link))));
            }
        }
        if session.flow_due {
            self.outbox.frame(session.channel_out, &Performative::Flow(session.flow_frame(None)));
        }
    }

    fn add_session(&mut self, channel_out: u16) -> usize {
        let number = self.backlog.next_session_number();
        let key = self.sessions.insert(Session::new(number, channel_out, self.config.incoming_window));
        self.channels_out.insert(channel_out, key);
        key
    }

    fn offered_session(&self, channel_out: u16) -> Result<usize, Fault> {
        let key = self.channels_out.get(&channel_out).copied();
        key.filter(|&key| self.sessions.get(key).is_some_and(|session| session.channel_in.is_none()))
            .ok_or_else(|| {
                let reason = format!("begin answers channel {channel_out}, where nothing waits for one");
                Fault::connection(condition::NOT_ALLOWED, reason)
            })
    }

    /// The wanted channel if it is free, otherwise the lowest free one.
    fn free_channel(&self, wanted: u16) -> Option<u16> {
        let channel_max = self.peer.channel_max.min(self.config.channel_max);
        if wanted <= channel_max && !self.channels_out.contains_key(&wanted) {
            return Some(wanted);
        }
        let taken = self.channels_out.keys();
        let lowest = (0..=channel_max).zip(taken).find(|(free, taken)| free != *taken).map(|(free, _)| free);
        lowest.or_else(|| u16::try_from(self.channels_out.len()).ok().filter(|&free| free <= channel_max))
    }

    /// Removes all links of an ending session, in the order in which they were attached.
    fn drop_links(&mut self, key: usize, error: Option<&Error>, announce: bool) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let mut keys: Vec<usize> = session.handles_out.drain().collect();
        session.handles_in.clear();
        session.ready.clear();
        keys.sort_unstable_by_key(|key| self.links.get(*key).map(|link| link.id));
        for key in keys {
            self.clear_link(key);
            if let Some(link) = self.links.remove(key).filter(|link| announce && link.announced) {
                self.emit(Event::Detached { link: link.id, closed: true, error: error.cloned() });
            }
        }
    }

    /// Numbers of attached links and begun sessions; for tests and diagnosis.
    #[must_use]
    pub fn links_and_sessions(&self) -> (usize, usize) {
        (self.links.len(), self.sessions.len() - self.sessions_ending)
    }

    /// The session of a link.
    #[must_use]
    pub fn session_of(&self, link: LinkId) -> Option<u16> {
        let link = self.links.get(self.links.key(link)?)?;
        self.sessions.get(link.session).map(|session| session.channel_out)
    }
}
