//! Properties and values as numbers. Equal ones have equal numbers; different ones may share a number, because whatever is
//! found by it is asked itself.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::FactValue;
use crate::sql::tree::SystemProperty;

/// A property of messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Property<'a> {
    /// An application property; names match regardless of case.
    User(&'a str),
    /// What the broker knows by name.
    System(SystemProperty),
}

/// What stands for a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PropertyKey(u64);

/// What stands for a property with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

impl PropertyKey {
    pub(super) fn of(property: Property<'_>) -> Self {
        let mut hasher = FxHasher::default();
        match property {
            Property::System(property) => hasher.write_u8(property as u8),
            // One bit is all that tells the cases of a letter apart.
            Property::User(name) if name.is_ascii() => {
                for few in name.as_bytes().chunks(size_of::<u64>()) {
                    hasher.write_u64(few.iter().fold(0, |word, byte| word << 8 | u64::from(byte | 0x20)));
                }
            }
            // However case is told apart beyond ASCII, it is letter by letter.
            Property::User(name) => hasher.write_usize(name.chars().count()),
        }
        Self(hasher.finish())
    }

    /// This property with a text as its value.
    pub(super) fn with_text(self, text: &str) -> Key {
        self.with(Kind::Text, |hasher| hasher.write(text.as_bytes()))
    }

    /// This property with a value. Values that are equal to filters ([`FactValue::equals`]) make the same key.
    pub(super) fn with_value(self, value: &FactValue) -> Key {
        match value {
            FactValue::Null => self.with(Kind::Null, |_| {}),
            FactValue::Boolean(value) => self.with(Kind::Boolean, |hasher| hasher.write_u8((*value).into())),
            FactValue::Integer(number) => self.with_number(*number as f64),
            FactValue::Unsigned(number) => self.with_number(*number as f64),
            FactValue::Double(number) => self.with_number(*number),
            FactValue::Text(text) => self.with_text(text),
            FactValue::Timestamp(at_ms) => self.with(Kind::Timestamp, |hasher| hasher.write_i64(*at_ms)),
            FactValue::Uuid(uuid) => self.with(Kind::Uuid, |hasher| hasher.write_u128(*uuid)),
            FactValue::Other(bytes) => self.with(Kind::Other, |hasher| hasher.write(bytes)),
            FactValue::TimeSpan(ticks) => self.with(Kind::TimeSpan, |hasher| hasher.write_i64(*ticks)),
            FactValue::DateTimeOffset(ticks) => {
                self.with(Kind::DateTimeOffset, |hasher| hasher.write_i64(*ticks))
            }
            FactValue::Decimal(bits) => self.with(Kind::Decimal, |hasher| hasher.write_u128(*bits)),
        }
    }

    /// Numbers that are equal have the same nearest double; that of zero has two forms.
    fn with_number(self, number: f64) -> Key {
        let number = if number == 0.0 { 0.0 } else { number };
        self.with(Kind::Number, |hasher| hasher.write_u64(number.to_bits()))
    }

    fn with(self, kind: Kind, value: impl FnOnce(&mut FxHasher)) -> Key {
        let mut hasher = FxHasher::default();
        hasher.write_u64(self.0);
        hasher.write_u8(kind as u8);
        value(&mut hasher);
        Key(hasher.finish())
    }
}

/// Values of different kinds are never equal.
#[derive(Clone, Copy)]
enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Timestamp,
    Uuid,
    Other,
    TimeSpan,
    DateTimeOffset,
    Decimal,
}
