//! Links on which we send: credit, drain, the queue (part 2.6.7).

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::SmallVec;

use super::condition::{self, Fault};
use super::connection::Connection;
use super::leaving::{End, Gate};
use super::link::{Link, LinkPhase};
use super::session::serial_distance;
use super::unsettled::SerialWindow;
use super::{DeliveryTag, Event, LinkId, Outgoing, OutgoingId};
use crate::wire::performative::{DeliveryState, Flow};

/// A delivery in a link's queue.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) tag: Option<DeliveryTag>,
    pub(super) settled: bool,
    pub(super) message_format: u32,
    /// The delivery state of a transfer in a transaction.
    pub(super) state: Option<Box<DeliveryState>>,
    pub(super) payload: SmallVec<[Bytes; 3]>,
    /// Size of the whole payload.
    pub(super) bytes: usize,
}

/// How much of the first delivery of a queue has been sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) wire_id: u32,
    /// Bytes of the payload that have been sent.
    pub(super) sent: usize,
}

/// A delivery that is being sent or has been, and is not settled.
#[derive(Debug)]
pub(super) struct UnsettledOut {
    pub(super) tag: DeliveryTag,
    /// Delivery-id on the session.
    pub(super) wire_id: u32,
    /// A terminal outcome has been reported to the upper layer, so repetitions are ignored.
    pub(super) outcome_reported: bool,
}

/// State of a link on which we send.
#[derive(Debug)]
pub(super) struct LinkOut {
    initial_delivery_count: u32,
    /// Deliveries begun plus credit returned, as a serial number.
    pub(super) delivery_count: u32,
    pub(super) credit: u32,
    /// Deliveries begun since attach.
    pub(super) begun: u64,
    /// Deliveries and payload bytes sent completely.
    pub(super) transmitted: u64,
    pub(super) transmitted_bytes: u64,
    pub(super) queue: VecDeque<Queued>,
    pub(super) queued_bytes: usize,
    pub(super) progress: Option<Progress>,
    /// By the number in [`OutgoingId`].
    pub(super) unsettled: SerialWindow<UnsettledOut>,
    pub(super) next_id: u32,
    /// The peer has requested a drain, and whether the upper layer has reported that it has no more messages.
    pub(super) drain: bool,
    pub(super) drain_answer_due: bool,
    pub(super) flow_due: bool,
    /// In the session's list of ready links.
    pub(super) scheduled: bool,
    /// Deliveries wait until the upper layer releases them.
    pub(super) gate: Option<Box<Gate>>,
    /// An end postponed until leaving deliveries have been sent.
    pub(super) end: Option<Box<End>>,
    /// Whether the upper layer answers a detach of the peer.
    pub(super) holds_end: bool,
    limit_reported: u64,
    /// Larger messages end the link; 0 for no limit.
    message_bytes_max: u64,
    /// A flow received before the link was accepted.
    early_flow: Option<Box<Flow>>,
}

impl Default for LinkOut {
    fn default() -> Self {
        Self {
            initial_delivery_count: 0,
            delivery_count: 0,
            credit: 0,
            begun: 0,
            transmitted: 0,
            transmitted_bytes: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            progress: None,
            unsettled: SerialWindow::new(0),
            next_id: 0,
            drain: false,
            drain_answer_due: false,
            flow_due: false,
            scheduled: false,
            gate: None,
            end: None,
            holds_end: false,
            limit_reported: 0,
            message_bytes_max: 0,
            early_flow: None,
        }
    }
}

impl LinkOut {
    /// Opens the link: both sides have attached.
    pub(super) fn open(&mut self, initial_delivery_count: u32) {
        self.initial_delivery_count = initial_delivery_count;
        self.delivery_count = initial_delivery_count;
    }

    /// Whether the link has a transfer frame it may send, or an answer to a drain.
    pub(super) fn may_transmit(&self) -> bool {
        self.progress.is_some() || (self.credit > 0 && !self.queue.is_empty() && self.is_open())
    }

