//! AMQP 1.0 values and frames, in the simplest possible code (AMQP 1.0, parts 1 and 2).

/// A value of the AMQP type system.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `ubyte`.
    Ubyte(u8),
    /// `ushort`.
    Ushort(u16),
    /// `uint`.
    Uint(u32),
    /// `ulong`.
    Ulong(u64),
    /// `int`.
    Int(i32),
    /// `long`.
    Long(i64),
    /// `timestamp`, milliseconds since 1970.
    Timestamp(i64),
    /// `uuid`.
    Uuid([u8; 16]),
    /// `binary`.
    Binary(Vec<u8>),
    /// `string`.
    String(String),
    /// `symbol`.
    Symbol(String),
    /// `list`.
    List(Vec<Value>),
    /// `map`, in order.
    Map(Vec<(Value, Value)>),
    /// `array` of values of one type.
    Array(Vec<Value>),
    /// A described value.
    Described(Box<Value>, Box<Value>),
    /// A type that no test inspects: its constructor and its bytes.
    Other(u8, Vec<u8>),
}

impl Value {
    /// A described list with a small numeric descriptor: a performative, a section, an outcome.
    pub fn composite(code: u64, fields: Vec<Value>) -> Self {
        Self::Described(Box::new(Self::Ulong(code)), Box::new(Self::List(fields)))
    }

