//! Input: parses frames in any fragmentation as they arrive.

use std::io::{self, Cursor};

use bytes::{Buf, BytesMut};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

/// Maximum payload of a control frame (RFC 6455, §5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// The meaning of the next bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Too few bytes for a frame's header, or for a whole control frame.
    More,
    /// This many bytes of payload.
    Payload(u64),
    /// A ping with the payload to return.
    Ping(BytesMut),
    /// A close with its code, if it has one.
    Close(Option<CloseCode>),
}

/// Position in the sequence of frames.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Remaining payload bytes of the current data frame.
    payload: u64,
    mask: [u8; 4],
    /// Whether the current message continues in another frame.
    unfinished: bool,
}

impl Input {
    /// Examines the front of the input; removes headers and control frames, leaves payload in place.
    ///
    /// # Errors
    /// Violations of RFC 6455 or AMQP's binding.
    pub(super) fn next(&mut self, bytes: &mut BytesMut) -> io::Result<Next> {
        while self.payload == 0 {
            let mut cursor = Cursor::new(&bytes[..]);
            let parsed = FrameHeader::parse(&mut cursor).map_err(|_| wrong("an unknown kind of frame"))?;
            let Some((header, length)) = parsed else { return Ok(Next::More) };
            let header_bytes = usize::try_from(cursor.position()).unwrap_or(bytes.len());
            let mask = check(&header)?;
            let control = match header.opcode {
                OpCode::Data(kind) => {
                    self.begin(kind, header.is_final)?;
                    bytes.advance(header_bytes);
                    (self.payload, self.mask) = (length, mask);
                    continue;
                }
                OpCode::Control(control) => control,
            };
            if length > CONTROL_BYTES_MAX || !header.is_final {
                return Err(wrong("a control frame that is too long or in fragments"));
            }
            // At most 125 bytes, so the conversion can't fail.
            let length = usize::try_from(length).unwrap_or_default();
            if bytes.len() < header_bytes + length {
                return Ok(Next::More);
            }
            bytes.advance(header_bytes);
            let mut content = bytes.split_to(length);
            unmask(&mut content, &mut { mask });
            match control {
                Control::Close => return Ok(Next::Close(close_code(&content)?)),
                Control::Ping => return Ok(Next::Ping(content)),
                Control::Pong | Control::Reserved(_) => {}
            }
        }
        Ok(Next::Payload(self.payload))
    }

    /// Whether a stream may end here.
    pub(super) fn is_between_messages(&self) -> bool {
        self.payload == 0 && !self.unfinished
    }

    /// Unmasks payload in place, and counts it. At most as many bytes as [`Next::Payload`] returned.
    pub(super) fn take(&mut self, payload: &mut [u8]) {
        unmask(payload, &mut self.mask);
        self.payload = self.payload.saturating_sub(payload.len() as u64);
    }

    fn begin(&mut self, kind: Data, is_final: bool) -> io::Result<()> {
        match (kind, self.unfinished) {
            (Data::Binary, false) | (Data::Continue, true) => {}
            (Data::Text, _) => return Err(wrong("a text frame: AMQP needs binary frames")),
            (Data::Continue, false) => return Err(wrong("the continuation of nothing")),
            _ => return Err(wrong("a new message within another")),
        }
        self.unfinished = !is_final;
        Ok(())
    }
}

/// The code in the payload of a close; the reason behind it is not needed.
///
/// # Errors
/// Half a code, one that no frame may have, a reason that is not UTF-8 (RFC 6455, §5.5.1 and §7.4).
fn close_code(content: &[u8]) -> io::Result<Option<CloseCode>> {
    if content.is_empty() {
        return Ok(None);
    }
    let (code, reason) = content.split_first_chunk().ok_or_else(|| wrong("a close with half a code"))?;
    let code = CloseCode::from(u16::from_be_bytes(*code));
    if !code.is_allowed() || std::str::from_utf8(reason).is_err() {
        return Err(wrong("a close with an invalid code or reason"));
    }
    Ok(Some(code))
}

/// Returns the mask of a frame, which is required of clients.
fn check(header: &FrameHeader) -> io::Result<[u8; 4]> {
    if header.rsv1 || header.rsv2 || header.rsv3 {
        return Err(wrong("a frame of an extension that was not agreed on"));
    }
    header.mask.ok_or_else(|| wrong("a frame without mask"))
}

/// Applies a mask, and rotates it for the bytes that follow.
fn unmask(payload: &mut [u8], mask: &mut [u8; 4]) {
    let key = u32::from_ne_bytes(*mask);
    let mut words = payload.chunks_exact_mut(4);
    for word in &mut words {
        if let Ok(bytes) = <[u8; 4]>::try_from(&*word) {
            word.copy_from_slice(&(u32::from_ne_bytes(bytes) ^ key).to_ne_bytes());
        }
    }
    let rest = words.into_remainder();
    let turned = rest.len();
    for (byte, key) in rest.iter_mut().zip(*mask) {
        *byte ^= key;
    }
    mask.rotate_left(turned);
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("WebSocket: {what}"))
}

/// For the fuzzer: any bytes, split anywhere, are parsed without a panic and with the same result.
#[doc(hidden)]
pub fn exercise(bytes: &[u8], split: usize) {
    let run = |parts: &[&[u8]]| {
        let (mut input, mut buffer, mut payload) = (Input::default(), BytesMut::new(), Vec::new());
        for part in parts {
            buffer.extend_from_slice(part);
            loop {
                match input.next(&mut buffer) {
                    Ok(Next::More) => break,
                    Ok(Next::Payload(_)) if buffer.is_empty() => break,
                    Ok(Next::Payload(length)) => {
                        let length = buffer.len().min(usize::try_from(length).unwrap_or(usize::MAX));
                        let mut part = buffer.split_to(length);
                        input.take(&mut part);
                        payload.extend_from_slice(&part);
                    }
                    Ok(Next::Ping(content)) => assert!(content.len() <= 125),
                    Ok(Next::Close(_)) | Err(_) => return payload,
                }
            }
        }
        payload
    };
    let (first, rest) = bytes.split_at(split.min(bytes.len()));
    assert_eq!(run(&[bytes]), run(&[first, rest]));
}