    /// Whether queued data remains that credit allows to send, now or later.
    fn has_more(&self) -> bool {
        self.progress.is_some() || (self.credit > 0 && !self.queue.is_empty())
    }

    pub(super) fn fill_flow(&self, flow: &mut Flow) {
        flow.delivery_count = Some(self.delivery_count);
        flow.link_credit = Some(self.credit);
        flow.available = self.available();
        flow.drain = self.drain;
    }

    /// Number of messages waiting for credit, as far as known: messages that the upper layer has not queued are not
    /// counted, and 0 is known only when the upper layer has reported it.
    fn available(&self) -> Option<u32> {
        match self.queue.len() {
            0 if self.drain && self.credit == 0 => Some(0),
            0 => None,
            queued => Some(u32::try_from(queued).unwrap_or(u32::MAX)),
        }
    }

    /// Returns unused credit if the drain may be answered now; returns whether a flow is due.
    pub(super) fn answer_drain(&mut self) -> bool {
        if !self.drain_answer_due || self.has_more() {
            return false;
        }
        self.drain_answer_due = false;
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
        self.limit_reported = self.begun;
        true
    }

    /// Applies the receiver's credit; returns the new limit if the upper layer has to know it.
    fn on_flow(&mut self, flow: &Flow) -> Option<u64> {
        if let Some(granted) = flow.link_credit {
            // Absent until the receiver has seen our attach: it has received nothing yet.
            let on_the_way = match flow.delivery_count {
                Some(count) => serial_distance(count, self.delivery_count),
                None => serial_distance(self.initial_delivery_count, self.delivery_count),
            };
            // Leaving deliveries count as sent before this flow, as far as the peer can tell.
            let leaving = u32::try_from(self.reserved()).unwrap_or(u32::MAX);
            self.credit = granted.saturating_sub(on_the_way).max(leaving);
        }
        // The upper layer is told of each drain, and may have more messages than for the one before.
        self.drain_answer_due = false;
        let was_draining = std::mem::replace(&mut self.drain, flow.drain);
        let limit = self.begun + u64::from(self.credit);
        let news = limit != self.limit_reported || flow.drain || was_draining;
        self.limit_reported = limit;
        news.then_some(limit)
    }
}

impl Connection {
    /// Queues a delivery; it is sent when link credit and session window allow. `None` when the link no longer exists.
    pub fn send(&mut self, link: LinkId, message: Outgoing) -> Option<OutgoingId> {
        self.enqueue(link, message, None)
    }

    /// [`Self::send`] with a state for the transfer: part of a transaction (part 4.4.1).
    pub fn send_with_state(
        &mut self,
        link: LinkId,
        message: Outgoing,
        state: DeliveryState,
    ) -> Option<OutgoingId> {
        self.enqueue(link, message, Some(Box::new(state)))
    }

    /// Ends the link when a message larger than `message_bytes_max` is to be sent on it (reported by
    /// [`Event::Detached`]); `None` or 0 for no limit. To be called when the link is accepted, with the receiver's
    /// max-message-size (part 2.7.3).
    pub fn limit_deliveries(&mut self, link: LinkId, message_bytes_max: Option<u64>) {
        let key = self.links.key(link);
        if let Some(side) = key.and_then(|key| self.links.get_mut(key)).and_then(Link::as_out) {
            side.message_bytes_max = message_bytes_max.unwrap_or(0);
        }
    }

