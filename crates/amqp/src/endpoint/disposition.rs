//! Outcomes and settlement, both directions (parts 2.6.12 and 2.7.6).

use std::collections::BTreeMap;
use std::iter;

use smallvec::{SmallVec, smallvec};

use super::connection::Connection;
use super::limits::SETTLEMENTS_MAX;
use super::link::Link;
use super::session::SessionPhase;
use super::settlements::{Settlement, Settlements};
use super::{DeliveryTag, Event, IncomingId, LinkId, OutgoingId};
use crate::wire::performative::{DeliveryState, Disposition, Performative, Role};

/// How many runs back a disposition over interleaved links searches for one to continue.
const RUNS_LOOKED_BACK: usize = 8;

/// A delivery we sent, as stored in its session.
#[derive(Debug)]
pub(super) struct OutgoingSlot {
    /// Key of the link.
    pub(super) link: usize,
    /// The number in [`OutgoingId`].
    pub(super) delivery: u32,
}

/// A delivery we received, as stored in its session.
#[derive(Debug)]
pub(super) struct IncomingSlot {
    link: LinkId,
    bytes: usize,
    /// The peer has settled the delivery: no answer is expected.
    settled_by_peer: bool,
    /// Our outcome has been announced; the sender has to settle.
    outcome_announced: bool,
}

impl IncomingSlot {
    pub(super) fn new(link: LinkId, bytes: usize) -> Self {
        Self { link, bytes, settled_by_peer: false, outcome_announced: false }
    }

    /// Whether the upper layer settles it without waiting for the sender.
    pub(super) fn awaits_settlement(&self) -> bool {
        !self.outcome_announced
    }
}

/// Received deliveries that wait for the upper layer.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    messages: usize,
    bytes: usize,
    /// Unsettled deliveries of links that no longer exist.
    orphans: BTreeMap<LinkId, Orphan>,
    sessions_begun: u64,
}

#[derive(Debug)]
struct Orphan {
    session: usize,
    session_number: u64,
    messages: usize,
    bytes: usize,
}

impl Backlog {
    pub(super) fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Keeps count of the deliveries of an ended link that the upper layer has not settled yet.
    pub(super) fn orphan(
        &mut self,
        link: LinkId,
        session: usize,
        number: u64,
        messages: usize,
        bytes: usize,
    ) {
        if messages > 0 {
            self.orphans.insert(link, Orphan { session, session_number: number, messages, bytes });
        }
    }

    /// Settles one delivery of an ended link; returns the session on which it came.
    fn settle_orphan(&mut self, link: LinkId) -> Option<(usize, u64)> {
        let orphan = self.orphans.get_mut(&link)?;
        let session = (orphan.session, orphan.session_number);
        // Which delivery it was is unknown once the session has ended too: each counts as the average.
        let bytes = orphan.bytes / orphan.messages.max(1);
        orphan.messages -= 1;
        orphan.bytes -= bytes;
        if orphan.messages == 0 {
            self.orphans.remove(&link);
        }
        self.remove(bytes);
        Some(session)
    }

    pub(super) fn next_session_number(&mut self) -> u64 {
        self.sessions_begun += 1;
        self.sessions_begun
    }
}

/// Consecutive deliveries of one link in a disposition.
struct Run {
    link: usize,
    first: u32,
    tags: SmallVec<[DeliveryTag; 1]>,
}

impl Connection {
    /// Deliveries that the peer sent unsettled and that [`Self::settle_incoming`] has not settled yet (number, payload
    /// bytes), over all links including ended ones. Drivers use it to decide when to stop reading.
    #[must_use]
    pub fn incoming_unsettled(&self) -> (usize, usize) {
        (self.backlog.messages, self.backlog.bytes)
    }

    /// Settles a delivery we received; neighbours with equal state are joined into one frame. Credit on links we
    /// receive on is topped up automatically as deliveries are settled. Must be called for every unsettled
    /// [`Event::Message`], even if its link has ended: only then does the delivery stop counting in
    /// [`Self::incoming_unsettled`].
    pub fn settle_incoming(&mut self, id: IncomingId, state: DeliveryState) {
        let Some(key) = self.links.key(id.link) else {
            if let Some((session, number)) = self.backlog.settle_orphan(id.link)
                && let Some(session) =
                    self.sessions.get_mut(session).filter(|session| session.number == number)
            {
                session.incoming.remove(id.delivery_id);
            }
            return;
        };
        let Some(session) = self.links.get(key).map(|link| link.session) else { return };
        let Some(slot) = self.take_incoming(session, key, id) else { return };
        if !slot.settled_by_peer {
            self.add_settlement(session, Role::Receiver, id.delivery_id, &state, true);
        }
    }

