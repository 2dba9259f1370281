//! Typed values in filters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use peeklock_engine::FactValue;
use peeklock_wire::Value;
use uuid::Uuid;

use super::duration;
use super::instant;
use super::xml::{Document, Element, SCHEMA, SERIALIZATION};

/// The element that holds a value.
const NAME: &str = "Value";

/// How N and P write a duration in a message, in ticks of 100 ns.
const TIMESPAN: &str = "com.microsoft:timespan";
const TICKS_PER_MS: i64 = 10_000;

/// A value with its type.
///
/// # Errors
/// A type that is not known or a text that is not of its type, as the end of a sentence.
pub(super) fn read(element: &Element) -> Result<FactValue, String> {
    if element.nil {
        return Ok(FactValue::Null);
    }
    let (text, trimmed) = (element.text.as_str(), element.text.trim());
    let kind = element.kind.as_deref().unwrap_or("string");
    let value = match kind {
        "string" => Some(FactValue::Text(text.into())),
        "boolean" => boolean(trimmed).map(FactValue::Boolean),
        "int" | "long" | "short" | "byte" | "unsignedInt" | "unsignedShort" | "unsignedByte"
        | "unsignedLong" => integer(trimmed),
        "double" | "float" => double(trimmed).map(FactValue::Double),
        "dateTime" => instant::parse_ms(trimmed).map(FactValue::Timestamp),
        "duration" => timespan(trimmed).map(FactValue::Other),
        "guid" => Uuid::parse_str(trimmed).ok().map(|uuid| FactValue::Uuid(uuid.as_u128())),
        "base64Binary" => encoded(trimmed).map(FactValue::Other),
        _ => {
            return Err(format!(
                "has the type '{kind}'; string, boolean, int, long, double, dateTime, duration and guid are supported."
            ));
        }
    };
    value.ok_or_else(|| format!("has a value that is no {kind}."))
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn integer(text: &str) -> Option<FactValue> {
    text.parse().map(FactValue::Integer).or_else(|_| text.parse().map(FactValue::Unsigned)).ok()
}

/// Numbers as XML has them: Rust knows the special ones by other names.
fn double(text: &str) -> Option<f64> {
    match text {
        "INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

fn double_text(number: f64) -> String {
    match number {
        f64::INFINITY => "INF".to_owned(),
        f64::NEG_INFINITY => "-INF".to_owned(),
        number => number.to_string(),
    }
}

/// What was given out as such: the AMQP encoding of one value.
fn encoded(text: &str) -> Option<Box<[u8]>> {
    let encoded = STANDARD.decode(text).ok()?;
    let mut rest = Bytes::from(encoded.clone());
    Value::decode(&mut rest).ok()?;
    rest.is_empty().then(|| encoded.into())
}

/// A duration as it stands in a message, so that the two can be equal.
fn timespan(text: &str) -> Option<Box<[u8]>> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let length_ms = duration::parse(text)?.and_then(|length_ms| i64::try_from(length_ms).ok())?;
    let ticks = length_ms.checked_mul(if negative { -TICKS_PER_MS } else { TICKS_PER_MS })?;
    let value = Value::described(Value::symbol(TIMESPAN), Value::Long(ticks));
    Some(value.to_bytes().as_ref().into())
}

/// The reverse of [`timespan`]; `None` for what is something else.
fn timespan_text(encoded: &[u8]) -> Option<String> {
    let Ok(Value::Described(described)) = Value::decode(&mut Bytes::copy_from_slice(encoded)) else {
        return None;
    };
    let (Value::Symbol(descriptor), Value::Long(ticks)) = (&described.descriptor, &described.value) else {
        return None;
    };
    let is_whole = ticks % TICKS_PER_MS == 0;
    let sign = if *ticks < 0 { "-" } else { "" };
    let length = duration::text(ticks.unsigned_abs() / TICKS_PER_MS.unsigned_abs());
    (&**descriptor == TIMESPAN && is_whole).then(|| format!("{sign}{length}"))
}

/// Writes a value. JS cuts a prefix of four letters off the type, and reads no wider integer than an int: only what needs
/// it is a long.
pub(super) fn write(document: &mut Document, value: &FactValue) {
    let (kind, text) = match value {
        FactValue::Null => return document.attributed_text(NAME, &[("i:nil", "true")], ""),
        FactValue::Boolean(truth) => ("boolean", truth.to_string()),
        FactValue::Integer(number) if i32::try_from(*number).is_ok() => ("int", number.to_string()),
        FactValue::Integer(number) => ("long", number.to_string()),
        FactValue::Unsigned(number) => ("unsignedLong", number.to_string()),
        FactValue::Double(number) => ("double", double_text(*number)),
        FactValue::Text(text) => ("string", text.to_string()),
        FactValue::Timestamp(at_ms) => ("dateTime", instant::text_ms(*at_ms)),
        FactValue::Uuid(uuid) => ("guid", Uuid::from_u128(*uuid).to_string()),
        // What came over AMQP and has no type here comes back as it is.
        FactValue::TimeSpan(_) | FactValue::DateTimeOffset(_) | FactValue::Decimal(_) => {
            ("base64Binary", STANDARD.encode(peeklock_message::facts::to_value(value).to_bytes()))
        }
        FactValue::Other(encoded) => match timespan_text(encoded) {
            Some(text) => ("duration", text),
            None => ("base64Binary", STANDARD.encode(encoded)),
        },
    };
    let namespace = if kind == "guid" { SERIALIZATION } else { SCHEMA };
    let kind = format!("d6p1:{kind}");
    document.attributed_text(NAME, &[("i:type", &kind), ("xmlns:d6p1", namespace)], &text);
}
