//! Attach and detach (part 2.6).

use std::sync::Arc;

use super::condition::{self, Fault};
use super::connection::Connection;
use super::leaving::End;
use super::limits::{NAME_BYTES_MAX, NULL_ATTACH_OVERHEAD_BYTES};
use super::link::{Link, LinkPhase, Side};
use super::link_in::LinkIn;
use super::link_out::LinkOut;
use super::session::HANDLE_MAX;
use super::{Event, LinkId};
use crate::wire::performative::{Attach, Detach, Error, Performative, Role};

impl Connection {
    /// Answers an attach. `reply` is the attach to send; name, handle and role are filled in, and on a link on which we
    /// send, initial-delivery-count if it is missing. A link on which we receive gets `credit` at once and keeps it:
    /// credit is granted again as deliveries are settled. `reply.max_message_size` is enforced on incoming messages. An
    /// answer larger than the peer's max-frame-size is sent without link properties; if it is still too large, the link
    /// is refused.
    pub fn accept_attach(&mut self, link: LinkId, mut reply: Attach, credit: u32) {
        let Some(key) = self.links.key(link).filter(|_| self.can_send_frames()) else { return };
        let Some(state) = self.links.get_mut(key).filter(|state| state.phase == LinkPhase::Requested) else {
            return;
        };
        reply.name = (&*state.name).into();
        reply.handle = state.handle_out;
        reply.role = state.role();
        match &state.side {
            Side::In(_) => reply.initial_delivery_count = None,
            Side::Out(_) => reply.initial_delivery_count = Some(reply.initial_delivery_count.unwrap_or(0)),
        }
        match self.write_answer(key, reply) {
            Some(reply) => self.attached(key, &reply, credit),
            None => {
                let reason = "the answer to the attach is larger than the peer's max-frame-size";
                self.detach_link(key, Some(condition::error(condition::FRAME_SIZE_TOO_SMALL, reason)));
            }
        }
    }

    /// Writes the answer to an attach within the peer's max-frame-size; returns the frame written.
    fn write_answer(&mut self, key: usize, reply: Attach) -> Option<Attach> {
        let channel = self.sessions.get(self.links.get(key)?.session)?.channel_out;
        let mut frame = Performative::Attach(Box::new(reply));
        if self.outbox.frame_if_it_fits(channel, &frame).is_err() {
            if let Performative::Attach(reply) = &mut frame {
                reply.properties.clear();
            }
            self.outbox.frame_if_it_fits(channel, &frame).ok()?;
        }
        match frame {
            Performative::Attach(reply) => Some(*reply),
            _ => None,
        }
    }

    /// Marks the link as attached after the answer to the attach has been written.
    fn attached(&mut self, key: usize, reply: &Attach, credit: u32) {
        let Some(state) = self.links.get_mut(key) else { return };
        let Some(session) = self.sessions.get_mut(state.session) else { return };
        state.phase = LinkPhase::Attached;
        state.snd_settle_mode = reply.snd_settle_mode;
        state.rcv_settle_mode = reply.rcv_settle_mode;
        match &mut state.side {
            Side::In(side) => side.open(reply.max_message_size, credit),
            Side::Out(side) => side.open(reply.initial_delivery_count.unwrap_or(0)),
        }
        if matches!(state.side, Side::In(_)) && credit > 0 {
            let flow = session.flow_frame(Some(state));
            self.outbox.frame(session.channel_out, &Performative::Flow(flow));
        }
        self.replay_early_flow(key);
    }

    /// Refuses an attach: attach with a null terminus and a closing detach with the error, back to back.
    pub fn refuse_attach(&mut self, link: LinkId, error: Error) {
        let Some(key) = self.links.key(link).filter(|_| self.can_send_frames()) else { return };
        if let Some(state) = self.links.get_mut(key).filter(|state| state.phase == LinkPhase::Requested) {
            state.announced = false;
            self.detach_link(key, Some(error));
        }
    }

    /// Closes a link from our side; no event follows. Queued deliveries are dropped, except those that are leaving
    /// ([`Self::reserve`]): the link ends after them.
    pub fn detach(&mut self, link: LinkId, error: Option<Error>) {
        let Some(key) = self.links.key(link) else { return };
        if let Some(link) = self.links.get_mut(key) {
            link.announced = false;
        }
        self.detach_after_leaving(key, error);
    }

