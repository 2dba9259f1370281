//! Deliveries of the client: whole, in several frames between which others are sent, aborted, in batches.

use bytes::Bytes;
use peeklock_amqp::wire::performative::{Performative, Tag, Transfer};

use super::client::Client;
use super::link::{Link, Purpose, Rest, Sent};
use super::messages::{Place, encode, encode_batch};
use super::pipe::MESSAGE_BYTES_MAX;
use super::transacting::in_transaction;

/// Bytes of a transfer frame around its payload, at most.
const TRANSFER_BYTES: usize = 80;
/// The message-format of batches.
const BATCH: u32 = 0x8001_3700;

impl Client<'_> {
    pub(crate) fn send(
        &mut self,
        number: u8,
        (bytes, settled, batch): (usize, bool, u8),
        frames_now: u8,
        work: Option<u8>,
    ) {
        let may_send =
            |link: &mut Link| link.sends().is_some_and(|side| side.credit > 0 && side.partial.is_none());
        let Some(key) = self.pick_link(number, may_send) else { return };
        let work = work.and_then(|number| self.pick_transaction(number));
        let settled = settled && work.is_none();
        let messages: Vec<u32> = (0..batch.max(1)).map(|_| self.messages.create()).collect();
        let payload = match batch {
            0 => encode(messages[0], bytes),
            _ => encode_batch(&messages.iter().map(|&id| encode(id, bytes)).collect::<Vec<_>>()),
        };
        let is_valid = payload.len() as u64 <= MESSAGE_BYTES_MAX;
        let session = &mut self.sessions[self.links[key].session];
        let delivery_id = session.next_delivery_id;
        session.next_delivery_id = delivery_id.wrapping_add(1);
        let Some(side) = self.links[key].sends() else { return };
        side.credit -= 1;
        side.delivery_count = side.delivery_count.wrapping_add(1);
        let is_valid = is_valid && !side.is_doomed;
        side.partial = Some(Rest { payload, delivery_id, settled, messages, is_valid, work });
        let format = if batch == 0 { 0 } else { BATCH };
        self.frame(key, Some(format));
        self.frames(key, frames_now);
    }

    pub(crate) fn send_more(&mut self, number: u8, frames: u8) {
        if let Some(key) = self.pick_link(number, |link| link.sends().is_some_and(|s| s.partial.is_some())) {
            self.frames(key, frames);
        }
    }

    fn frames(&mut self, key: usize, frames: u8) {
        for _ in 0..frames {
            if self.links[key].sends().is_some_and(|side| side.partial.is_some()) {
                self.frame(key, None);
            }
        }
    }

    /// Sends the next frame of the delivery of a link; the first has a message-format.
    fn frame(&mut self, key: usize, format: Option<u32>) {
        let room = self.setup.frame_bytes_max as usize - TRANSFER_BYTES;
        let (session, handle) = (self.links[key].session, self.links[key].handle);
        let Some(side) = self.links[key].sends() else { return };
        let Some(rest) = &mut side.partial else { return };
        let chunk = rest.payload.split_to(room.min(rest.payload.len()));
        let more = !rest.payload.is_empty();
        let transfer = Transfer {
            handle,
            delivery_id: format.map(|_| rest.delivery_id),
            delivery_tag: format.map(|_| Tag::from_slice(&rest.delivery_id.to_be_bytes())),
            message_format: format,
            settled: Some(rest.settled),
            state: rest.work.as_ref().map(|(_, id)| Box::new(in_transaction(id, None))),
            more,
            ..Transfer::default()
        };
        if !more {
            let Some(Rest { delivery_id, settled, messages, is_valid, work, .. }) = side.partial.take()
            else {
                return;
            };
            if let Some((number, _)) = work {
                let is_ignored = side.is_doomed;
                let is_valid = self.staged(number, &messages, is_valid, is_ignored);
                let purpose = Purpose::Work(number);
                let sent = Sent { link: key, messages: Vec::new(), is_valid, purpose };
                self.sessions[session].sent.insert(delivery_id, sent);
            } else if settled {
                side.is_doomed |= !is_valid;
                self.messages.stored(&messages, is_valid);
            } else {
                self.sessions[session]
                    .sent
                    .insert(delivery_id, Sent { link: key, messages, is_valid, purpose: Purpose::Message });
            }
        }
        self.say_transfer(session, transfer, &chunk);
    }

    pub(crate) fn say_transfer(&mut self, session: usize, transfer: Transfer, payload: &Bytes) {
        let session = &mut self.sessions[session];
        session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
        self.pipe.say(session.channel, Performative::Transfer(transfer), payload);
    }

    pub(crate) fn abort(&mut self, number: u8) {
        let Some(key) = self.pick_link(number, |link| link.sends().is_some_and(|s| s.partial.is_some()))
        else {
            return;
        };
        let (session, handle) = (self.links[key].session, self.links[key].handle);
        let rest = self.links[key].sends().and_then(|side| side.partial.take());
        rest.into_iter().flat_map(|rest| rest.messages).for_each(|id| self.messages.set(id, Place::Gone));
        let transfer = Transfer { handle, aborted: true, more: true, ..Transfer::default() };
        self.say_transfer(session, transfer, &Bytes::new());
    }
}
