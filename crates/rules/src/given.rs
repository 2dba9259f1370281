//! Values of rules as they were given: with the width, the kind or the text that comparisons do not need, and that whoever
//! lists the rule gets back.

use crate::PropertyValue;

/// A value in the form in which a client gave it.
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
    /// An address; compared as a text.
    Uri(Box<str>),
    /// An instant as it was written: with its zone or without one, and more precisely than a message can say it.
    DateTime {
        /// What it is compared as, in milliseconds since 1970; without a zone it is UTC.
        at_ms: i64,
        /// As it was written.
        text: Box<str>,
    },
    /// A decimal of 32 bits.
    Decimal32 {
        /// As AMQP encodes it.
        bits: u32,
        /// The same number in 128 bits.
        wide: u128,
    },
    /// A decimal of 64 bits.
    Decimal64 {
        /// As AMQP encodes it.
        bits: u64,
        /// The same number in 128 bits.
        wide: u128,
    },
}

impl Given {
    /// The value as it is compared.
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

    /// Whether a value of a message equals it. Asked about every message, so nothing is copied.
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