    pub(super) fn on_attach(&mut self, session: usize, attach: Box<Attach>) -> Result<(), Fault> {
        let role = opposite(attach.role);
        if attach.handle > HANDLE_MAX {
            let reason = format!("handle {} is above the limit of {HANDLE_MAX}", attach.handle);
            return Err(Fault::connection(condition::FRAMING_ERROR, reason));
        }
        self.check_names(&attach)?;
        if attach.name.len() > NAME_BYTES_MAX {
            let reason = format!("names of links have at most {NAME_BYTES_MAX} bytes");
            return Err(Fault::session(session, condition::RESOURCE_LIMIT_EXCEEDED, reason));
        }
        if attach.name.len() + NULL_ATTACH_OVERHEAD_BYTES > self.peer.frame_size_max as usize {
            let reason = "no answer to an attach with so long a link name fits the peer's max-frame-size";
            return Err(Fault::session(session, condition::FRAME_SIZE_TOO_SMALL, reason));
        }
        let Some(state) = self.sessions.get(session) else { return Ok(()) };
        if state.handles_in.contains_key(&attach.handle) {
            let reason = format!("handle {} is in use", attach.handle);
            return Err(Fault::session(session, condition::HANDLE_IN_USE, reason));
        }
        if let Some(key) = self.links.named(role, &attach.name) {
            // A link that was detached before its answer is found by its name until then.
            let awaited = |link: &Link| {
                link.session == session && matches!(link.phase, LinkPhase::Offered | LinkPhase::Detaching)
            };
            if self.links.get(key).is_some_and(awaited) {
                self.attach_answered(key, attach);
                return Ok(());
            }
            // Part 2.6.1: a name is used once per direction; the newer attach takes the link over.
            let reason = "the link was attached again with the same name";
            self.detach_link(key, Some(condition::error(condition::LINK_STOLEN, reason)));
        }
        let key = self.add_link(session, role, &attach)?;
        self.admit(key, session, attach)
    }

    /// Announces a new link to the upper layer, unless the limit of links is reached.
    fn admit(&mut self, key: usize, session: usize, attach: Box<Attach>) -> Result<(), Fault> {
        if self.links.detaching > self.detaching_max() {
            let reason = "too many links wait for their detach to be answered";
            return Err(Fault::connection(condition::RESOURCE_LIMIT_EXCEEDED, reason));
        }
        if self.links.len() > self.links_max() {
            let reason = format!("at most {} links per connection", self.links_max());
            return Err(Fault::link(key, condition::RESOURCE_LIMIT_EXCEEDED, reason));
        }
        let channel = self.sessions.get(session).map(|session| session.channel_out);
        if let (Some(link), Some(session)) = (self.links.get_mut(key), channel) {
            link.announced = true;
            let link = link.id;
            self.emit(Event::Attach { link, session, attach });
        }
        Ok(())
    }

    fn add_link(&mut self, session: usize, role: Role, attach: &Attach) -> Result<usize, Fault> {
        let side = match role {
            Role::Receiver => Side::In(LinkIn::new(attach.initial_delivery_count)),
            Role::Sender => Side::Out(Box::default()),
        };
        let key = self.insert_link(session, attach, LinkPhase::Requested, side).ok_or_else(|| {
            let reason = "the peer's handle-max is used up";
            Fault::session(session, condition::RESOURCE_LIMIT_EXCEEDED, reason)
        })?;
        if let (Some(state), Some(link)) = (self.sessions.get_mut(session), self.links.get_mut(key)) {
            state.handles_in.insert(attach.handle, key);
            link.handle_in = Some(attach.handle);
        }
        Ok(key)
    }

    /// Gives a link a key and a handle; `None` when the peer allows no more handles.
    pub(super) fn insert_link(
        &mut self,
        session: usize,
        attach: &Attach,
        phase: LinkPhase,
        side: Side,
    ) -> Option<usize> {
        let state = self.sessions.get_mut(session)?;
        let slot = state.handles_out.vacant_entry();
        let handle_out = u32::try_from(slot.key()).ok().filter(|&handle| handle <= state.peer_handle_max)?;
        let key = self.links.insert_with(|id| Link {
            id,
            session,
            name: Arc::from(&*attach.name),
            phase,
            handle_out,
            handle_in: None,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            announced: false,
            side,
        });
        slot.insert(key);
        Some(key)
    }

    /// Client: the peer's answer to our attach.
    fn attach_answered(&mut self, key: usize, attach: Box<Attach>) {
        let Some(link) = self.links.get_mut(key) else { return };
        link.handle_in = Some(attach.handle);
        if link.phase == LinkPhase::Detaching {
            if let Some(session) = self.sessions.get_mut(link.session) {
                session.handles_in.insert(attach.handle, key);
            }
            return;
        }
        link.phase = LinkPhase::Attached;
        link.snd_settle_mode = attach.snd_settle_mode;
        link.rcv_settle_mode = attach.rcv_settle_mode;
        if let (Side::In(side), Some(initial)) = (&mut link.side, attach.initial_delivery_count) {
            side.delivery_count = initial;
        }
        let (id, session_key) = (link.id, link.session);
        let Some(session) = self.sessions.get_mut(session_key) else { return };
        session.handles_in.insert(attach.handle, key);
        let (link, session) = (id, session.channel_out);
        // Credit that was set before the answer.
        self.owe_flow(session_key, Some(key));
        self.emit(Event::Attach { link, session, attach });
    }

