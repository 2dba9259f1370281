//! Input: splits bytes into frames, passes each to its handler, and ends what a protocol error affects.

use bytes::{Buf, Bytes, BytesMut};

use super::condition::{self, Fault, error};
use super::connection::{Connection, Phase};
use super::disposition::IncomingSlot;
use super::limits::{EVENTS_MAX, VISITS_MAX};
use super::link::{LinkPhase, Side};
use super::sasl::SaslPhase;
use super::session::SessionPhase;
use super::{Event, LinkId, NowMs};
use crate::wire::frame::{FrameHeader, FrameKind, take_performative};
use crate::wire::performative::{Performative, Transfer};

pub(super) const FRAME_HEADER_BYTES: usize = 8;

impl Connection {
    /// Handles the complete frames at the start of `input` and leaves the rest. May stop early when an internal queue
    /// is full, or after much work: call again after draining events and output (see [`Self::has_input_work`]).
    pub fn handle_input(&mut self, input: &mut BytesMut, now: NowMs) {
        if input.len() > self.input_left {
            self.timers.last_input = now;
        }
        self.visits = 0;
        while self.visits < VISITS_MAX && self.accepts_input() && self.skip(input) {
            let advanced = match (self.held.take(), self.phase) {
                (Some((channel, performative, payload)), _) => {
                    self.on_frame(channel, performative, payload);
                    true
                }
                (None, Phase::Header | Phase::AmqpHeader) => self.take_header(input),
                (None, _) => self.take_frame(input),
            };
            if !advanced {
                break;
            }
        }
        if self.phase == Phase::Closed {
            input.clear();
        }
        self.input_left = input.len();
    }

    /// Whether another frame may be handled now: not while too many events or too much output is queued, nor while an
    /// answer of the upper layer (to [`Event::Authenticate`], to an attach or a delivery behind which transfers wait)
    /// is needed first.
    #[must_use]
    #[inline]
    pub fn accepts_input(&self) -> bool {
        self.events.len() < EVENTS_MAX
            && self.outbox.len() < self.outbox_bytes_max()
            && !matches!(self.phase, Phase::Closed | Phase::Sasl(SaslPhase::Deciding))
            && !self
                .held_transfer()
                .is_some_and(|(session, link, held)| self.has_to_wait(session, link, held))
    }

    /// The link of the transfer that waits, with all input behind it, until the upper layer accepts or refuses the link.
    #[must_use]
    pub fn link_of_waiting_transfer(&self) -> Option<LinkId> {
        let (_, link, _) = self.held_transfer()?;
        let link = self.links.get(link)?;
        (link.phase == LinkPhase::Requested).then_some(link.id)
    }

    /// Whether `input` starts with a whole frame or header, or with something that is already invalid.
    pub(super) fn is_frame_complete(&self, input: &BytesMut) -> bool {
        if self.skipped.is_some() {
            return !input.is_empty();
        }
        let Some(&header) = input.first_chunk::<FRAME_HEADER_BYTES>() else { return false };
        if matches!(self.phase, Phase::Header | Phase::AmqpHeader) {
            return true;
        }
        // An invalid frame header counts as complete, so that it is answered with an error.
        FrameHeader::decode(header).map_or(true, |header| {
            header.size > self.frame_bytes_max() || input.len() >= header.size as usize
        })
    }

    /// Handles one frame; returns whether there was a complete one.
    fn take_frame(&mut self, input: &mut BytesMut) -> bool {
        let Some(&bytes) = input.first_chunk::<FRAME_HEADER_BYTES>() else { return false };
        let header = match FrameHeader::decode(bytes) {
            Ok(header) if header.size <= self.frame_bytes_max() => header,
            Ok(header) => {
                self.refuse_frame(header.size);
                return false;
            }
            Err(reason) => {
                self.fail(error(condition::FRAMING_ERROR, reason.to_string()));
                return false;
            }
        };
        if input.len() < header.size as usize {
            return false;
        }
        let mut body = input.split_to(header.size as usize).freeze();
        body.advance((header.body_offset as usize).min(body.len()));
        if self.is_too_long_unauthenticated(&body) {
            self.refuse_frame(header.size);
            return false;
        }
        match (header.kind, self.phase) {
            (FrameKind::Sasl, Phase::Sasl(phase)) => self.on_sasl_frame(phase, body),
            (FrameKind::Amqp, Phase::Opening | Phase::Open | Phase::Closing) => {
                self.on_body(header.channel, body);
            }
            _ => self.fail(error(condition::FRAMING_ERROR, "unexpected kind of frame")),
        }
        true
    }

    fn refuse_frame(&mut self, bytes: u32) {
        let when = if self.is_limited { " before authentication" } else { "" };
        let reason = format!("a frame of {bytes} bytes exceeds the limit{when}");
        self.fail(error(condition::FRAMING_ERROR, reason));
    }

