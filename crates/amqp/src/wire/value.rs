//! Any AMQP value (part 1.6).

use bytes::Bytes;

/// Text of a string or symbol.
pub type Str = Box<str>;

/// A map with symbol keys (part 2.8.13 `fields`): properties, capabilities, error info. String keys are accepted.
pub type Fields = Vec<(Str, Value)>;

/// Any AMQP value; the type survives a round trip.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each variant is the specification's primitive of that name
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    UByte(u8),
    UShort(u16),
    UInt(u32),
    ULong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal32([u8; 4]),
    Decimal64([u8; 8]),
    Decimal128([u8; 16]),
    Char(char),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    /// In the byte order of RFC 4122.
    Uuid([u8; 16]),
    Binary(Bytes),
    String(Str),
    Symbol(Str),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// Elements of one type.
    Array(Vec<Value>),
    Described(Box<Described>),
}

/// A value with a descriptor.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// A symbol or an unsigned long.
    pub descriptor: Value,
    /// The value itself.
    pub value: Value,
}

/// Bytes that are not AMQP, or exceed a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed AMQP data: {reason}")]
pub struct DecodeError {
    /// What was expected and what was found.
    pub reason: String,
}

#[allow(unused_variables)] // signatures only; the codec's author replaces the bodies
impl Value {
    /// Nesting allowed in any value.
    pub const DEPTH_MAX: usize = 32;

    /// Reads one value from the front of `input`; binaries are slices of it.
    ///
    /// # Errors
    /// [`DecodeError`] on anything malformed, too deep, or longer than the input.
    pub fn decode(input: &mut Bytes) -> Result<Self, DecodeError> {
        unimplemented!()
    }

    /// Appends the encoding, in its most compact form.
    pub fn encode(&self, output: &mut bytes::BytesMut) {
        unimplemented!()
    }
}
