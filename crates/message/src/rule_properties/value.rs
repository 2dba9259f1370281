//! Conversion of property values between AMQP's types and those that rules compare.

use bytes::Bytes;
use peeklock_engine::{Given, PropertyValue};
use peeklock_wire::Value;

use crate::decimal;

/// Duration as written by N, J and P: ticks of 100 ns.
const TIMESPAN: &str = "com.microsoft:timespan";
/// Time with offset as written by N: ticks of 100 ns since the year 1.
const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
/// URI as written by N.
const URI: &str = "com.microsoft:uri";

/// A value for comparison by rules. Symbols, characters and URIs are texts in rules (inferred); values of types unknown
/// to rules, such as binaries, are equal when their encodings are.
#[must_use]
pub fn from_value(value: Value) -> PropertyValue {
    match value {
        Value::Null => PropertyValue::Null,
        Value::Bool(truth) => PropertyValue::Boolean(truth),
        Value::ULong(number) => {
            i64::try_from(number).map_or(PropertyValue::Unsigned(number), PropertyValue::Integer)
        }
        Value::UByte(number) => PropertyValue::Integer(number.into()),
        Value::UShort(number) => PropertyValue::Integer(number.into()),
        Value::UInt(number) => PropertyValue::Integer(number.into()),
        Value::Byte(number) => PropertyValue::Integer(number.into()),
        Value::Short(number) => PropertyValue::Integer(number.into()),
        Value::Int(number) => PropertyValue::Integer(number.into()),
        Value::Long(number) => PropertyValue::Integer(number),
        Value::Float(number) => PropertyValue::Double(number.into()),
        Value::Double(number) => PropertyValue::Double(number),
        Value::Decimal32(bytes) => PropertyValue::Decimal(decimal::widen_32(u32::from_be_bytes(bytes))),
        Value::Decimal64(bytes) => PropertyValue::Decimal(decimal::widen_64(u64::from_be_bytes(bytes))),
        Value::Decimal128(bytes) => PropertyValue::Decimal(u128::from_be_bytes(bytes)),
        Value::String(text) | Value::Symbol(text) => PropertyValue::Text(text),
        Value::Char(character) => PropertyValue::Text(character.encode_utf8(&mut [0; 4]).into()),
        Value::Timestamp(at_ms) => PropertyValue::Timestamp(at_ms),
        Value::Uuid(uuid) => PropertyValue::Uuid(u128::from_be_bytes(uuid)),
        other => from_described(other),
    }
}

fn from_described(value: Value) -> PropertyValue {
    if let Value::Described(described) = &value
        && let Some(kind) = described.descriptor.as_str()
    {
        match (kind, &described.value) {
            (TIMESPAN, Value::Long(ticks)) => return PropertyValue::TimeSpan(*ticks),
            (DATE_TIME_OFFSET, Value::Long(ticks)) => return PropertyValue::DateTimeOffset(*ticks),
            (URI, Value::String(uri)) => return PropertyValue::Text(uri.clone()),
            _ => {}
        }
    }
    PropertyValue::Other(value.to_bytes().as_ref().into())
}

/// A value that a client gave to a rule: comparable, and with its own type, which is returned when the rule is listed.
#[must_use]
pub fn given_from_value(value: Value) -> PropertyValue {
    let given = match &value {
        Value::UByte(number) => Given::UByte(*number),
        Value::UShort(number) => Given::UShort(*number),
        Value::UInt(number) => Given::UInt(*number),
        Value::ULong(number) => Given::ULong(*number),
        Value::Byte(number) => Given::Byte(*number),
        Value::Short(number) => Given::Short(*number),
        Value::Int(number) => Given::Int(*number),
        Value::Long(number) => Given::Long(*number),
        Value::Float(number) => Given::Float(*number),
        Value::Char(character) => Given::Char(*character),
        Value::Symbol(text) => Given::Symbol(text.clone()),
        Value::Decimal32(bytes) => {
            let bits = u32::from_be_bytes(*bytes);
            Given::Decimal32 { bits, wide: decimal::widen_32(bits) }
        }
        Value::Decimal64(bytes) => {
            let bits = u64::from_be_bytes(*bytes);
            Given::Decimal64 { bits, wide: decimal::widen_64(bits) }
        }
        Value::Described(described) => match (described.descriptor.as_str(), &described.value) {
            (Some(URI), Value::String(uri)) => Given::Uri(uri.clone()),
            _ => return from_value(value),
        },
        _ => return from_value(value),
    };
    PropertyValue::Given(Box::new(given))
}

/// A rule's value for listing: with the type given by the client, or the widest of its kind.
#[must_use]
pub fn to_value(value: &PropertyValue) -> Value {
    match value {
        PropertyValue::Null => Value::Null,
        PropertyValue::Boolean(truth) => Value::Bool(*truth),
        PropertyValue::Integer(number) => Value::Long(*number),
        PropertyValue::Unsigned(number) => Value::ULong(*number),
        PropertyValue::Double(number) => Value::Double(*number),
        PropertyValue::Text(text) => Value::String(text.clone()),
        PropertyValue::Timestamp(at_ms) => Value::Timestamp(*at_ms),
        PropertyValue::Uuid(uuid) => Value::Uuid(uuid.to_be_bytes()),
        PropertyValue::TimeSpan(ticks) => Value::described(Value::symbol(TIMESPAN), Value::Long(*ticks)),
        PropertyValue::DateTimeOffset(ticks) => {
            Value::described(Value::symbol(DATE_TIME_OFFSET), Value::Long(*ticks))
        }
        PropertyValue::Decimal(decimal) => Value::Decimal128(decimal.to_be_bytes()),
        PropertyValue::Other(encoded) => {
            Value::decode(&mut Bytes::copy_from_slice(encoded)).unwrap_or_default()
        }
        PropertyValue::Given(given) => given_to_value(given),
    }
}

fn given_to_value(given: &Given) -> Value {
    match given {
        Given::UByte(number) => Value::UByte(*number),
        Given::UShort(number) => Value::UShort(*number),
        Given::UInt(number) => Value::UInt(*number),
        Given::ULong(number) => Value::ULong(*number),
        Given::Byte(number) => Value::Byte(*number),
        Given::Short(number) => Value::Short(*number),
        Given::Int(number) => Value::Int(*number),
        Given::Long(number) => Value::Long(*number),
        Given::Float(number) => Value::Float(*number),
        Given::Char(character) => Value::Char(*character),
        Given::Symbol(text) => Value::Symbol(text.clone()),
        Given::Uri(uri) => Value::described(Value::symbol(URI), Value::String(uri.clone())),
        Given::DateTime { at_ms, .. } => Value::Timestamp(*at_ms),
        Given::Decimal32 { bits, .. } => Value::Decimal32(bits.to_be_bytes()),
        Given::Decimal64 { bits, .. } => Value::Decimal64(bits.to_be_bytes()),
    }
}