    /// Handles the peer's detach. Its handle and the link's name are free at once, even if our detach waits
    /// ([`Self::postpone_end`]): qpid-proton uses a handle again without waiting for the answer.
    pub(super) fn on_detach(&mut self, session: usize, detach: Detach) {
        // fe2o3-amqp answers a refused attach with two detaches: the second finds no link and is ignored.
        let Ok(key) = self.link_at(session, detach.handle) else { return };
        let Some(link) = self.links.get_mut(key) else { return };
        link.handle_in = None;
        let is_answer = link.phase == LinkPhase::Detaching;
        if let Some(state) = self.sessions.get_mut(session) {
            state.handles_in.remove(&detach.handle);
        }
        self.links.retire_name(key);
        if is_answer {
            self.forget_ended(key);
        } else if !self.postpone_end(key, End::Peer(detach.clone())) {
            self.answer_detach(key, detach);
        }
    }

    /// Answers the peer's detach and reports it to the upper layer.
    pub(super) fn answer_detach(&mut self, key: usize, detach: Detach) {
        let Some(session) = self.links.get(key).map(|link| link.session) else { return };
        self.flush_session_settlements(session);
        self.send_detach(key, detach.closed, None);
        if let Some(link) = self.forget_ended(key).filter(|link| link.announced) {
            self.emit(Event::Detached { link: link.id, closed: detach.closed, error: detach.error });
        }
    }

    /// Removes a link that both sides have detached.
    pub(super) fn forget_ended(&mut self, key: usize) -> Option<Link> {
        self.clear_link(key);
        let link = self.links.remove(key)?;
        if let Some(state) = self.sessions.get_mut(link.session) {
            state.handles_out.try_remove(link.handle_out as usize);
        }
        Some(link)
    }

    /// Detaches a link from our side, and reports it to the upper layer if it knows the link.
    pub(super) fn detach_link(&mut self, key: usize, error: Option<Error>) {
        let Some(link) = self.links.get(key).filter(|_| self.can_send_frames()) else { return };
        if link.phase == LinkPhase::Detaching {
            return;
        }
        let (id, session, announced) = (link.id, link.session, link.announced);
        let is_answer = link.is_detached_by_peer();
        self.flush_session_settlements(session);
        self.send_detach(key, true, error.clone());
        if is_answer {
            self.forget_ended(key);
        } else {
            self.await_detach(key);
        }
        if announced {
            self.emit(Event::Detached { link: id, closed: true, error });
        }
    }

    /// Keeps a link that we have detached until the peer's detach.
    fn await_detach(&mut self, key: usize) {
        self.clear_link(key);
        let Some(link) = self.links.get_mut(key) else { return };
        let is_unanswered = link.phase == LinkPhase::Offered;
        link.phase = LinkPhase::Detaching;
        self.links.detaching += 1;
        match is_unanswered {
            true => self.links.retire_id(key),
            false => self.links.retire(key),
        }
    }

    /// Writes a detach, unless our close was the last frame; a link whose attach we have not answered gets an attach
    /// without termini first.
    pub(super) fn send_detach(&mut self, key: usize, closed: bool, error: Option<Error>) {
        let Some(link) = self.links.get(key).filter(|_| self.can_send_frames()) else { return };
        let Some(session) = self.sessions.get(link.session) else { return };
        if link.phase == LinkPhase::Requested {
            let attach = Performative::Attach(Box::new(link.null_attach()));
            self.outbox.frame(session.channel_out, &attach);
        }
        let detach = Detach { handle: link.handle_out, closed, error };
        self.outbox.frame(session.channel_out, &Performative::Detach(detach));
    }

    /// Drops what an ending link holds: queued and unsettled deliveries, partly received ones. Deliveries we received
    /// stay counted until the upper layer settles them.
    pub(super) fn clear_link(&mut self, key: usize) {
        let Some(link) = self.links.get_mut(key) else { return };
        let (id, session) = (link.id, link.session);
        match &mut link.side {
            Side::In(side) => {
                self.reassembly_bytes -= side.take_partial().map_or(0, |partial| partial.len());
                let (messages, bytes) = (side.unsettled, side.unsettled_bytes);
                side.unsettled = 0;
                side.unsettled_bytes = 0;
                let number = self.sessions.get(session).map_or(0, |session| session.number);
                self.backlog.orphan(id, session, number, messages, bytes);
            }
            Side::Out(side) => {
                let reserved_frames = side.reserved_frames();
                let LinkOut { queued_bytes, unsettled, .. } = std::mem::take(&mut **side);
                self.pending_bytes -= queued_bytes;
                if let Some(session) = self.sessions.get_mut(session) {
                    session.reserved_frames = session.reserved_frames.saturating_sub(reserved_frames);
                    let mut unsettled = unsettled;
                    for delivery in unsettled.drain() {
                        session.outgoing.remove(delivery.wire_id);
                    }
                }
                self.schedule_session(session);
            }
        }
    }
}

/// The opposite role.
pub(super) fn opposite(role: Role) -> Role {
    match role {
        Role::Sender => Role::Receiver,
        Role::Receiver => Role::Sender,
    }
}
