//! Hashes of properties and values. Equal ones have equal hashes; different ones may share a hash, because each
//! candidate found by it is evaluated.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::names::fold;
use crate::sql::Value;
use crate::sql::tree::SystemProperty;

/// The hash of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PropertyKey(u64);

/// The hash of a property with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

impl PropertyKey {
    /// A system property.
    pub(super) fn system(property: SystemProperty) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write_u8(property as u8);
        Self(hasher.finish())
    }

    /// An application property; names are case-insensitive.
    pub(super) fn user(name: &str) -> Self {
        let mut hasher = FxHasher::default();
        if name.is_ascii() {
            for few in name.as_bytes().chunks(size_of::<u64>()) {
                // Upper and lower case of a letter differ in one bit.
                hasher.write_u64(few.iter().fold(0, |word, byte| word << 8 | u64::from(byte | 0x20)));
            }
        } else {
            name.chars().for_each(|letter| hasher.write_u32(fold(letter).into()));
        }
        Self(hasher.finish())
    }

    /// The key of this property with a value. Values that are equal for correlation filters
    /// ([`crate::PropertyValue::equals`]) or for SQL, except a text and a non-text, have the same key.
    pub(super) fn with(self, value: &Value<'_>) -> Key {
        match value {
            Value::Unknown => self.kind(Kind::Unknown, |_| {}),
            Value::Boolean(value) => self.kind(Kind::Boolean, |hasher| hasher.write_u8((*value).into())),
            Value::Integer(_) | Value::Unsigned(_) | Value::Double(_) | Value::Decimal(_) => {
                self.kind(Kind::Number, |hasher| hasher.write_u64(number(value)))
            }
            Value::Text(text) => self.kind(Kind::Text, |hasher| hasher.write(text.as_bytes())),
            Value::Timestamp(at_ms) => self.kind(Kind::Timestamp, |hasher| hasher.write_i64(*at_ms)),
            Value::DateTimeOffset(ticks) => {
                self.kind(Kind::DateTimeOffset, |hasher| hasher.write_i64(*ticks))
            }
            Value::TimeSpan(ticks) => self.kind(Kind::TimeSpan, |hasher| hasher.write_i64(*ticks)),
            Value::Uuid(uuid) => self.kind(Kind::Uuid, |hasher| hasher.write_u128(*uuid)),
            Value::Other(bytes) => self.kind(Kind::Other, |hasher| hasher.write(bytes)),
        }
    }

    fn kind(self, kind: Kind, value: impl FnOnce(&mut FxHasher)) -> Key {
        let mut hasher = FxHasher::default();
        hasher.write_u64(self.0);
        hasher.write_u8(kind as u8);
        value(&mut hasher);
        Key(hasher.finish())
    }
}

/// The bits of the nearest double, which is the same for equal numbers; zero has two encodings.
fn number(value: &Value<'_>) -> u64 {
    let number = value.as_double().unwrap_or(f64::NAN);
    if number == 0.0 { 0 } else { number.to_bits() }
}

#[derive(Clone, Copy)]
enum Kind {
    Unknown,
    Boolean,
    Number,
    Text,
    Timestamp,
    DateTimeOffset,
    TimeSpan,
    Uuid,
    Other,
}
