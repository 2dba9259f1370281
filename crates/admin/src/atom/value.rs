//! Typed values in filters.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use peeklock_engine::{Given, PropertyValue, decimal};
use peeklock_message::rule_properties;
use peeklock_wire::Value;
use uuid::Uuid;

use super::duration;
use super::instant;
use super::xml::{Document, Element, SCHEMA, SERIALIZATION};

/// The element that contains a value.
const NAME: &str = "Value";
/// Longest text of a time that is kept, in bytes: `2026-11-22T10:15:30.123456789+01:00`.
const DATE_TIME_BYTES_MAX: usize = 35;
/// Digits of a second down to 100 ns.
const TICK_DIGITS: usize = 7;

/// Reads a value with its type.
///
/// # Errors
/// An unknown type or a text that does not match its type, as the end of a sentence.
pub(super) fn read(element: &Element) -> Result<PropertyValue, String> {
    if element.nil {
        return Ok(PropertyValue::Null);
    }
    let (text, trimmed) = (element.text.as_str(), element.text.trim());
    let kind = element.kind.as_deref().unwrap_or("string");
    let value = match kind {
        "string" => Some(PropertyValue::Text(text.into())),
        "boolean" => boolean(trimmed).map(PropertyValue::Boolean),
        // Go declares every integer as int, and Python a negative one.
        "int" => given(trimmed, Given::Int).or_else(|| integer(trimmed)),
        "long" => given(trimmed, Given::Long).or_else(|| integer(trimmed)),
        "short" => given(trimmed, Given::Short),
        "byte" => given(trimmed, Given::Byte),
        "unsignedInt" => given(trimmed, Given::UInt),
        "unsignedLong" => given(trimmed, Given::ULong),
        "unsignedShort" => given(trimmed, Given::UShort),
        "unsignedByte" => given(trimmed, Given::UByte),
        "float" => float(trimmed).map(|number| boxed(Given::Float(number))),
        "double" => float(trimmed).map(PropertyValue::Double),
        "char" => character(trimmed).map(|character| boxed(Given::Char(character))),
        "anyURI" => Some(boxed(Given::Uri(trimmed.into()))),
        "dateTime" => date_time(trimmed),
        "decimal" => decimal::parse(trimmed).map(PropertyValue::Decimal),
        "duration" => timespan(trimmed).map(PropertyValue::TimeSpan),
        "guid" => Uuid::parse_str(trimmed).ok().map(|uuid| PropertyValue::Uuid(uuid.as_u128())),
        "base64Binary" => encoded(trimmed),
        _ => {
            return Err(format!(
                "has the type '{kind}'; string, boolean, the numbers of XML, char, anyURI, dateTime, duration and guid are supported."
            ));
        }
    };
    value.ok_or_else(|| format!("has a value that is not a valid {kind}."))
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn boxed(given: Given) -> PropertyValue {
    PropertyValue::Given(Box::new(given))
}

/// A number that keeps its type.
fn given<T: FromStr>(text: &str, form: impl FnOnce(T) -> Given) -> Option<PropertyValue> {
    text.parse().ok().map(|number| boxed(form(number)))
}

fn integer(text: &str) -> Option<PropertyValue> {
    text.parse().map(PropertyValue::Integer).or_else(|_| text.parse().map(PropertyValue::Unsigned)).ok()
}

/// .NET writes the number of a character.
fn character(text: &str) -> Option<char> {
    text.parse().ok().and_then(char::from_u32)
}

/// A time that keeps its text, including its zone if any, and ticks of 100 ns.
fn date_time(text: &str) -> Option<PropertyValue> {
    let at_ms = instant::parse_ms(text)?;
    // Other accepted forms are not valid as dateTime in XML.
    let is_plain = text.len() <= DATE_TIME_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"-+:.TZ".contains(&byte));
    Some(if is_plain {
        boxed(Given::DateTime { at_ms, text: in_ticks(text).into() })
    } else {
        PropertyValue::Timestamp(at_ms)
    })
}

/// A time with the fraction of a second as .NET writes it: at most seven digits, without trailing zeros.
fn in_ticks(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else { return text.to_owned() };
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, zone) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let digits = digits.get(..TICK_DIGITS).unwrap_or(digits).trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{whole}{point}{digits}{zone}")
}

/// Numbers in XML: Rust has other names for the special ones.
fn float<T: FromStr>(text: &str) -> Option<T> {
    let text = match text {
        "INF" => "inf",
        "-INF" => "-inf",
        text => text,
    };
    text.parse().ok()
}

