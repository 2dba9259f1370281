//! Values of rules in their given form: with the width, type or text that comparisons do not need, but that listing the
//! rule returns.

use crate::PropertyValue;

/// A value in the form given by a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// An integer of 8 bits.
    Byte(i8),
    /// An integer of 16 bits.
    Short(i16),
    /// An integer of 32 bits.
    Int(i32),
    /// An integer of 64 bits.
    Long(i64),
    /// An unsigned integer of 8 bits.
    UByte(u8),
    /// An unsigned integer of 16 bits.
    UShort(u16),
    /// An unsigned integer of 32 bits.
    UInt(u32),
    /// An unsigned integer of 64 bits.
    ULong(u64),
    /// A number of single precision.
    Float(f32),
    /// A character; compared as a text.
    Char(char),
    /// A symbol; compared as a text.
    Symbol(Box<str>),
    /// A URI; compared as a text.
    Uri(Box<str>),
    /// A time in its written form: with or without time zone, and possibly more precise than AMQP's timestamps.
    DateTime {
        /// The value for comparison, in milliseconds since 1970; without a time zone it is UTC.
        at_ms: i64,
        /// The written form.
        text: Box<str>,
    },
    /// A decimal of 32 bits.
    Decimal32 {
        /// The AMQP encoding.
        bits: u32,
        /// The same number in 128 bits.
        wide: u128,
    },
    /// A decimal of 64 bits.
    Decimal64 {
        /// The AMQP encoding.
        bits: u64,
        /// The same number in 128 bits.
        wide: u128,
    },
}

impl Given {
    /// The value for comparison.
    #[must_use]
    pub fn plain(&self) -> PropertyValue {
        match self {
            Self::Byte(number) => PropertyValue::Integer((*number).into()),
            Self::Short(number) => PropertyValue::Integer((*number).into()),
            Self::Int(number) => PropertyValue::Integer((*number).into()),
            Self::Long(number) => PropertyValue::Integer(*number),
            Self::UByte(number) => PropertyValue::Integer((*number).into()),
            Self::UShort(number) => PropertyValue::Integer((*number).into()),
            Self::UInt(number) => PropertyValue::Integer((*number).into()),
            Self::ULong(number) => {
                i64::try_from(*number).map_or(PropertyValue::Unsigned(*number), PropertyValue::Integer)
            }
            Self::Float(number) => PropertyValue::Double((*number).into()),
            Self::Char(character) => PropertyValue::Text(character.encode_utf8(&mut [0; 4]).into()),
            Self::Symbol(text) | Self::Uri(text) => PropertyValue::Text(text.clone()),
            Self::DateTime { at_ms, .. } => PropertyValue::Timestamp(*at_ms),
            Self::Decimal32 { wide, .. } | Self::Decimal64 { wide, .. } => PropertyValue::Decimal(*wide),
        }
    }

    /// Whether a message's value equals this one. Called for every message, so nothing is copied.
    pub(crate) fn equals(&self, value: &PropertyValue) -> bool {
        match (self, value) {
            (Self::Symbol(text) | Self::Uri(text), PropertyValue::Text(other)) => text == other,
            (Self::Symbol(_) | Self::Uri(_), _) => false,
            (Self::Char(character), PropertyValue::Text(other)) => {
                **other == *character.encode_utf8(&mut [0; 4])
            }
            (given, value) => value.equals(&given.plain()),
        }
    }
}
