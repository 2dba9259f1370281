//! Data received from the broker.

use crate::codec::{self, Value, code};

/// A received frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The channel, chosen by the peer.
    pub channel: u16,
    /// The performative; `Null` in an empty frame.
    pub performative: Value,
    /// The bytes after the performative.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Decodes a frame with its header; `None` if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<8>()?;
        let mut rest = bytes.get(usize::from(header[4]) * 4..)?;
        let performative = if rest.is_empty() { Value::Null } else { Value::decode(&mut rest)? };
        let channel = u16::from_be_bytes([header[6], header[7]]);
        Some(Self { channel, performative, payload: rest.to_vec() })
    }

    /// Whether the performative has this code.
    pub fn is(&self, code: u64) -> bool {
        self.performative.code() == Some(code)
    }

    /// A field of the performative.
    pub fn field(&self, position: usize) -> &Value {
        self.performative.field(position)
    }
}

/// A completely received message.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The delivery id, used to settle it.
    pub id: u32,
    /// The encoded message.
    pub message: Vec<u8>,
}

impl Delivery {
    /// The body of the first data section.
    pub fn body(&self) -> Vec<u8> {
        body(&self.message)
    }

    /// The annotation `x-opt-sequence-number`.
    pub fn sequence_number(&self) -> i64 {
        sequence_number(&self.message)
    }
}

/// The bytes of the first data section of an encoded message.
pub fn body(message: &[u8]) -> Vec<u8> {
    let sections = codec::sections(message);
    let data = sections.iter().find(|section| section.code() == Some(code::DATA));
    match data.map(Value::inner) {
        Some(Value::Binary(bytes)) => bytes.clone(),
        other => panic!("no data section but {other:?}"),
    }
}

/// The sequence number that the broker assigned, from an encoded message.
pub fn sequence_number(message: &[u8]) -> i64 {
    let sections = codec::sections(message);
    let annotations =
        sections.iter().find(|section| section.code() == Some(code::MESSAGE_ANNOTATIONS)).unwrap();
    annotations.inner().get("x-opt-sequence-number").and_then(Value::integer).unwrap()
}