    /// A string.
    pub fn string(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    /// A symbol.
    pub fn symbol(text: impl Into<String>) -> Self {
        Self::Symbol(text.into())
    }

    /// An unsigned or signed integer of any width.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Ubyte(value) => Some((*value).into()),
            Self::Ushort(value) => Some((*value).into()),
            Self::Uint(value) => Some((*value).into()),
            Self::Ulong(value) => i64::try_from(*value).ok(),
            Self::Int(value) => Some((*value).into()),
            Self::Long(value) | Self::Timestamp(value) => Some(*value),
            _ => None,
        }
    }

    /// The text of a string or symbol.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a map under a textual key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(pairs) => {
                pairs.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The field of a list, `Null` when it was omitted.
    pub fn field(&self, position: usize) -> &Value {
        match self {
            Self::List(fields) => fields.get(position).unwrap_or(&Value::Null),
            Self::Described(_, inner) => inner.field(position),
            _ => &Value::Null,
        }
    }

    /// The numeric descriptor of a described value.
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Described(descriptor, _) => descriptor.integer().map(i64::cast_unsigned),
            _ => None,
        }
    }

    /// The value inside a described value.
    pub fn inner(&self) -> &Value {
        match self {
            Self::Described(_, inner) => inner,
            _ => &Value::Null,
        }
    }

    /// The encoding, always in the widest form except for small numeric descriptors, which some peers require.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0x40),
            Self::Bool(value) => out.push(if *value { 0x41 } else { 0x42 }),
            Self::Ubyte(value) => out.extend([0x50, *value]),
            Self::Ushort(value) => fixed(out, 0x60, &value.to_be_bytes()),
            Self::Uint(value) => fixed(out, 0x70, &value.to_be_bytes()),
            Self::Ulong(value) => match u8::try_from(*value) {
                Ok(small) => out.extend([0x53, small]),
                Err(_) => fixed(out, 0x80, &value.to_be_bytes()),
            },
            Self::Int(value) => fixed(out, 0x71, &value.to_be_bytes()),
            Self::Long(value) => fixed(out, 0x81, &value.to_be_bytes()),
            Self::Timestamp(value) => fixed(out, 0x83, &value.to_be_bytes()),
            Self::Uuid(value) => fixed(out, 0x98, value),
            Self::Binary(value) => variable(out, 0xb0, value),
            Self::String(value) => variable(out, 0xb1, value.as_bytes()),
            Self::Symbol(value) => variable(out, 0xb3, value.as_bytes()),
            Self::List(values) => compound(out, 0xd0, values.len(), &concatenated(values.iter())),
            Self::Map(pairs) => {
                let items = pairs.iter().flat_map(|(key, value)| [key, value]);
                compound(out, 0xd1, pairs.len() * 2, &concatenated(items));
            }
            Self::Array(values) => array(out, values),
            Self::Described(descriptor, value) => {
                out.push(0);
                descriptor.encode_to(out);
                value.encode_to(out);
            }
            Self::Other(constructor, bytes) => fixed(out, *constructor, bytes),
        }
    }

    /// Decodes one value from the front of `bytes` and advances `bytes`; `None` if it is invalid.
    pub fn decode(bytes: &mut &[u8]) -> Option<Value> {
        let constructor = *take(bytes, 1)?.first()?;
        if constructor == 0 {
            let descriptor = Self::decode(bytes)?;
            return Some(Self::Described(Box::new(descriptor), Box::new(Self::decode(bytes)?)));
        }
        Self::decode_as(constructor, bytes)
    }

    fn decode_as(constructor: u8, bytes: &mut &[u8]) -> Option<Value> {
        let width = match constructor >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => usize::from(*take(bytes, 1)?.first()?),
            0xb | 0xd | 0xf => usize::try_from(u32::from_be_bytes(take(bytes, 4)?.try_into().ok()?)).ok()?,
            _ => return None,
        };
        let data = take(bytes, width)?;
        Some(match constructor {
            0x40 => Self::Null,
            0x41 => Self::Bool(true),
            0x42 => Self::Bool(false),
            0x56 => Self::Bool(data.first()? == &1),
            0x43 => Self::Uint(0),
            0x44 => Self::Ulong(0),
            0x45 => Self::List(Vec::new()),
            0x50 => Self::Ubyte(*data.first()?),
            0x52 => Self::Uint((*data.first()?).into()),
            0x53 => Self::Ulong((*data.first()?).into()),
            0x54 => Self::Int(data.first()?.cast_signed().into()),
            0x55 => Self::Long(data.first()?.cast_signed().into()),
            0x60 => Self::Ushort(u16::from_be_bytes(data.try_into().ok()?)),
            0x70 => Self::Uint(u32::from_be_bytes(data.try_into().ok()?)),
            0x71 => Self::Int(i32::from_be_bytes(data.try_into().ok()?)),
            0x80 => Self::Ulong(u64::from_be_bytes(data.try_into().ok()?)),
            0x81 => Self::Long(i64::from_be_bytes(data.try_into().ok()?)),
            0x83 => Self::Timestamp(i64::from_be_bytes(data.try_into().ok()?)),
            0x98 => Self::Uuid(data.try_into().ok()?),
            0xa0 | 0xb0 => Self::Binary(data.to_vec()),
            0xa1 | 0xb1 => Self::String(String::from_utf8(data.to_vec()).ok()?),
            0xa3 | 0xb3 => Self::Symbol(String::from_utf8(data.to_vec()).ok()?),
            0xc0 | 0xd0 => Self::List(elements(constructor, data)?),
            0xc1 | 0xd1 => Self::Map(pairs(elements(constructor, data)?)),
            0xe0 | 0xf0 => Self::Array(array_elements(constructor, data)?),
            other => Self::Other(other, data.to_vec()),
        })
    }
}

fn fixed(out: &mut Vec<u8>, constructor: u8, bytes: &[u8]) {
    out.push(constructor);
    out.extend(bytes);
}

fn variable(out: &mut Vec<u8>, constructor: u8, bytes: &[u8]) {
    out.push(constructor);
    out.extend(length(bytes.len()));
    out.extend(bytes);
}

fn compound(out: &mut Vec<u8>, constructor: u8, count: usize, items: &[u8]) {
    out.push(constructor);
    out.extend(length(items.len() + 4));
    out.extend(length(count));
    out.extend(items);
}

fn array(out: &mut Vec<u8>, values: &[Value]) {
    let Some(first) = values.first() else {
        return compound(out, 0xf0, 0, &[0x40]);
    };
    let mut items = vec![first.encode()[0]];
    for value in values {
        items.extend(&value.encode()[1..]);
    }
    compound(out, 0xf0, values.len(), &items);
}

