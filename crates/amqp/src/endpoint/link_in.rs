//! Links on which we receive: transfers, credit (parts 2.6.7 and 2.7.5).

use bytes::Bytes;

use super::condition::{self, Fault};
use super::connection::Connection;
use super::disposition::IncomingSlot;
use super::link::{Link, LinkPhase, Side};
use super::reassembly::{Complete, Partial};
use super::session::serial_distance;
use super::{Event, IncomingId, LinkId};
use crate::wire::performative::{DeliveryState, Error, Flow, Role, Transfer};

/// State of a link on which we receive.
#[derive(Debug)]
pub(super) struct LinkIn {
    /// Deliveries begun by the peer, as a serial number.
    pub(super) delivery_count: u32,
    /// Complete deliveries since attach.
    received: u64,
    /// Deliveries that the peer may still send.
    credit: u32,
    /// Credit is kept at this number less the unsettled deliveries; 0 leaves credit to the upper layer.
    credit_target: u32,
    /// A drain was requested and not answered yet.
    drain: bool,
    pub(super) flow_due: bool,
    /// Deliveries we have not settled yet.
    pub(super) unsettled: usize,
    pub(super) unsettled_bytes: usize,
    /// 0 for no limit.
    max_message_size: u64,
    partial: Option<Box<Partial>>,
    /// The resumed delivery whose further frames are ignored.
    ignored: Option<u32>,
}

impl LinkIn {
    pub(super) fn new(initial_delivery_count: Option<u32>) -> Self {
        Self {
            // .NET omits it although the specification demands it.
            delivery_count: initial_delivery_count.unwrap_or(0),
            received: 0,
            credit: 0,
            credit_target: 0,
            drain: false,
            flow_due: false,
            unsettled: 0,
            unsettled_bytes: 0,
            max_message_size: 0,
            partial: None,
            ignored: None,
        }
    }

    /// Opens the link: both sides have attached.
    pub(super) fn open(&mut self, max_message_size: Option<u64>, credit: u32) {
        self.max_message_size = max_message_size.unwrap_or(0);
        self.credit_target = credit;
        self.credit = credit;
    }

    pub(super) fn fill_flow(&self, flow: &mut Flow) {
        flow.delivery_count = Some(self.delivery_count);
        flow.link_credit = Some(self.credit);
        flow.drain = self.drain;
    }

    /// Unused credit, and complete deliveries since attach.
    pub(super) fn figures(&self) -> (u32, u64) {
        (self.credit, self.received)
    }

    pub(super) fn take_partial(&mut self) -> Option<Box<Partial>> {
        self.partial.take()
    }

    /// Whether more frames of the current delivery are to come.
    pub(super) fn is_within_delivery(&self) -> bool {
        self.partial.is_some()
    }

    /// Whether a transfer belongs to a resumed delivery (part 2.7.5). An unknown one is ignored, and all are unknown,
    /// because no state outlives a link.
    fn ignores(&mut self, transfer: &Transfer) -> bool {
        let goes_on = |ignored| transfer.delivery_id.is_none_or(|id| id == ignored);
        let ignored = match self.ignored.filter(|&ignored| goes_on(ignored)) {
            None if self.partial.is_none() && transfer.resume => transfer.delivery_id,
            ignored => ignored,
        };
        if ignored.is_some() && ignored != self.ignored {
            self.count_delivery();
        }
        self.ignored = ignored.filter(|_| transfer.more && !transfer.aborted);
        ignored.is_some()
    }

    /// Counts the beginning of a delivery. Missing credit is no error: Python sends without waiting for credit.
    fn count_delivery(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
    }

    /// Grants used credit again, in batches of half the target; returns whether a flow is due.
    pub(super) fn top_up(&mut self) -> bool {
        let unsettled = u32::try_from(self.unsettled).unwrap_or(u32::MAX);
        let wanted = self.credit_target.saturating_sub(unsettled);
        let used_up = wanted.saturating_sub(self.credit);
        if used_up < (self.credit_target / 2).max(1) {
            return false;
        }
        self.credit = wanted;
        !std::mem::replace(&mut self.flow_due, true)
    }

    /// The maximum size of a delivery in bytes, if the connection allows that much.
    fn bytes_max(&self, limit_bytes: usize) -> usize {
        match self.max_message_size {
            0 => limit_bytes,
            most => usize::try_from(most).map_or(limit_bytes, |most| most.min(limit_bytes)),
        }
    }

    fn exceeds_size(&self, bytes: usize) -> bool {
        self.max_message_size > 0 && bytes as u64 > self.max_message_size
    }
}

