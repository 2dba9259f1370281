//! Frames: the eight-byte header, and performatives as frame bodies (part 2.3).

use bytes::{Bytes, BytesMut};

use super::DecodeError;
use super::performative::{Performative, SaslFrame};

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Type 0.
    Amqp,
    /// Type 1.
    Sasl,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Whole frame, header included, in bytes; at least 8.
    pub size: u32,
    /// Where the body starts, in bytes; at least 8, at most `size`.
    pub body_offset: u32,
    /// What it carries.
    pub kind: FrameKind,
    /// The channel (AMQP frames).
    pub channel: u16,
}

#[allow(unused_variables)] // signatures only; the codec's author replaces the bodies
impl FrameHeader {
    /// Reads and checks a header.
    ///
    /// # Errors
    /// Sizes that contradict each other, unknown types.
    pub fn decode(bytes: [u8; 8]) -> Result<Self, DecodeError> {
        unimplemented!()
    }
}

/// Reads a frame body; `None` for the empty heartbeat. The second part is a transfer's payload, a slice of `body`.
///
/// # Errors
/// [`DecodeError`]; never panics, whatever the bytes.
pub fn decode_body(body: Bytes) -> Result<Option<(Performative, Bytes)>, DecodeError> {
    let _ = body;
    unimplemented!()
}

/// Reads a SASL frame body.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_sasl(body: Bytes) -> Result<SaslFrame, DecodeError> {
    let _ = body;
    unimplemented!()
}

/// Appends a frame header and performative for a payload of `payload_bytes` that the caller appends next.
pub fn encode_frame(channel: u16, performative: &Performative, payload_bytes: usize, output: &mut BytesMut) {
    let _ = (channel, performative, payload_bytes, output);
    unimplemented!()
}

/// Appends a SASL frame.
pub fn encode_sasl(frame: &SaslFrame, output: &mut BytesMut) {
    let _ = (frame, output);
    unimplemented!()
}

/// Appends an empty frame (heartbeat).
pub fn encode_heartbeat(output: &mut BytesMut) {
    let _ = output;
    unimplemented!()
}