fn concatenated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<u8> {
    let mut out = Vec::new();
    values.for_each(|value| value.encode_to(&mut out));
    out
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap().to_be_bytes()
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(front)
}

fn count(constructor: u8, data: &mut &[u8]) -> Option<usize> {
    let wide = matches!(constructor, 0xd0 | 0xd1 | 0xf0);
    let front = take(data, if wide { 4 } else { 1 })?;
    Some(front.iter().fold(0, |sum, byte| (sum << 8) + usize::from(*byte)))
}

fn elements(constructor: u8, mut data: &[u8]) -> Option<Vec<Value>> {
    let count = count(constructor, &mut data)?;
    (0..count).map(|_| Value::decode(&mut data)).collect()
}

fn array_elements(constructor: u8, mut data: &[u8]) -> Option<Vec<Value>> {
    let count = count(constructor, &mut data)?;
    let element = *take(&mut data, 1)?.first()?;
    (0..count).map(|_| Value::decode_as(element, &mut data)).collect()
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// Codes of performatives, outcomes and sections (AMQP 1.0, 2.7, 3.2 and 3.4).
pub mod code {
    #![allow(missing_docs)] // reason: the names are those of the standard
    pub const OPEN: u64 = 0x10;
    pub const BEGIN: u64 = 0x11;
    pub const ATTACH: u64 = 0x12;
    pub const FLOW: u64 = 0x13;
    pub const TRANSFER: u64 = 0x14;
    pub const DISPOSITION: u64 = 0x15;
    pub const DETACH: u64 = 0x16;
    pub const END: u64 = 0x17;
    pub const CLOSE: u64 = 0x18;
    pub const ACCEPTED: u64 = 0x24;
    pub const REJECTED: u64 = 0x25;
    pub const RELEASED: u64 = 0x26;
    pub const MODIFIED: u64 = 0x27;
    pub const SOURCE: u64 = 0x28;
    pub const TARGET: u64 = 0x29;
    pub const COORDINATOR: u64 = 0x30;
    pub const DECLARE: u64 = 0x31;
    pub const DISCHARGE: u64 = 0x32;
    pub const DECLARED: u64 = 0x33;
    pub const TRANSACTIONAL_STATE: u64 = 0x34;
    pub const SASL_MECHANISMS: u64 = 0x40;
    pub const SASL_INIT: u64 = 0x41;
    pub const SASL_OUTCOME: u64 = 0x44;
    pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
    pub const PROPERTIES: u64 = 0x73;
    pub const APPLICATION_PROPERTIES: u64 = 0x74;
    pub const DATA: u64 = 0x75;
    pub const AMQP_VALUE: u64 = 0x77;
}

/// A frame of type 0 (AMQP) with a performative and the payload after it.
pub fn frame(channel: u16, performative: &Value, payload: &[u8]) -> Vec<u8> {
    raw_frame(2, 0, channel, &[performative.encode().as_slice(), payload].concat())
}

/// A frame with arbitrary header fields; the size is that of the bytes.
pub fn raw_frame(doff: u8, kind: u8, channel: u16, body: &[u8]) -> Vec<u8> {
    let mut out = length(body.len() + 8).to_vec();
    out.extend([doff, kind]);
    out.extend(channel.to_be_bytes());
    out.extend(body);
    out
}

/// A section of a message: its descriptor and its value.
pub fn section(code: u64, value: Value) -> Vec<u8> {
    Value::Described(Box::new(Value::Ulong(code)), Box::new(value)).encode()
}

/// A message of one data section.
pub fn data_message(body: &[u8]) -> Vec<u8> {
    section(code::DATA, Value::Binary(body.to_vec()))
}

/// The sections of an encoded message, in order.
pub fn sections(mut message: &[u8]) -> Vec<Value> {
    std::iter::from_fn(|| if message.is_empty() { None } else { Value::decode(&mut message) }).collect()
}
