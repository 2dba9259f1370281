//! Which deliveries of a link's queue may be sent, and which can still be withdrawn.
//!
//! On a gated link the upper layer has to act before the first byte of a delivery is sent: it removes the message from
//! the store. It reserves room for deliveries, removes the messages, and releases the deliveries. A delivery for which
//! room is reserved counts as leaving, so the link does not end before it has been sent; everything behind it can be
//! withdrawn.

use super::LinkId;
use super::connection::Connection;
use super::limits::TRANSFER_OVERHEAD_BYTES;
use super::link::Link;
use super::link_out::LinkOut;
use crate::wire::performative::{Detach, Error};

/// Counters of the gate of a link.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Deliveries since attach for which room is reserved.
    reserved: u64,
    /// Deliveries since attach that have been released for sending.
    open: u64,
    /// Payload bytes of the deliveries for which room is reserved and that have not been sent completely.
    bytes: usize,
    /// Transfer frames that these deliveries still need.
    frames: u32,
}

/// The end of a link, postponed until its leaving deliveries have been sent.
#[derive(Debug)]
pub(super) enum End {
    /// The peer has detached.
    Peer(Detach),
    /// We have, for this reason.
    Ours(Option<Error>),
}

/// Deliveries withdrawn by [`Connection::withdraw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// Number of deliveries, counted from the back of the queue.
    pub messages: usize,
    /// Whether the peer was notified that its drain is complete, so that its remaining credit is void.
    pub drained: bool,
}

impl LinkOut {
    /// Makes deliveries wait for [`Connection::release_reserved`].
    fn set_gate(&mut self) {
        self.gate = Some(Box::default());
    }

    /// Whether the gate lets the next delivery begin.
    pub(super) fn is_open(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| self.begun < gate.open)
    }

    /// Deliveries for which room is reserved and that have not begun to leave.
    pub(super) fn reserved(&self) -> u64 {
        self.gate.as_ref().map_or(0, |gate| gate.reserved.saturating_sub(self.begun))
    }

    /// Whether the end of the link has to wait.
    fn is_leaving(&self) -> bool {
        self.gate.is_some() && (self.progress.is_some() || self.reserved() > 0)
    }

    /// Deliveries at the front of the queue that are leaving.
    fn leaving(&self) -> usize {
        usize::from(self.progress.is_some()) + usize::try_from(self.reserved()).unwrap_or(usize::MAX)
    }

    /// Counts a sent frame; returns whether room was reserved for it.
    pub(super) fn frame_left(&mut self) -> bool {
        let Some(gate) = self.gate.as_mut().filter(|gate| gate.frames > 0) else { return false };
        gate.frames -= 1;
        true
    }

    /// Counts a delivery with this payload size as sent completely.
    pub(super) fn delivery_left(&mut self, bytes: usize) {
        if let Some(gate) = &mut self.gate {
            gate.bytes = gate.bytes.saturating_sub(bytes);
        }
    }

    /// Frames for which this link still has room reserved.
    pub(super) fn reserved_frames(&self) -> u32 {
        self.gate.as_ref().map_or(0, |gate| gate.frames)
    }

    /// Removes a delivery from the queue; returns its payload bytes.
    fn take_back(&mut self, position: usize) -> usize {
        let Some(delivery) = self.queue.remove(position) else { return 0 };
        self.queued_bytes -= delivery.bytes;
        self.next_id = self.next_id.wrapping_sub(1);
        delivery.bytes
    }
}

impl Connection {
    /// From now on, deliveries on this link are sent only after [`Self::release_reserved`].
    pub fn gate(&mut self, link: LinkId) {
        if let Some(side) = self.side_out(link) {
            side.set_gate();
        }
    }

    /// Reserves room for the next deliveries of a gated link that link credit and session window allow, as long as at
    /// most `messages_max` deliveries and about `bytes_max` bytes are leaving. Returns the number of deliveries, for
    /// which [`Self::release_reserved`] must follow.
    pub fn reserve(&mut self, link: LinkId, messages_max: usize, bytes_max: usize) -> usize {
        let frame_bytes = (self.peer.frame_size_max as usize).saturating_sub(TRANSFER_OVERHEAD_BYTES).max(1);
        let Some(key) = self.links.key(link) else { return 0 };
        let Some(state) = self.links.get_mut(key) else { return 0 };
        let Some(session) = self.sessions.get_mut(state.session) else { return 0 };
        let Some(side) = state.as_out().filter(|side| side.end.is_none()) else { return 0 };
        let (leaving, reserved, credit) = (side.leaving(), side.reserved(), u64::from(side.credit));
        let Some(gate) = &mut side.gate else { return 0 };
        let most = usize::try_from(credit.saturating_sub(reserved)).unwrap_or(usize::MAX);
        let most = most.min(messages_max.saturating_sub(leaving));
        let mut window = session.outgoing_window_left.saturating_sub(session.reserved_frames);
        let mut count = 0;
        for delivery in side.queue.iter().skip(leaving).take(most) {
            let frames = u32::try_from(delivery.bytes.div_ceil(frame_bytes).max(1)).unwrap_or(u32::MAX);
            // A delivery larger than the window, or than the limit, is sent alone.
            let is_alone = gate.frames == 0 && window > 0;
            let fits = frames <= window && gate.bytes.saturating_add(delivery.bytes) <= bytes_max;
            if !fits && !is_alone {
                break;
            }
            window = window.saturating_sub(frames);
            gate.frames = gate.frames.saturating_add(frames);
            session.reserved_frames = session.reserved_frames.saturating_add(frames);
            gate.bytes += delivery.bytes;
            gate.reserved += 1;
            count += 1;
        }
        count
    }

