//! Frames: the eight-byte header, and performatives as frame bodies (part 2.3).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::performative::{Performative, SaslFrame, Transfer};
use super::read::Reader;
use super::{DecodeError, write};

const HEADER_BYTES: u8 = 8;
/// The data offset of a frame without extended header, in words of four bytes.
const DATA_OFFSET_MIN: u8 = 2;
const TYPE_AMQP: u8 = 0;
const TYPE_SASL: u8 = 1;

/// The type of a frame.
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
    /// Size of the whole frame including the header, in bytes; at least 8.
    pub size: u32,
    /// Where the body starts, in bytes; at least 8, at most `size`.
    pub body_offset: u32,
    /// The type of the frame.
    pub kind: FrameKind,
    /// The channel (AMQP frames).
    pub channel: u16,
}

impl FrameHeader {
    /// Reads and checks a header.
    ///
    /// # Errors
    /// Sizes that contradict each other, unknown types.
    #[inline]
    pub fn decode(bytes: [u8; 8]) -> Result<Self, DecodeError> {
        let [size_a, size_b, size_c, size_d, data_offset, frame_type, channel_a, channel_b] = bytes;
        let size = u32::from_be_bytes([size_a, size_b, size_c, size_d]);
        let body_offset = u32::from(data_offset) * 4;
        if size < HEADER_BYTES.into() {
            return Err(DecodeError::new(format!("a frame of {size} bytes")));
        }
        if data_offset < DATA_OFFSET_MIN || body_offset > size {
            return Err(DecodeError::new(format!("data offset {data_offset} in a frame of {size} bytes")));
        }
        let kind = match frame_type {
            TYPE_AMQP => FrameKind::Amqp,
            TYPE_SASL => FrameKind::Sasl,
            _ => return Err(DecodeError::new(format!("frame type {frame_type}"))),
        };
        Ok(Self { size, body_offset, kind, channel: u16::from_be_bytes([channel_a, channel_b]) })
    }
}

/// Reads a frame body; `None` for the empty heartbeat. The second part is a transfer's payload, a slice of `body`.
///
/// # Errors
/// [`DecodeError`]; never panics.
pub fn decode_body(mut body: Bytes) -> Result<Option<(Performative, Bytes)>, DecodeError> {
    Ok(take_performative(&mut body)?.map(|performative| (performative, body)))
}

/// Reads a frame body, which is then a transfer's payload; `None` for the empty heartbeat.
///
/// # Errors
/// [`DecodeError`]; never panics.
pub fn take_performative(body: &mut Bytes) -> Result<Option<Performative>, DecodeError> {
    if body.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::new(body);
    let performative = Performative::decode(&mut reader)?;
    if !matches!(performative, Performative::Transfer(_)) {
        nothing_follows(&reader)?;
    }
    let performative_bytes = reader.position();
    body.advance(performative_bytes);
    Ok(Some(performative))
}

/// Reads a SASL frame body.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_sasl(body: Bytes) -> Result<SaslFrame, DecodeError> {
    let mut reader = Reader::new(&body);
    let frame = SaslFrame::decode(&mut reader)?;
    nothing_follows(&reader).map(|()| frame)
}

/// Checks that no payload follows: only transfers have one.
fn nothing_follows(reader: &Reader<'_>) -> Result<(), DecodeError> {
    match reader.remaining() {
        0 => Ok(()),
        bytes => Err(DecodeError::new(format!("{bytes} bytes after the frame's performative"))),
    }
}

/// Appends a frame header and performative for a payload of `payload_bytes` that the caller appends next.
pub fn encode_frame(channel: u16, performative: &Performative, payload_bytes: usize, output: &mut BytesMut) {
    encode(TYPE_AMQP, channel, payload_bytes, output, |output| performative.encode(output));
}

/// [`encode_frame`] for a transfer.
pub fn encode_transfer(channel: u16, transfer: &Transfer, payload_bytes: usize, output: &mut BytesMut) {
    encode(TYPE_AMQP, channel, payload_bytes, output, |output| transfer.encode(output));
}

/// Appends the body of a frame without payload; [`decode_body`] reads it.
pub fn encode_body(performative: &Performative, output: &mut BytesMut) {
    performative.encode(output);
}

/// Appends a SASL frame.
pub fn encode_sasl(frame: &SaslFrame, output: &mut BytesMut) {
    encode(TYPE_SASL, 0, 0, output, |output| frame.encode(output));
}

/// Appends an empty frame (heartbeat).
pub fn encode_heartbeat(output: &mut BytesMut) {
    encode(TYPE_AMQP, 0, 0, output, |_| {});
}

/// Room for a transfer, disposition or flow, so that the buffer grows at most once.
const USUAL_FRAME_BYTES: usize = 128;

fn encode(
    frame_type: u8,
    channel: u16,
    payload_bytes: usize,
    output: &mut BytesMut,
    write_body: impl FnOnce(&mut BytesMut),
) {
    output.reserve(USUAL_FRAME_BYTES);
    let start = output.len();
    let [channel_a, channel_b] = channel.to_be_bytes();
    output.put_slice(&[0, 0, 0, 0, DATA_OFFSET_MIN, frame_type, channel_a, channel_b]);
    write_body(output);
    let size = write::length_32(output.len() - start + payload_bytes);
    if let Some(head) = output.get_mut(start..start + 4) {
        head.copy_from_slice(&size.to_be_bytes());
    }
}
