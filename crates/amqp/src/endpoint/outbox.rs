//! Encoded frames waiting for the socket.

use bytes::{Bytes, BytesMut};

use crate::wire::frame::{encode_frame, encode_heartbeat, encode_sasl, encode_transfer};
use crate::wire::performative::{DeliveryState, Error, Performative, SaslFrame, Transfer};

/// Encoded bytes in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Protocol headers and SASL frames: they are sent first.
    handshake: BytesMut,
    /// AMQP frames, including small payloads.
    frames: BytesMut,
    /// The peer's max-frame-size in bytes; `None` until its open has arrived.
    frame_bytes_max: Option<usize>,
    /// AMQP frames may be sent: the AMQP protocol header is in `handshake` or has been sent.
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

    /// Sets the peer's max-frame-size, in bytes.
    pub(super) fn limit_frames(&mut self, bytes_max: u32) {
        self.frame_bytes_max = usize::try_from(bytes_max).ok();
    }

    /// Appends a frame. If it exceeds the peer's max-frame-size, its error description is shortened.
    pub(super) fn frame(&mut self, channel: u16, performative: &Performative) {
        if let Err(excess_bytes) = self.frame_if_it_fits(channel, performative) {
            let mut shortened = performative.clone();
            if let Some(error) = error_of(&mut shortened) {
                shorten(error, excess_bytes);
            }
            self.frame_head(channel, &shortened);
        }
    }

    /// Appends a frame unless it exceeds the peer's max-frame-size; the error is the excess in bytes.
    pub(super) fn frame_if_it_fits(
        &mut self,
        channel: u16,
        performative: &Performative,
    ) -> Result<(), usize> {
        let before = self.frames.len();
        self.frame_head(channel, performative);
        let bytes = self.frames.len() - before;
        match self.frame_bytes_max {
            Some(bytes_max) if bytes > bytes_max => {
                self.frames.truncate(before);
                Err(bytes - bytes_max)
            }
            _ => Ok(()),
        }
    }

    fn frame_head(&mut self, channel: u16, performative: &Performative) {
        tracing::trace!(target: "peeklock_amqp::frames", channel, ?performative, "out");
        encode_frame(channel, performative, 0, &mut self.frames);
    }

    /// A transfer whose payload follows through [`Self::payload`].
    pub(super) fn transfer(&mut self, channel: u16, transfer: &Transfer, payload_bytes: usize) {
        tracing::trace!(target: "peeklock_amqp::frames", channel, ?transfer, payload_bytes, "out");
        encode_transfer(channel, transfer, payload_bytes, &mut self.frames);
    }

    /// Copies a payload behind its frame.
    pub(super) fn payload(&mut self, slice: &[u8]) {
        self.frames.extend_from_slice(slice);
    }

    /// Appends a payload to its frame without copying it: all frames so far are moved to `output`.
    pub(super) fn payload_slice(&mut self, slice: Bytes, output: &mut Vec<Bytes>) {
        self.take(output);
        output.push(slice);
    }

    pub(super) fn heartbeat(&mut self) {
        tracing::trace!(target: "peeklock_amqp::frames", "heartbeat out");
        encode_heartbeat(&mut self.frames);
    }

    /// Free space for frames without reallocation, in bytes.
    pub(super) fn spare(&self) -> usize {
        self.frames.capacity() - self.frames.len()
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.frames.reserve(bytes);
    }

    pub(super) fn len(&self) -> usize {
        self.handshake.len() + self.frames.len()
    }

    /// Whether [`Self::take`] would return something.
    pub(super) fn has_sendable(&self) -> bool {
        !self.handshake.is_empty() || (self.open && !self.frames.is_empty())
    }

    /// Moves the bytes that may be sent to `output` and returns their number.
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

    /// Frees the buffers: an idle connection holds none.
    pub(super) fn release(&mut self) {
        if self.frames.is_empty() {
            self.frames = BytesMut::new();
        }
    }
}

/// The error that a frame carries.
fn error_of(performative: &mut Performative) -> Option<&mut Error> {
    match performative {
        Performative::Detach(detach) => detach.error.as_mut(),
        Performative::End(error) | Performative::Close(error) => error.as_mut(),
        Performative::Disposition(disposition) => match disposition.state.as_mut()? {
            DeliveryState::Rejected(error) => error.as_mut(),
            DeliveryState::Transactional { outcome, .. } => match outcome.as_deref_mut()? {
                DeliveryState::Rejected(error) => error.as_mut(),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Cuts the end of an error's description: programs read the condition.
fn shorten(error: &mut Error, excess_bytes: usize) {
    error.info.clear();
    let Some(description) = error.description.take() else { return };
    let mut left_bytes = description.len().saturating_sub(excess_bytes);
    while !description.is_char_boundary(left_bytes) {
        left_bytes -= 1;
    }
    error.description = description.get(..left_bytes).filter(|left| !left.is_empty()).map(Into::into);
}