    fn enqueue(
        &mut self,
        link: LinkId,
        message: Outgoing,
        state: Option<Box<DeliveryState>>,
    ) -> Option<OutgoingId> {
        let key = self.links.key(link)?;
        let side = self.links.get_mut(key).and_then(Link::as_out)?;
        let bytes = message.payload.iter().map(Bytes::len).sum();
        if side.message_bytes_max > 0 && bytes as u64 > side.message_bytes_max {
            let limit = side.message_bytes_max;
            let reason =
                format!("a message of {bytes} bytes exceeds the receiver's maximum of {limit} bytes");
            let error = condition::error(condition::MESSAGE_SIZE_EXCEEDED, reason);
            self.detach_after_leaving(key, Some(error));
            return None;
        }
        side.queue.push_back(Queued {
            tag: message.tag,
            settled: message.settled,
            message_format: message.message_format,
            state,
            payload: message.payload,
            bytes,
        });
        side.queued_bytes += bytes;
        self.pending_bytes += bytes;
        let delivery_id = side.next_id;
        side.next_id = side.next_id.wrapping_add(1);
        if !side.scheduled {
            self.schedule_link(key);
        }
        Some(OutgoingId { link, delivery_id })
    }

    /// Deliveries of this link written to [`Self::poll_transmit`]'s output so far (number, payload bytes): the basis
    /// for granting the engine more.
    #[must_use]
    pub fn transmitted(&self, link: LinkId) -> (u64, u64) {
        let side = self.links.key(link).and_then(|key| self.links.get(key)).and_then(Link::out);
        side.map_or((0, 0), |side| (side.transmitted, side.transmitted_bytes))
    }

    /// Payload bytes queued by [`Self::send`] and not yet transmitted, over all links.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Answers a drain: once queued deliveries have been sent, advances the delivery-count over the unused credit and
    /// sends a flow.
    pub fn drained(&mut self, link: LinkId) {
        let Some(key) = self.links.key(link) else { return };
        let side = self.links.get_mut(key).and_then(Link::as_out);
        if let Some(side) = side.filter(|side| side.drain) {
            side.drain_answer_due = true;
            self.answer_drain(key);
        }
    }

    /// Answers a drain if nothing is left to send; returns whether it did.
    pub(super) fn answer_drain(&mut self, key: usize) -> bool {
        let Some(link) = self.links.get_mut(key) else { return false };
        let session = link.session;
        let Some(side) = link.as_out() else { return false };
        let answered = side.answer_drain();
        if answered {
            side.flow_due = true;
            self.owe_flow(session, Some(key));
        }
        answered
    }

    /// Refuses credit in a transaction (transactional acquisition, part 4.4.3), because serving it outside the
    /// transaction would be wrong.
    pub(super) fn check_flow(key: usize, flow: &Flow) -> Result<(), Fault> {
        if flow.properties.iter().any(|(name, _)| &**name == "txn-id") {
            let reason = "Receiving is not part of a transaction: a flow with a txn-id is not supported.";
            return Err(Fault::link(key, condition::NOT_IMPLEMENTED, reason));
        }
        Ok(())
    }

    /// Handles a flow of the receiver.
    pub(super) fn on_flow_from_receiver(&mut self, key: usize, flow: &Flow) {
        let Some(link) = self.links.get_mut(key) else { return };
        let (id, session, phase) = (link.id, link.session, link.phase);
        let Some(side) = link.as_out() else { return };
        if phase != LinkPhase::Attached {
            // Properties can take forty times as much memory as on the wire, and have no effect.
            side.early_flow = Some(Box::new(Flow { properties: Vec::new(), ..flow.clone() }));
            return;
        }
        let limit = side.on_flow(flow);
        // The answer to a drain stands for those to earlier flows that are not written yet.
        side.flow_due &= !flow.drain;
        // A drain is answered once, when complete: an earlier echo with credit left makes rhea complain.
        let echo = flow.echo && !flow.drain;
        side.flow_due |= echo;
        if side.flow_due {
            self.owe_flow(session, Some(key));
        }
        if let Some(limit) = limit {
            self.emit(Event::Credit { link: id, limit, drain: flow.drain });
        }
        self.schedule_link(key);
    }

    /// Applies credit from a pipelined flow when the link is accepted.
    pub(super) fn replay_early_flow(&mut self, key: usize) {
        let early = self.links.get_mut(key).and_then(Link::as_out).and_then(|side| side.early_flow.take());
        if let Some(flow) = early {
            self.on_flow_from_receiver(key, &flow);
        }
    }
}
