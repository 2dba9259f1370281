//! Output: which frames are sent in which order; deliveries as transfer frames (part 2.7.5).

use bytes::Bytes;
use smallvec::SmallVec;

use super::NowMs;
use super::connection::{Connection, Phase};
use super::disposition::OutgoingSlot;
use super::limits::{
    CLOSE_TIME_OUT_MS, LINK_TURN_BYTES, LINK_TURN_ROOM_BYTES, OUTBOX_BLOCK_BYTES, PAYLOAD_COPY_BYTES_MAX,
    TRANSFER_OVERHEAD_BYTES, TRANSFER_STATE_BYTES,
};
use super::link::{Link, LinkPhase, Side};
use super::link_out::{LinkOut, Progress, UnsettledOut};
use super::outbox::Outbox;
use super::session::{Session, SessionPhase};
use crate::wire::performative::{Performative, Tag, Transfer};

/// The result of one link's turn.
#[derive(Debug, Default)]
struct Turn {
    payload_bytes: usize,
    frame_bytes: usize,
}

impl Connection {
    /// Appends bytes to write to `output` in order, until about `bytes_max` are there or nothing is left. Small frames
    /// are joined; large payloads stay slices. Pending frames (answers, settlements, credit) are sent first and are not
    /// limited; deliveries follow, link by link in turn.
    pub fn poll_transmit(&mut self, output: &mut Vec<Bytes>, bytes_max: usize, now: NowMs) {
        self.flush_due();
        let before = output.len();
        let mut written = self.outbox.len();
        while written < bytes_max {
            self.make_room(bytes_max - written, output);
            match self.transmit_turn(output) {
                Some(turn) => written += turn.frame_bytes,
                None => {
                    self.close_if_due(now);
                    break;
                }
            }
        }
        self.outbox.take(output);
        if output.len() > before {
            self.timers.last_output = now;
        } else {
            self.outbox.release();
        }
    }

    /// Ensures that the outbox has a block with room for the next turn of a link. Each delivery counts twice, so that
    /// the frames around small ones fit as well.
    fn make_room(&mut self, bytes_max: usize, output: &mut Vec<Bytes>) {
        let pending_bytes = self.pending_bytes.min(bytes_max).saturating_mul(2);
        let may_leave = self.outbox.open && !self.ready.is_empty();
        if may_leave && self.outbox.spare() < pending_bytes.min(LINK_TURN_ROOM_BYTES) {
            self.outbox.take(output);
            self.outbox.reserve(pending_bytes.min(OUTBOX_BLOCK_BYTES));
        }
    }

    /// Whether [`Self::poll_transmit`] would return something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.outbox.has_sendable()
            || !self.dirty.is_empty()
            || !self.ready.is_empty()
            || self.close_due.is_some()
    }

    fn flush_due(&mut self) {
        self.flush_settlements();
        for key in std::mem::take(&mut self.dirty) {
            if let Some(session) = self.sessions.get_mut(key) {
                session.dirty = false;
            }
            if !self.close_sent && self.sessions.get(key).is_some_and(|s| s.phase == SessionPhase::Begun) {
                self.flush_flows(key);
            }
        }
    }

    fn close_if_due(&mut self, now: NowMs) {
        if let Some(error) = self.close_due.take() {
            self.timers.answer_due = Some(now.saturating_add(CLOSE_TIME_OUT_MS));
            self.send_close(error);
        }
    }

    /// Lets the next link in turn send; `None` when no link has anything it may send.
    fn transmit_turn(&mut self, output: &mut Vec<Bytes>) -> Option<Turn> {
        let open = matches!(self.phase, Phase::Open | Phase::Closing) && !self.close_sent;
        loop {
            let key = self.ready.pop_front().filter(|_| open)?;
            let Some(session) = self.sessions.get_mut(key) else { continue };
            let link_key = if session.may_transmit() { session.ready.pop_front() } else { None };
            let Some(link_key) = link_key else {
                session.scheduled = false;
                continue;
            };
            let mut turn = Turn::default();
            if let Some(link) = self.links.get_mut(link_key).filter(|link| link.session == key) {
                let frame_size_max = self.peer.frame_size_max as usize;
                turn = transmit_link(link_key, link, session, &mut self.outbox, frame_size_max, output);
                let again = link.as_out().is_some_and(|side| {
                    side.scheduled = side.may_transmit();
                    side.scheduled
                });
                if again {
                    session.ready.push_back(link_key);
                }
            }
            self.pending_bytes -= turn.payload_bytes;
            self.ready.push_back(key);
            self.end_if_due(link_key);
            return Some(turn);
        }
    }

    /// Schedules a link if it has something to send.
    pub(super) fn schedule_link(&mut self, key: usize) {
        let Some(link) = self.links.get_mut(key).filter(|link| link.phase == LinkPhase::Attached) else {
            return;
        };
        let session_key = link.session;
        let Some(side) = link.as_out() else { return };
        if side.may_transmit()
            && !std::mem::replace(&mut side.scheduled, true)
            && let Some(session) = self.sessions.get_mut(session_key)
        {
            session.ready.push_back(key);
        }
        self.schedule_session(session_key);
    }

    /// Schedules a session if one of its links has something to send and the session may send.
    pub(super) fn schedule_session(&mut self, key: usize) {
        if let Some(session) = self.sessions.get_mut(key)
            && !session.ready.is_empty()
            && session.may_transmit()
            && !std::mem::replace(&mut session.scheduled, true)
        {
            self.ready.push_back(key);
        }
    }
}