    fn on_body(&mut self, channel: u16, mut body: Bytes) {
        match take_performative(&mut body) {
            Ok(Some(performative)) => self.on_frame(channel, performative, body),
            Ok(None) => tracing::trace!(target: "peeklock_amqp::frames", "heartbeat in"),
            Err(reason) => self.fail(error(condition::DECODE_ERROR, reason.to_string())),
        }
    }

    pub(super) fn on_frame(&mut self, channel: u16, performative: Performative, payload: Bytes) {
        tracing::trace!(
            target: "peeklock_amqp::frames", channel, ?performative, payload_bytes = payload.len(), "in"
        );
        if let Err(fault) = self.dispatch(channel, performative, payload) {
            self.on_fault(fault);
        }
    }

    /// Ends the link, session or connection affected by a protocol error.
    pub(super) fn on_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Connection(error) => self.fail(error),
            Fault::Session(key, error) => self.end_session(key, Some(error), true),
            Fault::Link(key, error) => self.detach_link(key, Some(error)),
        }
    }

    fn dispatch(&mut self, channel: u16, performative: Performative, payload: Bytes) -> Result<(), Fault> {
        match performative {
            Performative::Close(error) => {
                self.on_close(error);
                Ok(())
            }
            _ if self.phase == Phase::Closing => Ok(()),
            Performative::Open(open) => self.on_open(open),
            _ if self.phase == Phase::Opening => {
                Err(Fault::connection(condition::NOT_ALLOWED, "the first frame has to be open"))
            }
            Performative::Begin(begin) => self.on_begin(channel, &begin),
            performative => self.dispatch_to_session(channel, performative, payload),
        }
    }

    fn dispatch_to_session(
        &mut self,
        channel: u16,
        frame: Performative,
        payload: Bytes,
    ) -> Result<(), Fault> {
        let Some(&key) = self.channels_in.get(&channel) else {
            // P sends `end` and then detaches the links that ended with the session.
            if self.channels_ended.contains(&channel) && !matches!(frame, Performative::Attach(_)) {
                return Ok(());
            }
            let reason = format!("no session has begun on channel {channel}");
            return Err(Fault::connection(condition::NOT_ALLOWED, reason));
        };
        if self.sessions.get(key).is_some_and(|session| session.phase == SessionPhase::Ending) {
            if let Performative::End(_) = frame {
                self.forget_session(key);
            }
            return Ok(());
        }
        match frame {
            Performative::Transfer(transfer) => {
                let link = self.link_at(key, transfer.handle)?;
                if self.has_to_wait(key, link, &transfer) {
                    self.held = Some((channel, Performative::Transfer(transfer), payload));
                    return Ok(());
                }
                self.on_transfer(key, link, transfer, payload)
            }
            Performative::Attach(attach) => self.on_attach(key, attach),
            Performative::Flow(flow) => self.on_flow(key, &flow),
            Performative::Disposition(disposition) => {
                self.on_disposition(key, disposition);
                Ok(())
            }
            Performative::Detach(detach) => {
                self.on_detach(key, detach);
                Ok(())
            }
            Performative::End(error) => {
                self.on_end(key, error);
                Ok(())
            }
            Performative::Open(_) | Performative::Begin(_) | Performative::Close(_) => Ok(()),
        }
    }

    /// Whether the upper layer is not ready for a transfer: on a link that it has not accepted or refused yet, or with
    /// the delivery-id of a delivery that it has not settled yet. Python's threads share a link without a lock and give
    /// several requests the same delivery-id.
    fn has_to_wait(&self, session: usize, link: usize, transfer: &Transfer) -> bool {
        let Some(link) = self.links.get(link) else { return false };
        match (link.phase, &link.side) {
            (LinkPhase::Requested, _) => true,
            (LinkPhase::Attached, Side::In(side)) if !transfer.resume && !side.is_within_delivery() => {
                let incoming = self.sessions.get(session).map(|session| &session.incoming);
                let slot = incoming.zip(transfer.delivery_id).and_then(|(slots, id)| slots.get(id));
                slot.is_some_and(IncomingSlot::awaits_settlement)
            }
            _ => false,
        }
    }

    /// The transfer that is held, with the keys of its session and link.
    fn held_transfer(&self) -> Option<(usize, usize, &Transfer)> {
        let (channel, Performative::Transfer(transfer), _) = self.held.as_ref()? else { return None };
        let session = *self.channels_in.get(channel)?;
        let link = *self.sessions.get(session)?.handles_in.get(&transfer.handle)?;
        Some((session, link, transfer))
    }

    /// Queues an event.
    pub(super) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }
}
