//! Values of properties, between AMQP's types and those that rules compare.

use bytes::Bytes;
use peeklock_engine::{FactValue, Given};
use peeklock_wire::Value;

use crate::decimal;

/// How N, J and P write a length of time: ticks of 100 ns.
const TIMESPAN: &str = "com.microsoft:timespan";
/// How N writes an instant with its offset: ticks of 100 ns since the year 1.
const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
/// How N writes an address.
const URI: &str = "com.microsoft:uri";

/// A value as rules compare it. Symbols, characters and addresses are texts to whoever writes a rule (inferred); what
/// rules know nothing of, such as binaries, is equal when its encoding is.
#[must_use]
pub fn from_value(value: Value) -> FactValue {
    match value {
        Value::Null => FactValue::Null,
        Value::Bool(truth) => FactValue::Boolean(truth),
        Value::ULong(number) => i64::try_from(number).map_or(FactValue::Unsigned(number), FactValue::Integer),
        Value::UByte(number) => FactValue::Integer(number.into()),
        Value::UShort(number) => FactValue::Integer(number.into()),
        Value::UInt(number) => FactValue::Integer(number.into()),
        Value::Byte(number) => FactValue::Integer(number.into()),
        Value::Short(number) => FactValue::Integer(number.into()),
        Value::Int(number) => FactValue::Integer(number.into()),
        Value::Long(number) => FactValue::Integer(number),
        Value::Float(number) => FactValue::Double(number.into()),
        Value::Double(number) => FactValue::Double(number),
        Value::Decimal32(bytes) => FactValue::Decimal(decimal::widen_32(u32::from_be_bytes(bytes))),
        Value::Decimal64(bytes) => FactValue::Decimal(decimal::widen_64(u64::from_be_bytes(bytes))),
        Value::Decimal128(bytes) => FactValue::Decimal(u128::from_be_bytes(bytes)),
        Value::String(text) | Value::Symbol(text) => FactValue::Text(text),
        Value::Char(character) => FactValue::Text(character.encode_utf8(&mut [0; 4]).into()),
        Value::Timestamp(at_ms) => FactValue::Timestamp(at_ms),
        Value::Uuid(uuid) => FactValue::Uuid(u128::from_be_bytes(uuid)),
        other => from_described(other),
    }
}

fn from_described(value: Value) -> FactValue {
    if let Value::Described(described) = &value
        && let Some(kind) = described.descriptor.as_str()
    {
        match (kind, &described.value) {
            (TIMESPAN, Value::Long(ticks)) => return FactValue::TimeSpan(*ticks),
            (DATE_TIME_OFFSET, Value::Long(ticks)) => return FactValue::DateTimeOffset(*ticks),
            (URI, Value::String(uri)) => return FactValue::Text(uri.clone()),
            _ => {}
        }
    }
    FactValue::Other(value.to_bytes().as_ref().into())
}

/// A value that a client gave to a rule: as rules compare it, and with its own type, which is shown to those who list the rule.
#[must_use]
pub fn given_from_value(value: Value) -> FactValue {
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
    FactValue::Given(Box::new(given))
}

/// A value of a rule as it is shown: with the type that its client gave it, else as the widest of its kind.
#[must_use]
pub fn to_value(value: &FactValue) -> Value {
    match value {
        FactValue::Null => Value::Null,
        FactValue::Boolean(truth) => Value::Bool(*truth),
        FactValue::Integer(number) => Value::Long(*number),
        FactValue::Unsigned(number) => Value::ULong(*number),
        FactValue::Double(number) => Value::Double(*number),
        FactValue::Text(text) => Value::String(text.clone()),
        FactValue::Timestamp(at_ms) => Value::Timestamp(*at_ms),
        FactValue::Uuid(uuid) => Value::Uuid(uuid.to_be_bytes()),
        FactValue::TimeSpan(ticks) => Value::described(Value::symbol(TIMESPAN), Value::Long(*ticks)),
        FactValue::DateTimeOffset(ticks) => {
            Value::described(Value::symbol(DATE_TIME_OFFSET), Value::Long(*ticks))
        }
        FactValue::Decimal(decimal) => Value::Decimal128(decimal.to_be_bytes()),
        FactValue::Other(encoded) => Value::decode(&mut Bytes::copy_from_slice(encoded)).unwrap_or_default(),
        FactValue::Given(given) => given_to_value(given),
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