    /// Releases the next `count` deliveries for which room is reserved, except those at the positions `dropped` among
    /// them (in ascending order), which are discarded. Returns whether the peer was notified that its drain is complete,
    /// because nothing else was left to send.
    pub fn release_reserved(&mut self, link: LinkId, count: usize, dropped: &[usize]) -> bool {
        let frame_bytes = (self.peer.frame_size_max as usize).saturating_sub(TRANSFER_OVERHEAD_BYTES).max(1);
        let Some(key) = self.links.key(link) else { return false };
        let Some(state) = self.links.get_mut(key) else { return false };
        let Some(session) = self.sessions.get_mut(state.session) else { return false };
        let Some(side) = state.as_out() else { return false };
        let begun = side.begun;
        let Some(opened) = side.gate.as_ref().map(|gate| gate.open.saturating_sub(begun)) else {
            return false;
        };
        let first = usize::from(side.progress.is_some()) + usize::try_from(opened).unwrap_or(usize::MAX);
        for position in dropped.iter().rev() {
            let bytes = side.take_back(first.saturating_add(*position));
            self.pending_bytes -= bytes;
            let frames = u32::try_from(bytes.div_ceil(frame_bytes).max(1)).unwrap_or(u32::MAX);
            session.reserved_frames = session.reserved_frames.saturating_sub(frames);
            if let Some(gate) = &mut side.gate {
                gate.frames = gate.frames.saturating_sub(frames);
                gate.bytes = gate.bytes.saturating_sub(bytes);
                gate.reserved -= 1;
            }
        }
        if let Some(gate) = &mut side.gate {
            gate.open = gate.open.max(begun) + count.saturating_sub(dropped.len()) as u64;
        }
        let drained = !dropped.is_empty() && self.answer_drain(key);
        self.schedule_link(key);
        self.end_if_due(key);
        drained
    }

    /// Withdraws the last deliveries of a link, at most this many and none that is leaving, which has begun or has room
    /// reserved.
    pub fn withdraw(&mut self, link: LinkId, messages_max: usize) -> Withdrawn {
        let nothing = Withdrawn { messages: 0, drained: false };
        let Some(key) = self.links.key(link) else { return nothing };
        let Some(side) = self.links.get_mut(key).and_then(Link::as_out) else { return nothing };
        let mut messages = 0;
        while messages < messages_max && side.queue.len() > side.leaving() {
            self.pending_bytes -= side.take_back(side.queue.len() - 1);
            messages += 1;
        }
        let drained = messages > 0 && self.answer_drain(key);
        Withdrawn { messages, drained }
    }

    /// Number of leaving deliveries at the front of a link's queue; [`Self::withdraw`] withdraws the others.
    #[must_use]
    pub fn leaving(&self, link: LinkId) -> usize {
        let side = self.links.key(link).and_then(|key| self.links.get(key)).and_then(Link::out);
        side.map_or(0, LinkOut::leaving)
    }

    /// Detaches a link from our side once its leaving deliveries are sent.
    pub(super) fn detach_after_leaving(&mut self, key: usize, error: Option<Error>) {
        if !self.postpone_end(key, End::Ours(error.clone())) {
            self.detach_link(key, error);
        }
    }

    /// Makes the upper layer answer when the peer ends this link: [`super::Event::Ending`] replaces
    /// [`super::Event::Detached`].
    pub fn hold_end(&mut self, link: LinkId) {
        if let Some(side) = self.side_out(link) {
            side.holds_end = true;
        }
    }

    /// Answers a detach of the peer that was held, with an error if the peer's request failed; no event follows.
    pub fn release_end(&mut self, link: LinkId, error: Option<Error>) {
        let Some(side) = self.side_out(link) else { return };
        side.holds_end = false;
        let Some(End::Peer(detach)) = side.end.take().map(|end| *end) else { return };
        let Some(key) = self.links.key(link) else { return };
        self.send_detach(key, detach.closed, error);
        self.forget_ended(key);
    }

    /// Postpones the end of a link if deliveries are leaving, or if the upper layer answers it; returns whether it did. If
    /// both sides detach meanwhile, the first reason counts.
    pub(super) fn postpone_end(&mut self, key: usize, end: End) -> bool {
        let Some(link) = self.links.get_mut(key) else { return false };
        let id = link.id;
        let Some(side) = link.as_out() else { return false };
        let held = match &end {
            End::Peer(detach) if side.holds_end => Some(detach.closed),
            _ => None,
        };
        if held.is_none() && !side.is_leaving() {
            return false;
        }
        side.end.get_or_insert_with(|| Box::new(end));
        if let Some(closed) = held {
            self.emit(super::Event::Ending { link: id, closed });
        }
        true
    }

    /// Ends a link whose end was postponed, once its leaving deliveries are sent.
    pub(super) fn end_if_due(&mut self, key: usize) {
        let side = self
            .links
            .get_mut(key)
            .and_then(Link::as_out)
            .filter(|side| !side.is_leaving() && !side.holds_end);
        match side.and_then(|side| side.end.take()).map(|end| *end) {
            None => {}
            Some(End::Peer(detach)) => self.answer_detach(key, detach),
            Some(End::Ours(error)) => self.detach_link(key, error),
        }
    }

    fn side_out(&mut self, link: LinkId) -> Option<&mut LinkOut> {
        let key = self.links.key(link)?;
        self.links.get_mut(key)?.as_out()
    }
}