    /// Announces an outcome without settling (rcv-settle-mode second): the sender settles, reported by
    /// [`Event::Settled`].
    pub fn update_incoming(&mut self, id: IncomingId, state: DeliveryState) {
        let session = self.links.key(id.link).and_then(|key| self.links.get(key)).map(|link| link.session);
        let Some(session) = session else { return };
        let slots = self.sessions.get_mut(session).map(|session| &mut session.incoming);
        let slot = slots.and_then(|slots| slots.get_mut(id.delivery_id));
        if let Some(slot) = slot.filter(|slot| slot.link == id.link) {
            slot.outcome_announced = true;
            self.add_settlement(session, Role::Receiver, id.delivery_id, &state, false);
        }
    }

    /// Settles a delivery we sent with its final state.
    pub fn settle_outgoing(&mut self, id: OutgoingId, state: DeliveryState) {
        self.settle_consecutive(id, 1, &state);
    }

    /// Settles `count` consecutive deliveries we sent with the same final state, except those that are settled already;
    /// returns their number.
    pub fn settle_consecutive(&mut self, first: OutgoingId, count: usize, state: &DeliveryState) -> usize {
        let Some(key) = self.links.key(first.link) else { return 0 };
        let Some(link) = self.links.get_mut(key) else { return 0 };
        let session_key = link.session;
        let (Some(side), Some(session)) = (link.as_out(), self.sessions.get_mut(session_key)) else {
            return 0;
        };
        let mut delivery_id = first.delivery_id;
        let mut settled = 0;
        for _ in 0..count {
            if let Some(delivery) = side.unsettled.remove(delivery_id) {
                session.outgoing.remove(delivery.wire_id);
                session.settled_outgoing.add(delivery.wire_id, state, true);
                settled += 1;
            }
            delivery_id = delivery_id.wrapping_add(1);
        }
        self.settlements_added(session_key);
        self.schedule_session(session_key);
        settled
    }

    /// Announces the state of a delivery we sent without settling it.
    pub fn update_outgoing(&mut self, id: OutgoingId, state: DeliveryState) {
        let Some(key) = self.links.key(id.link) else { return };
        let Some(link) = self.links.get_mut(key) else { return };
        let session = link.session;
        let delivery = link.as_out().and_then(|side| side.unsettled.get_mut(id.delivery_id));
        if let Some(delivery) = delivery {
            let wire_id = delivery.wire_id;
            self.add_settlement(session, Role::Sender, wire_id, &state, false);
        }
    }

    /// Removes a received delivery from the session and grants its credit again.
    fn take_incoming(&mut self, session: usize, link: usize, id: IncomingId) -> Option<IncomingSlot> {
        let slots = &mut self.sessions.get_mut(session)?.incoming;
        let slot = slots.remove_if(id.delivery_id, |slot| slot.link == id.link)?;
        self.backlog.remove(slot.bytes);
        let side = self.links.get_mut(link)?.as_in()?;
        side.unsettled -= 1;
        side.unsettled_bytes -= slot.bytes;
        if side.top_up() {
            self.owe_flow(session, Some(link));
        }
        Some(slot)
    }

    pub(super) fn add_settlement(
        &mut self,
        session: usize,
        role: Role,
        delivery_id: u32,
        state: &DeliveryState,
        settled: bool,
    ) {
        let Some(session_state) = self.sessions.get_mut(session) else { return };
        let list = match role {
            Role::Sender => &mut session_state.settled_outgoing,
            Role::Receiver => &mut session_state.settled_incoming,
        };
        list.add(delivery_id, state, settled);
        self.settlements_added(session);
    }

    /// Has the settlements of a session written: at the end of the turn, or now if there are many.
    fn settlements_added(&mut self, session: usize) {
        let Some(state) = self.sessions.get(session) else { return };
        if state.settled_outgoing.len().max(state.settled_incoming.len()) >= SETTLEMENTS_MAX {
            self.flush_session_settlements(session);
        } else {
            self.mark_dirty(session);
        }
    }

    /// Writes all pending settlements before any later ones, whatever their session. Without this call, settlements of
    /// different sessions are written in any order.
    pub fn flush_settlements(&mut self) {
        for position in 0..self.dirty.len() {
            if let Some(&key) = self.dirty.get(position) {
                self.flush_session_settlements(key);
            }
        }
    }

