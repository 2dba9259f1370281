//! Conversion of values to the type of an existing property.

use uuid::Uuid;

use super::instant;
use super::text;
use super::time_span;
use super::value::Value;
use crate::PropertyValue;
use crate::decimal;

/// Converts a value for a property that has another one: to the same type if that is possible without loss, otherwise
/// it keeps its own type ("SET performs implicit conversion if possible", documented; that an impossible conversion is
/// not a failure is inferred). A null has no type.
pub(super) fn converted(value: Value<'_>, existing: Option<&PropertyValue>) -> PropertyValue {
    let in_its_kind = existing.and_then(|existing| in_kind_of(existing, &value));
    in_its_kind.unwrap_or_else(|| value.into_fact())
}

/// `None` if the conversion is impossible or unnecessary.
fn in_kind_of(existing: &PropertyValue, value: &Value<'_>) -> Option<PropertyValue> {
    match existing {
        PropertyValue::Boolean(_) => boolean(value).map(PropertyValue::Boolean),
        PropertyValue::Integer(_) | PropertyValue::Unsigned(_) => integer(value),
        PropertyValue::Double(_) => double(value).map(PropertyValue::Double),
        PropertyValue::Decimal(_) => decimal_bits(value).map(PropertyValue::Decimal),
        PropertyValue::Text(_) => text::text(value).map(|text| PropertyValue::Text(text.into())),
        PropertyValue::Timestamp(_) => timestamp(value).map(PropertyValue::Timestamp),
        PropertyValue::DateTimeOffset(_) => date_time_offset(value).map(PropertyValue::DateTimeOffset),
        PropertyValue::TimeSpan(_) => as_text(value).and_then(time_span::parse).map(PropertyValue::TimeSpan),
        PropertyValue::Uuid(_) => {
            let uuid = as_text(value).and_then(|text| Uuid::try_parse(text).ok())?;
            Some(PropertyValue::Uuid(uuid.as_u128()))
        }
        PropertyValue::Null | PropertyValue::Other(_) | PropertyValue::Given(_) => None,
    }
}

fn as_text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn boolean(value: &Value<'_>) -> Option<bool> {
    let text = as_text(value)?.trim();
    match (text.eq_ignore_ascii_case("true"), text.eq_ignore_ascii_case("false")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

fn integer(value: &Value<'_>) -> Option<PropertyValue> {
    let number: i128 = match value {
        Value::Text(text) => text.trim().parse().ok()?,
        Value::Double(_) | Value::Decimal(_) => whole(value.as_double()?)?,
        _ => return None,
    };
    let signed = i64::try_from(number).map(PropertyValue::Integer);
    signed.or_else(|_| u64::try_from(number).map(PropertyValue::Unsigned)).ok()
}

/// A double without a fraction as an integer; beyond 2^53 not all integers are representable as doubles.
fn whole(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i128)
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        value => value.as_double(),
    }
}

fn decimal_bits(value: &Value<'_>) -> Option<u128> {
    match value {
        Value::Text(text) => decimal::parse(text.trim()),
        Value::Double(_) => decimal::parse(&text::text(value)?),
        value => value.as_integer().and_then(decimal::of_integer),
    }
}

fn timestamp(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Text(text) => instant::parse(text).map(instant::ms_of_ticks),
        Value::DateTimeOffset(ticks) => Some(instant::ms_of_ticks(*ticks)),
        _ => None,
    }
}

fn date_time_offset(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Text(text) => instant::parse(text),
        Value::Timestamp(at_ms) => i64::try_from(instant::ticks_of_ms(*at_ms)).ok(),
        _ => None,
    }
}
