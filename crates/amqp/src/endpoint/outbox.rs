//! Frames on their way to the socket.

use bytes::{Bytes, BytesMut};

use crate::wire::frame::{encode_frame, encode_heartbeat, encode_sasl};
use crate::wire::performative::{Performative, SaslFrame};

/// Encoded bytes in the order in which they leave.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Protocol headers and SASL frames: they go first.
    handshake: BytesMut,
    /// AMQP frames, including small payloads.
    frames: BytesMut,
    /// AMQP frames may leave: the AMQP protocol header is in `handshake` or gone.
    pub(super) open: bool,
}

impl Outbox {
    pub(super) fn header(&mut self, protocol_id: u8) {
        self.handshake.extend_from_slice(&[b'A', b'M', b'Q', b'P', protocol_id, 1, 0, 0]);
    }

    pub(super) fn sasl(&mut self, frame: &SaslFrame) {
        // Not the frame itself: it may hold a password.
        tracing::trace!(target: "peeklock_amqp::frames", "sasl out");
        encode_sasl(frame, &mut self.handshake);
    }

    pub(super) fn frame(&mut self, channel: u16, performative: &Performative) {
        self.frame_head(channel, performative, 0);
    }

    /// A frame whose payload follows through [`Self::payload`].
    pub(super) fn frame_head(&mut self, channel: u16, performative: &Performative, payload_bytes: usize) {
        tracing::trace!(target: "peeklock_amqp::frames", channel, ?performative, payload_bytes, "out");
        encode_frame(channel, performative, payload_bytes, &mut self.frames);
    }

    /// Copies a payload behind its frame.
    pub(super) fn payload(&mut self, slice: &[u8]) {
        self.frames.extend_from_slice(slice);
    }

    /// Puts a payload behind its frame without copying it: all frames so far go to `output`.
    pub(super) fn payload_slice(&mut self, slice: Bytes, output: &mut Vec<Bytes>) {
        self.take(output);
        output.push(slice);
    }

    pub(super) fn heartbeat(&mut self) {
        tracing::trace!(target: "peeklock_amqp::frames", "heartbeat out");
        encode_heartbeat(&mut self.frames);
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.frames.reserve(bytes);
    }

    pub(super) fn len(&self) -> usize {
        self.handshake.len() + self.frames.len()
    }

    /// Whether [`Self::take`] would give something.
    pub(super) fn has_sendable(&self) -> bool {
        !self.handshake.is_empty() || (self.open && !self.frames.is_empty())
    }

    /// Moves what may leave to `output` and says how many bytes that was.
    pub(super) fn take(&mut self, output: &mut Vec<Bytes>) -> usize {
        let mut taken = self.handshake.len();
        if taken > 0 {
            output.push(std::mem::take(&mut self.handshake).freeze());
        }
        if self.open && !self.frames.is_empty() {
            taken += self.frames.len();
            output.push(self.frames.split().freeze());
        }
        taken
    }

    /// Gives memory back: an idle connection holds none.
    pub(super) fn release(&mut self) {
        if self.frames.is_empty() {
            self.frames = BytesMut::new();
        }
    }
}