impl Connection {
    /// Sets the credit of a link on which we receive to a number that is not topped up, optionally with a drain
    /// (answered by [`Event::Drained`]).
    pub fn set_credit(&mut self, link: LinkId, credit: u32, drain: bool) {
        let Some(key) = self.links.key(link) else { return };
        let Some(state) = self.links.get_mut(key) else { return };
        let session = state.session;
        if let Some(side) = state.as_in() {
            side.credit_target = 0;
            side.credit = credit;
            side.drain = drain;
            side.flow_due = true;
            self.owe_flow(session, Some(key));
        }
    }

    pub(super) fn on_transfer(
        &mut self,
        session: usize,
        key: usize,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<(), Fault> {
        let Some(state) = self.sessions.get_mut(session) else { return Ok(()) };
        state.count_transfer_in();
        if state.flow_due {
            self.mark_dirty(session);
        }
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        if link.phase == LinkPhase::Detaching {
            return Ok(());
        }
        let Side::In(side) = &mut link.side else {
            return Err(Fault::link(
                key,
                condition::NOT_ALLOWED,
                "a transfer against the direction of the link",
            ));
        };
        if side.ignores(&transfer) {
            return self.top_up_credit(key, session);
        }
        let Some(partial) = side.partial.as_deref() else { return self.first_frame(key, transfer, payload) };
        if transfer.delivery_id.is_some_and(|id| id != partial.delivery_id) {
            let reason = "a transfer of another delivery before the last one is complete";
            return Err(Fault::link(key, condition::INVALID_FIELD, reason));
        }
        self.next_frame(key, transfer, &payload)
    }

    fn first_frame(&mut self, key: usize, transfer: Transfer, payload: Bytes) -> Result<(), Fault> {
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        let session = link.session;
        let Some(side) = link.as_in() else { return Ok(()) };
        let Some(delivery_id) = transfer.delivery_id else {
            let reason = "the first transfer of a delivery has no delivery-id";
            return Err(Fault::link(key, condition::INVALID_FIELD, reason));
        };
        side.count_delivery();
        if transfer.aborted {
            return self.top_up_credit(key, session);
        }
        if side.exceeds_size(payload.len()) {
            let more = transfer.more;
            let mut partial = Partial::start(delivery_id, transfer, &[]);
            partial.give_up(too_large(side.max_message_size));
            side.partial = Some(Box::new(partial));
            return if more { Ok(()) } else { self.refuse_given_up(key) };
        }
        if transfer.more {
            side.partial = Some(Box::new(Partial::start(delivery_id, transfer, &payload)));
            return self.count_reassembly(key, payload.len());
        }
        self.delivered(key, Complete::single(delivery_id, transfer, payload))
    }

    fn next_frame(&mut self, key: usize, transfer: Transfer, payload: &[u8]) -> Result<(), Fault> {
        let limit_bytes = self.reassembly_bytes_max();
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        let session = link.session;
        let Some(side) = link.as_in() else { return Ok(()) };
        let bytes_max = side.bytes_max(limit_bytes);
        let Some(partial) = side.partial.as_deref_mut() else { return Ok(()) };
        if transfer.aborted {
            self.reassembly_bytes -= partial.len();
            side.partial = None;
            return self.top_up_credit(key, session);
        }
        let more = transfer.more;
        let size = partial.len() + payload.len();
        if partial.given_up().is_some() || side.exceeds_size(size) {
            let why = too_large(side.max_message_size);
            let Some(partial) = side.partial.as_deref_mut() else { return Ok(()) };
            self.reassembly_bytes -= partial.len();
            partial.give_up(why);
            partial.append(transfer, payload, bytes_max);
            return if more { Ok(()) } else { self.refuse_given_up(key) };
        }
        let Some(partial) = side.partial.as_deref_mut() else { return Ok(()) };
        partial.append(transfer, payload, bytes_max);
        if more {
            return self.count_reassembly(key, payload.len());
        }
        self.reassembly_bytes -= size - payload.len();
        match side.take_partial() {
            Some(partial) => self.delivered(key, partial.complete()),
            None => Ok(()),
        }
    }

    /// Payload bytes of partly received deliveries.
    #[must_use]
    pub fn reassembly_bytes(&self) -> usize {
        self.reassembly_bytes
    }

    /// Discards all partly received deliveries, over all links, including their frames still to come; each is refused
    /// with `why` when its last frame has arrived.
    pub fn give_up_partial_deliveries(&mut self, why: &Error) {
        let is_partial = |link: &mut Link| {
            link.as_in().and_then(|side| side.partial.as_deref()).is_some_and(|partial| partial.len() > 0)
        };
        for link in self.links.iter_mut() {
            if is_partial(link) {
                self.reassembly_bytes -= give_up(link, why);
            }
        }
    }

    /// [`Self::give_up_partial_deliveries`] for one link.
    pub(super) fn give_up_partial(&mut self, key: usize, why: &Error) {
        if let Some(link) = self.links.get_mut(key) {
            self.reassembly_bytes -= give_up(link, why);
        }
    }

    /// Refuses a delivery that was given up because it exceeded the link's limit or memory was short. The error is in
    /// the outcome: after a detach instead, Python 7.15.0 reports an unknown error and JS 7.9.5 waits for a minute. If
    /// the delivery was sent settled, the link is detached. The upper layer learns that a transaction has lost work.
    pub(super) fn refuse_given_up(&mut self, key: usize) -> Result<(), Fault> {
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        let session = link.session;
        let Some(side) = link.as_in() else { return Ok(()) };
        let Some(partial) = side.take_partial() else { return Ok(()) };
        let error = partial.given_up().cloned().unwrap_or_else(|| too_large(side.max_message_size));
        let mut state = DeliveryState::Rejected(Some(error.clone()));
        if let Some(txn_id) = partial.txn_id() {
            state = DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: Some(Box::new(state)) };
            self.emit(Event::Refused { txn_id: txn_id.clone(), error: error.clone() });
        }
        if partial.is_settled() {
            return Err(Fault::Link(key, error));
        }
        self.add_settlement(session, Role::Receiver, partial.delivery_id, &state, true);
        self.top_up_credit(key, session)
    }