/// Sends deliveries of one link until its turn ends or the link, or its session, may not send more.
fn transmit_link(
    key: usize,
    link: &mut Link,
    session: &mut Session,
    outbox: &mut Outbox,
    frame_size_max: usize,
    output: &mut Vec<Bytes>,
) -> Turn {
    let mut turn = Turn::default();
    let handle = link.handle_out;
    let Side::Out(side) = &mut link.side else { return turn };
    while turn.frame_bytes < LINK_TURN_BYTES && session.may_transmit() && side.may_transmit() {
        let Some(progress) = side.progress.or_else(|| begin_delivery(key, side, session)) else { break };
        let Some(front) = side.queue.front() else { break };
        let overhead = TRANSFER_OVERHEAD_BYTES + front.state.as_ref().map_or(0, |_| TRANSFER_STATE_BYTES);
        let room = frame_size_max.saturating_sub(overhead).max(1);
        let chunk = room.min(front.bytes - progress.sent);
        let more = progress.sent + chunk < front.bytes;
        let is_first = progress.sent == 0;
        let transfer = Transfer {
            handle,
            delivery_id: is_first.then_some(progress.wire_id),
            delivery_tag: is_first.then(|| front.tag.map_or_else(Tag::default, |tag| Tag::from_slice(&tag))),
            message_format: is_first.then_some(front.message_format),
            // Python reads it from the last frame.
            settled: Some(front.settled),
            more,
            state: front.state.as_ref().filter(|_| is_first).cloned(),
            ..Transfer::default()
        };
        outbox.transfer(session.channel_out, &transfer, chunk);
        append_payload(&front.payload, progress.sent, chunk, outbox, output);
        session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
        session.outgoing_window_left -= 1;
        session.reserved_frames -= u32::from(side.frame_left() && session.reserved_frames > 0);
        turn.frame_bytes += chunk + TRANSFER_OVERHEAD_BYTES;
        if more {
            side.progress = Some(Progress { sent: progress.sent + chunk, ..progress });
        } else {
            turn.payload_bytes += end_delivery(side);
        }
    }
    if side.answer_drain() {
        outbox.frame(session.channel_out, &Performative::Flow(session.flow_frame(Some(link))));
    }
    turn
}

/// Numbers the first delivery of the queue: delivery-ids are consecutive per session in the order of sending
/// (qpid-proton requires it).
fn begin_delivery(key: usize, side: &mut LinkOut, session: &mut Session) -> Option<Progress> {
    let front = side.queue.front()?;
    let wire_id = if front.settled {
        side.unsettled.skip();
        session.outgoing.skip()
    } else {
        let delivery = side.unsettled.next_key();
        let wire_id = session.outgoing.push(OutgoingSlot { link: key, delivery });
        let tag = front.tag.unwrap_or_default();
        side.unsettled.push(UnsettledOut { tag, wire_id, outcome_reported: false });
        wire_id
    };
    side.begun += 1;
    side.delivery_count = side.delivery_count.wrapping_add(1);
    side.credit -= 1;
    let progress = Progress { wire_id, sent: 0 };
    side.progress = Some(progress);
    Some(progress)
}

/// Removes the first delivery from the queue and returns its size.
fn end_delivery(side: &mut LinkOut) -> usize {
    side.progress = None;
    let bytes = side.queue.pop_front().map_or(0, |delivery| delivery.bytes);
    side.queued_bytes -= bytes;
    side.delivery_left(bytes);
    side.transmitted += 1;
    side.transmitted_bytes += bytes as u64;
    bytes
}

/// Appends `length` bytes of a payload from `start` to a frame.
fn append_payload(
    payload: &SmallVec<[Bytes; 3]>,
    start: usize,
    length: usize,
    outbox: &mut Outbox,
    output: &mut Vec<Bytes>,
) {
    let (mut skip, mut left) = (start, length);
    for slice in payload {
        if left == 0 {
            return;
        }
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let end = slice.len().min(skip + left);
        if end - skip < PAYLOAD_COPY_BYTES_MAX {
            outbox.payload(slice.get(skip..end).unwrap_or_default());
        } else {
            outbox.payload_slice(slice.slice(skip..end), output);
        }
        left -= end - skip;
        skip = 0;
    }
}
