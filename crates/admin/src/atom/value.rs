//! Typed values in filters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use peeklock_engine::{FactValue, decimal};
use peeklock_message::facts;
use peeklock_wire::Value;
use uuid::Uuid;

use super::duration;
use super::instant;
use super::xml::{Document, Element, SCHEMA, SERIALIZATION};

/// The element that holds a value.
const NAME: &str = "Value";

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
        "decimal" => decimal::parse(trimmed).map(FactValue::Decimal),
        "duration" => timespan(trimmed).map(FactValue::TimeSpan),
        "guid" => Uuid::parse_str(trimmed).ok().map(|uuid| FactValue::Uuid(uuid.as_u128())),
        "base64Binary" => encoded(trimmed),
        _ => {
            return Err(format!(
                "has the type '{kind}'; string, boolean, int, long, double, decimal, dateTime, duration and guid are supported."
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
fn encoded(text: &str) -> Option<FactValue> {
    let mut rest = Bytes::from(STANDARD.decode(text).ok()?);
    let value = Value::decode(&mut rest).ok()?;
    rest.is_empty().then(|| facts::from_value(value))
}

/// A length of time in ticks of 100 ns.
fn timespan(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(text) => 0_i64.checked_sub_unsigned(duration::parse_ticks(text)?),
        None => i64::try_from(duration::parse_ticks(text)?).ok(),
    }
}

fn timespan_text(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    format!("{sign}{}", duration::ticks_text(ticks.unsigned_abs()))
}

/// A decimal in digits, if reading them gives the same bits again.
fn decimal_text(number: u128) -> Option<String> {
    let text = decimal::text(number);
    (decimal::parse(&text) == Some(number)).then_some(text)
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
        FactValue::Timestamp(at_ms) if instant::is_shown(*at_ms) => ("dateTime", instant::text_ms(*at_ms)),
        FactValue::Uuid(uuid) => ("guid", Uuid::from_u128(*uuid).to_string()),
        FactValue::TimeSpan(ticks) => ("duration", timespan_text(*ticks)),
        FactValue::Decimal(number) => {
            decimal_text(*number).map_or_else(|| as_encoded(value), |text| ("decimal", text))
        }
        FactValue::Timestamp(_) | FactValue::DateTimeOffset(_) | FactValue::Other(_) => as_encoded(value),
    };
    let namespace = if kind == "guid" { SERIALIZATION } else { SCHEMA };
    let kind = format!("d6p1:{kind}");
    document.attributed_text(NAME, &[("i:type", &kind), ("xmlns:d6p1", namespace)], &text);
}

/// What came over AMQP and has no type here comes back as it is.
fn as_encoded(value: &FactValue) -> (&'static str, String) {
    ("base64Binary", STANDARD.encode(facts::to_value(value).to_bytes()))
}
