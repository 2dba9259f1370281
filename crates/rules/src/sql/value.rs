//! Values of expressions.

use std::borrow::Cow;

use crate::decimal;
use crate::{Given, PropertyValue};

/// A value during evaluation: borrowed from the message or the rule, unless it is a concatenated text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// A property that is missing or null, and every result that depends on it.
    Unknown,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Double(f64),
    Decimal(u128),
    Text(Cow<'a, str>),
    Timestamp(i64),
    DateTimeOffset(i64),
    TimeSpan(i64),
    Uuid(u128),
    Other(&'a [u8]),
}

/// The reason why an evaluation failed, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault(pub(super) String);

impl<'a> Value<'a> {
    pub(crate) fn of(fact: &'a PropertyValue) -> Self {
        match fact {
            PropertyValue::Null => Self::Unknown,
            PropertyValue::Boolean(truth) => Self::Boolean(*truth),
            PropertyValue::Integer(number) => Self::Integer(*number),
            PropertyValue::Unsigned(number) => Self::Unsigned(*number),
            PropertyValue::Double(number) => Self::Double(*number),
            PropertyValue::Decimal(bits) => Self::Decimal(*bits),
            PropertyValue::Text(text) => Self::text(text),
            PropertyValue::Timestamp(at_ms) => Self::Timestamp(*at_ms),
            PropertyValue::DateTimeOffset(ticks) => Self::DateTimeOffset(*ticks),
            PropertyValue::TimeSpan(ticks) => Self::TimeSpan(*ticks),
            PropertyValue::Uuid(uuid) => Self::Uuid(*uuid),
            PropertyValue::Other(bytes) => Self::Other(bytes),
            PropertyValue::Given(given) => Self::given(given),
        }
    }

    fn given(given: &'a Given) -> Self {
        match given {
            Given::Byte(number) => Self::Integer((*number).into()),
            Given::Short(number) => Self::Integer((*number).into()),
            Given::Int(number) => Self::Integer((*number).into()),
            Given::Long(number) => Self::Integer(*number),
            Given::UByte(number) => Self::Integer((*number).into()),
            Given::UShort(number) => Self::Integer((*number).into()),
            Given::UInt(number) => Self::Integer((*number).into()),
            Given::ULong(number) => Self::integer(*number),
            Given::Float(number) => Self::Double((*number).into()),
            Given::Char(character) => Self::Text(Cow::Owned(character.to_string())),
            Given::Symbol(text) | Given::Uri(text) => Self::text(text),
            Given::DateTime { at_ms, .. } => Self::Timestamp(*at_ms),
            Given::Decimal32 { wide, .. } | Given::Decimal64 { wide, .. } => Self::Decimal(*wide),
        }
    }

    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    pub(super) fn optional_text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Unknown, Self::text)
    }

    /// An integer of up to 64 bits; `Unsigned` if it exceeds a signed integer.
    pub(super) fn integer(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Unsigned(number), Self::Integer)
    }

    /// The value in the form that a message can have. UNKNOWN becomes null.
    pub(super) fn into_fact(self) -> PropertyValue {
        match self {
            Self::Unknown => PropertyValue::Null,
            Self::Boolean(truth) => PropertyValue::Boolean(truth),
            Self::Integer(number) => PropertyValue::Integer(number),
            Self::Unsigned(number) => PropertyValue::Unsigned(number),
            Self::Double(number) => PropertyValue::Double(number),
            Self::Decimal(bits) => PropertyValue::Decimal(bits),
            Self::Text(text) => PropertyValue::Text(text.into()),
            Self::Timestamp(at_ms) => PropertyValue::Timestamp(at_ms),
            Self::DateTimeOffset(ticks) => PropertyValue::DateTimeOffset(ticks),
            Self::TimeSpan(ticks) => PropertyValue::TimeSpan(ticks),
            Self::Uuid(uuid) => PropertyValue::Uuid(uuid),
            Self::Other(bytes) => PropertyValue::Other(bytes.into()),
        }
    }

    /// An integer of either type.
    pub(super) fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some((*number).into()),
            Self::Unsigned(number) => Some((*number).into()),
            _ => None,
        }
    }

    /// A number of any type, as the nearest double.
    pub(crate) fn as_double(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Unsigned(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            Self::Decimal(bits) => Some(decimal::to_double(*bits)),
            _ => None,
        }
    }

    /// The type, for an error message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unknown => "an unknown value",
            Self::Boolean(_) => "a Boolean",
            Self::Integer(_) | Self::Unsigned(_) => "an integer",
            Self::Double(_) => "a double",
            Self::Decimal(_) => "a decimal",
            Self::Text(_) => "a string",
            Self::Timestamp(_) => "a timestamp",
            Self::DateTimeOffset(_) => "a date with an offset",
            Self::TimeSpan(_) => "a time span",
            Self::Uuid(_) => "a GUID",
            Self::Other(_) => "a value that SQL has no type for",
        }
    }
}
