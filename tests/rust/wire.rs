//! Bulk frames with minimal decoding for load generators, so that most of the machine's time is left to the broker.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::{client, codec};

/// Descriptor code of a transfer.
pub const TRANSFER: u8 = 0x14;
/// Descriptor code of a disposition.
pub const DISPOSITION: u8 = 0x15;
/// Descriptor code of a detach.
pub const DETACH: u8 = 0x16;
/// Bytes written or read at a time.
const CHUNK_BYTES: usize = 128 * 1024;
/// Largest payload of one frame.
const PIECE_BYTES: usize = 120 * 1024;

/// Buffers of one connection.
#[derive(Debug)]
pub struct Wire<'a> {
    stream: &'a mut TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl<'a> Wire<'a> {
    /// A connection with empty buffers.
    pub fn new(stream: &'a mut TcpStream) -> Self {
        Self { stream, output: Vec::new(), input: vec![0; CHUNK_BYTES * 2], filled: 0 }
    }

    /// Buffers complete frames.
    pub fn put(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        if self.output.len() > CHUNK_BYTES {
            self.flush();
        }
    }

    /// Buffers a transfer on handle 0 whose tag is its id, in as many frames as necessary.
    pub fn put_transfer(&mut self, id: u32, message: &[u8], is_settled: bool) {
        let [a, b, c, d] = id.to_be_bytes();
        let settled = if is_settled { 0x41 } else { 0x42 };
        let mut pieces = message.chunks(PIECE_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let more = if pieces.peek().is_some() { 0x41 } else { 0x42 };
            let body = [
                0x00, 0x53, TRANSFER, 0xC0, 0x10, 0x06, 0x43, 0x70, a, b, c, d, 0xA0, 0x04, a, b, c, d, 0x43,
                settled, more,
            ];
            let size = u32::try_from(8 + body.len() + piece.len()).unwrap();
            self.output.extend_from_slice(&size.to_be_bytes());
            self.output.extend_from_slice(&[2, 0, 0, 0]);
            self.output.extend_from_slice(&body);
            self.put(piece);
        }
    }

    /// Accepts deliveries and requests confirmation.
    pub fn complete(&mut self, first: u32, last: u32) {
        let accepted = codec::Value::composite(codec::code::ACCEPTED, Vec::new());
        let disposition = client::disposition(true, first, last, false, accepted);
        self.put(&codec::frame(0, &disposition, &[]));
    }

    /// Writes the buffered bytes.
    pub fn flush(&mut self) {
        self.stream.write_all(&self.output).unwrap();
        self.output.clear();
    }

    /// Reads once and passes each complete frame, as descriptor code and fields, to `see`.
    pub fn read_frames(&mut self, mut see: impl FnMut(u8, &[u8])) {
        let read = self.stream.read(&mut self.input[self.filled..]).unwrap();
        assert!(read > 0, "the daemon closed the connection");
        self.filled += read;
        let mut at = 0;
        while self.filled - at >= 8 {
            let size = u32::from_be_bytes(self.input[at..at + 4].try_into().unwrap()) as usize;
            if self.filled - at < size {
                let needed = size.max(CHUNK_BYTES * 2);
                self.input.resize(self.input.len().max(at + needed), 0);
                break;
            }
            if size > 11 {
                see(self.input[at + 10], &self.input[at + 11..at + size]);
            }
            at += size;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
    }
}

/// The leading fields of a list, as far as their types are supported here; `None` for null and binary.
fn uints(list: &[u8]) -> impl Iterator<Item = Option<u32>> {
    let mut rest = if list[0] == 0xC0 { &list[3..] } else { &list[9..] };
    std::iter::from_fn(move || {
        let (value, length) = match *rest.first()? {
            0x41 => (Some(1), 1),
            0x42 | 0x43 => (Some(0), 1),
            0x52 => (Some(u32::from(rest[1])), 2),
            0x70 => (Some(u32::from_be_bytes(rest[1..5].try_into().unwrap())), 5),
            0xA0 => (None, 2 + usize::from(rest[1])),
            0x40 => (None, 1),
            other => panic!("unexpected format code {other:#x}"),
        };
        rest = &rest[length..];
        Some(value)
    })
}

/// Whether a disposition was sent by the receiving side.
pub fn is_of_receiver(list: &[u8]) -> bool {
    uints(list).next().flatten() == Some(1)
}

/// First and last delivery of a disposition.
pub fn range(list: &[u8]) -> (u32, u32) {
    let mut fields = uints(list).skip(1);
    let first = fields.next().flatten().unwrap();
    (first, fields.next().flatten().unwrap_or(first))
}

/// The delivery-id of a transfer.
pub fn delivery_id(list: &[u8]) -> Option<u32> {
    uints(list).nth(1).flatten()
}

/// Whether more frames of the delivery follow.
pub fn is_more(list: &[u8]) -> bool {
    uints(list).take(6).nth(5).flatten() == Some(1)
}
