//! A frame that is given up after its beginning has arrived, because memory for the rest is short.

use bytes::{Buf, Bytes, BytesMut};

use super::LinkId;
use super::connection::{Connection, Phase};
use super::frames_in::FRAME_HEADER_BYTES;
use super::link::LinkPhase;
use crate::wire::frame::{FrameHeader, FrameKind, decode_body};
use crate::wire::performative::{Error, Performative, Transfer};

/// Number of bytes at the start of a frame that are searched for the performative of a transfer.
const PERFORMATIVE_BYTES_MAX: usize = 8 * 1024;

/// The missing part of a frame that was given up.
#[derive(Debug)]
pub(super) struct Skipped {
    left_bytes: usize,
    /// The link whose delivery ends with the frame.
    ends: Option<LinkId>,
}

/// A transfer whose performative has arrived with part of its payload.
struct Begun {
    channel: u16,
    transfer: Transfer,
    link: LinkId,
    left_bytes: usize,
}

impl Connection {
    /// Discards the transfer whose frame begins in `input`, including the part still to come. Its delivery is refused
    /// with `why` after its last frame. False if `input` begins with no such frame.
    pub fn give_up_frame(&mut self, input: &mut BytesMut, why: &Error) -> bool {
        let Some(Begun { channel, mut transfer, link, left_bytes }) = self.begun_transfer(input) else {
            return false;
        };
        let ends = !transfer.more && !transfer.aborted;
        transfer.more |= ends;
        self.skipped = Some(Skipped { left_bytes, ends: ends.then_some(link) });
        input.clear();
        self.input_left = 0;
        self.on_frame(channel, Performative::Transfer(transfer), Bytes::new());
        if let Some(key) = self.links.key(link) {
            self.give_up_partial(key, why);
        }
        true
    }

    fn begun_transfer(&self, input: &BytesMut) -> Option<Begun> {
        if self.phase != Phase::Open || self.held.is_some() || self.skipped.is_some() {
            return None;
        }
        let header = FrameHeader::decode(*input.first_chunk::<FRAME_HEADER_BYTES>()?).ok()?;
        let left_bytes = (header.size as usize).checked_sub(input.len()).filter(|left| *left > 0)?;
        if header.kind != FrameKind::Amqp || header.size > self.frame_bytes_max() {
            return None;
        }
        let body = input.get(header.body_offset as usize..)?;
        let body = Bytes::copy_from_slice(body.get(..PERFORMATIVE_BYTES_MAX).unwrap_or(body));
        let Ok(Some((Performative::Transfer(transfer), _))) = decode_body(body) else { return None };
        let session = self.sessions.get(*self.channels_in.get(&header.channel)?)?;
        let link = self.links.get(*session.handles_in.get(&transfer.handle)?)?;
        let is_attached = link.phase == LinkPhase::Attached;
        is_attached.then(|| Begun { channel: header.channel, transfer, link: link.id, left_bytes })
    }

    /// Discards the received bytes of a frame that was given up; false while more of it is to come.
    pub(super) fn skip(&mut self, input: &mut BytesMut) -> bool {
        let Some(skipped) = &mut self.skipped else { return true };
        let bytes = skipped.left_bytes.min(input.len());
        input.advance(bytes);
        skipped.left_bytes -= bytes;
        if skipped.left_bytes > 0 {
            return false;
        }
        let ended = self.skipped.take().and_then(|skipped| self.links.key(skipped.ends?));
        if let Some(Err(fault)) = ended.map(|key| self.refuse_given_up(key)) {
            self.on_fault(fault);
        }
        true
    }
}