    /// Enforces the limit on the bytes of partly received deliveries.
    fn count_reassembly(&mut self, key: usize, bytes: usize) -> Result<(), Fault> {
        self.reassembly_bytes += bytes;
        let limit = self.reassembly_bytes_max();
        if self.reassembly_bytes <= limit {
            return Ok(());
        }
        let reason = format!("partly received deliveries of this connection exceed {limit} bytes");
        Err(Fault::link(key, condition::RESOURCE_LIMIT_EXCEEDED, reason))
    }

    fn delivered(&mut self, key: usize, delivery: Complete) -> Result<(), Fault> {
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        let (id, session) = (link.id, link.session);
        let Some(side) = link.as_in() else { return Ok(()) };
        side.received += 1;
        let Complete { delivery_id, tag, message_format, settled, state, payload } = delivery;
        if !settled {
            let Some(session_state) = self.sessions.get_mut(session) else { return Ok(()) };
            let slot = IncomingSlot::new(id, payload.len());
            if session_state.incoming.insert(delivery_id, slot).is_err() {
                let reason = format!("delivery-id {delivery_id} is in use");
                return Err(Fault::session(session, condition::INVALID_FIELD, reason));
            }
            side.unsettled += 1;
            side.unsettled_bytes += payload.len();
            self.backlog.add(payload.len());
        }
        let is_flow_due = side.top_up();
        let id = IncomingId { link: id, delivery_id };
        self.emit(Event::Message { id, tag, settled, message_format, state, payload });
        if is_flow_due {
            self.owe_flow(session, Some(key));
        }
        Ok(())
    }

    /// Grants credit again when enough has been used.
    pub(super) fn top_up_credit(&mut self, key: usize, session: usize) -> Result<(), Fault> {
        if self.links.get_mut(key).and_then(Link::as_in).is_some_and(LinkIn::top_up) {
            self.owe_flow(session, Some(key));
        }
        Ok(())
    }

    /// Handles the sender's flow: it has advanced its delivery-count over credit that it returned.
    pub(super) fn on_flow_from_sender(&mut self, key: usize, flow: &Flow) {
        let Some(link) = self.links.get_mut(key) else { return };
        let (id, session, attached) = (link.id, link.session, link.phase == LinkPhase::Attached);
        let Some(side) = link.as_in() else { return };
        if let Some(count) = flow.delivery_count {
            let given_back = serial_distance(side.delivery_count, count);
            side.delivery_count = side.delivery_count.wrapping_add(given_back);
            side.credit = side.credit.saturating_sub(given_back);
        }
        let drained = side.drain && side.credit == 0;
        if drained {
            side.drain = false;
        }
        if flow.echo && attached {
            side.flow_due = true;
            self.owe_flow(session, Some(key));
        }
        if drained {
            self.emit(Event::Drained { link: id });
        }
    }
}

/// Discards the partly received delivery of a link; returns its size in bytes.
fn give_up(link: &mut Link, why: &Error) -> usize {
    let Some(partial) = link.as_in().and_then(|side| side.partial.as_deref_mut()) else { return 0 };
    let bytes = partial.len();
    partial.give_up(why.clone());
    bytes
}

fn too_large(max_message_size: u64) -> Error {
    let reason = format!("the message exceeds the maximum of {max_message_size} bytes");
    condition::error(condition::MESSAGE_SIZE_EXCEEDED, reason)
}
