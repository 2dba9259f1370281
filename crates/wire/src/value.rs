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
    /// Elements of one type; mixed types are written as a list. An empty array is written as an array of longs, the
    /// type of the arrays in Service Bus's replies; but avoid sending one: Python (7.15.0) and serde_amqp lose their
    /// position after an empty array with a constructor, JavaScript after one without.
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

/// Bytes that are not valid AMQP, or exceed a limit. One word, so that results of readers fit into registers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed AMQP data: {}", .why.reason)]
pub struct DecodeError {
    why: Box<Why>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Why {
    reason: String,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { why: Box::new(Why { reason: reason.into() }) }
    }

    /// What was expected and what was found.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.why.reason
    }

    /// What was expected and what was found.
    #[must_use]
    pub fn into_reason(self) -> String {
        self.why.reason
    }
}

impl Value {
    /// Maximum nesting depth of a value: lists, maps, arrays and descriptors each count one.
    pub const DEPTH_MAX: usize = 32;

    /// Maximum number of elements in one decoded value, over all levels.
    pub const ELEMENTS_MAX: u32 = 65_536;

    /// Maximum number of array elements without bytes of their own (nulls, 0x41 to 0x45) in one value: the size of the
    /// input does not bound them.
    pub const ZERO_WIDTH_ELEMENTS_MAX: u32 = 1_024;

    /// A symbol.
    #[must_use]
    pub fn symbol(text: &str) -> Self {
        Self::Symbol(text.into())
    }

    /// An array of longs (`sequence-numbers`).
    #[must_use]
    pub fn array_of_longs(longs: &[i64]) -> Self {
        Self::Array(longs.iter().map(|&long| Self::Long(long)).collect())
    }

    /// An array of timestamps (`expirations`), in milliseconds since the Unix epoch.
    #[must_use]
    pub fn array_of_timestamps(timestamps_ms: &[i64]) -> Self {
        Self::Array(timestamps_ms.iter().map(|&timestamp_ms| Self::Timestamp(timestamp_ms)).collect())
    }

    /// A value with a symbolic descriptor.
    #[must_use]
    pub fn described(descriptor: Self, value: Self) -> Self {
        Self::Described(Box::new(Described { descriptor, value }))
    }

    /// The text of a string or symbol.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// An integer of any width, or a timestamp; `None` beyond the range of a long.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::UByte(number) => Some(number.into()),
            Self::UShort(number) => Some(number.into()),
            Self::UInt(number) => Some(number.into()),
            Self::ULong(number) => i64::try_from(number).ok(),
            Self::Byte(number) => Some(number.into()),
            Self::Short(number) => Some(number.into()),
            Self::Int(number) => Some(number.into()),
            Self::Long(number) | Self::Timestamp(number) => Some(number),
            _ => None,
        }
    }

    /// The elements of a list or array.
    #[must_use]
    pub fn as_elements(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) | Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The entry of a map under a string or symbol key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(candidate, _)| candidate.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// The encoding as a separate buffer.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut output = bytes::BytesMut::new();
        self.encode(&mut output);
        output.freeze()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}