fn float_text(number: impl ToString) -> String {
    match number.to_string() {
        text if text == "inf" => "INF".to_owned(),
        text if text == "-inf" => "-INF".to_owned(),
        text => text,
    }
}

/// The AMQP encoding of one value, as earlier returned to the client.
fn encoded(text: &str) -> Option<PropertyValue> {
    let mut rest = Bytes::from(STANDARD.decode(text).ok()?);
    let value = Value::decode(&mut rest).ok()?;
    rest.is_empty().then(|| rule_properties::given_from_value(value))
}

/// A duration in ticks of 100 ns.
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

/// A decimal as digits, if they parse to the same bits.
fn decimal_text(number: u128) -> Option<String> {
    let text = decimal::text(number);
    (decimal::parse(&text) == Some(number)).then_some(text)
}

/// Writes a value with its type. JS removes a prefix of four letters from the type. The types that XML Schema lacks or
/// defines otherwise, durations among them, are those of .NET's serializer (azure-sdk-for-net's recording
/// BasicRuleCrudOperations).
pub(super) fn write(document: &mut Document, value: &PropertyValue) {
    let Some((kind, text)) = typed_text(value) else {
        return document.attributed_text(NAME, &[("i:nil", "true")], "");
    };
    let namespace = if matches!(kind, "guid" | "char" | "duration") { SERIALIZATION } else { SCHEMA };
    let kind = format!("d6p1:{kind}");
    document.attributed_text(NAME, &[("i:type", &kind), ("xmlns:d6p1", namespace)], &text);
}

/// The type that the client specified for a value, and its text; `None` for null. An integer without a type is an int
/// if it fits: JS reads no wider type.
pub(crate) fn typed_text(value: &PropertyValue) -> Option<(&'static str, String)> {
    Some(match value {
        PropertyValue::Null => return None,
        PropertyValue::Boolean(truth) => ("boolean", truth.to_string()),
        PropertyValue::Integer(number) if i32::try_from(*number).is_ok() => ("int", number.to_string()),
        PropertyValue::Integer(number) => ("long", number.to_string()),
        PropertyValue::Unsigned(number) => ("unsignedLong", number.to_string()),
        PropertyValue::Double(number) => ("double", float_text(number)),
        PropertyValue::Text(text) => ("string", text.to_string()),
        PropertyValue::Timestamp(at_ms) if instant::is_shown(*at_ms) => {
            ("dateTime", instant::text_ms(*at_ms))
        }
        PropertyValue::Uuid(uuid) => ("guid", Uuid::from_u128(*uuid).to_string()),
        PropertyValue::TimeSpan(ticks) => ("duration", timespan_text(*ticks)),
        PropertyValue::Decimal(number) => {
            decimal_text(*number).map_or_else(|| as_encoded(value), |text| ("decimal", text))
        }
        PropertyValue::Timestamp(_) | PropertyValue::DateTimeOffset(_) | PropertyValue::Other(_) => {
            as_encoded(value)
        }
        PropertyValue::Given(given) => match as_given(given) {
            Some(known) => known,
            None => return typed_text(&given.plain()),
        },
    })
}

/// Type and text of a value with a specified type; `None` for types of AMQP, which are written as the type they are
/// compared as.
fn as_given(given: &Given) -> Option<(&'static str, String)> {
    Some(match given {
        Given::Byte(number) => ("byte", number.to_string()),
        Given::Short(number) => ("short", number.to_string()),
        Given::Int(number) => ("int", number.to_string()),
        Given::Long(number) => ("long", number.to_string()),
        Given::UByte(number) => ("unsignedByte", number.to_string()),
        Given::UShort(number) => ("unsignedShort", number.to_string()),
        Given::UInt(number) => ("unsignedInt", number.to_string()),
        Given::ULong(number) => ("unsignedLong", number.to_string()),
        Given::Float(number) => ("float", float_text(number)),
        Given::Char(character) => ("char", u32::from(*character).to_string()),
        Given::Uri(uri) => ("anyURI", uri.to_string()),
        Given::DateTime { text, .. } => ("dateTime", text.to_string()),
        Given::Symbol(_) | Given::Decimal32 { .. } | Given::Decimal64 { .. } => return None,
    })
}

/// A value received over AMQP that has no type here is written in its encoding.
fn as_encoded(value: &PropertyValue) -> (&'static str, String) {
    ("base64Binary", STANDARD.encode(rule_properties::to_value(value).to_bytes()))
}