    /// Writes the settlements of one session, neighbours joined.
    pub(super) fn flush_session_settlements(&mut self, key: usize) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.phase == SessionPhase::Ending || self.close_sent {
            session.settled_outgoing = Settlements::default();
            session.settled_incoming = Settlements::default();
            return;
        }
        let channel = session.channel_out;
        let outbox = &mut self.outbox;
        for (role, list) in
            [(Role::Receiver, &mut session.settled_incoming), (Role::Sender, &mut session.settled_outgoing)]
        {
            list.write_joined(|Settlement { first, last, state, settled }| {
                let (state, last) = (Some(state), Some(last));
                let disposition = Disposition { role, first, last, settled, state, batchable: false };
                outbox.frame(channel, &Performative::Disposition(disposition));
            });
        }
    }

    pub(super) fn on_disposition(&mut self, session: usize, disposition: Disposition) {
        match disposition.role {
            Role::Receiver => self.on_disposition_of_ours(session, disposition),
            Role::Sender => self.on_disposition_of_theirs(session, &disposition),
        }
    }

    /// Handles the receiver's states of deliveries we sent. Only deliveries that are unsettled are visited, because the
    /// peer chooses the range.
    fn on_disposition_of_ours(&mut self, session: usize, disposition: Disposition) {
        let Disposition { first, settled, state, .. } = disposition;
        let last = disposition.last.unwrap_or(first);
        if !settled && !state.as_ref().is_some_and(is_final) {
            return;
        }
        // An outcome in a transaction is provisional: others may follow, in and outside transactions.
        let is_terminal = !matches!(state, Some(DeliveryState::Transactional { .. }));
        let Some(session_state) = self.sessions.get_mut(session) else { return };
        let links = &mut self.links;
        let mut runs: SmallVec<[Run; 1]> = SmallVec::new();
        self.visits += session_state.outgoing.retain_range(first, last, |_, slot| {
            let Some(side) = links.get_mut(slot.link).and_then(Link::as_out) else { return false };
            let Some(delivery) = side.unsettled.get_mut(slot.delivery) else { return false };
            if settled || !delivery.outcome_reported {
                delivery.outcome_reported = is_terminal;
                extend_runs(&mut runs, slot, delivery.tag);
            }
            if settled {
                side.unsettled.remove(slot.delivery);
            }
            !settled
        });
        // The last run gets the state itself, the others a copy.
        let states = iter::repeat_n(state, runs.len());
        for (Run { link, first, tags }, state) in runs.into_iter().zip(states) {
            if let Some(link) = self.links.get(link).map(|link| link.id) {
                self.emit(Event::Disposition { link, first, tags, state, settled });
            }
        }
        if settled {
            self.schedule_session(session);
        }
    }

    /// Handles the sender's states of deliveries we received: relevant once it settles, or answers an outcome.
    fn on_disposition_of_theirs(&mut self, session: usize, disposition: &Disposition) {
        let Disposition { first, settled, ref state, .. } = *disposition;
        let Some(session_state) = self.sessions.get_mut(session) else { return };
        let last = disposition.last.unwrap_or(first);
        let mut answered = Vec::new();
        self.visits += session_state.incoming.retain_range(first, last, |delivery_id, slot| {
            slot.settled_by_peer |= settled;
            if slot.outcome_announced {
                answered.push(IncomingId { link: slot.link, delivery_id });
            }
            true
        });
        for id in answered {
            let state = state.clone();
            if settled {
                if let Some(key) = self.links.key(id.link) {
                    self.take_incoming(session, key, id);
                }
                self.emit(Event::Settled { id, state });
            } else if let Some(state) = state {
                self.emit(Event::Updated { id, state });
            }
        }
    }
}

/// Whether a state is an outcome (part 3.4) or carries one, as opposed to intermediate progress.
fn is_final(state: &DeliveryState) -> bool {
    match state {
        DeliveryState::Received { .. } => false,
        DeliveryState::Transactional { outcome, .. } => outcome.is_some(),
        _ => true,
    }
}

fn extend_runs(runs: &mut SmallVec<[Run; 1]>, slot: &OutgoingSlot, tag: DeliveryTag) {
    let recent = runs.iter_mut().rev().take(RUNS_LOOKED_BACK);
    let continued = recent.into_iter().find(|run| {
        run.link == slot.link
            && run.first.wrapping_add(u32::try_from(run.tags.len()).unwrap_or(0)) == slot.delivery
    });
    match continued {
        Some(run) => run.tags.push(tag),
        None => runs.push(Run { link: slot.link, first: slot.delivery, tags: smallvec![tag] }),
    }
}
