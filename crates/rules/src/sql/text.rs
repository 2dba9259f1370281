//! Conversion of values to texts, independent of culture.

use super::instant;
use super::time_span;
use super::value::Value;
use crate::decimal;

/// A value as formatted by .NET for the invariant culture, times in the round-trip form (inferred); `None` for UNKNOWN
/// and types without text form.
pub(super) fn text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Unknown | Value::Other(_) => return None,
        Value::Boolean(true) => "True".to_owned(),
        Value::Boolean(false) => "False".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Double(number) => double(*number),
        Value::Decimal(bits) => decimal::text(*bits),
        Value::Text(text) => text.clone().into_owned(),
        Value::Timestamp(at_ms) => return instant::text(instant::ticks_of_ms(*at_ms)),
        Value::DateTimeOffset(ticks) => return instant::text((*ticks).into()),
        Value::TimeSpan(ticks) => time_span::text(*ticks),
        Value::Uuid(uuid) => uuid::Uuid::from_u128(*uuid).to_string(),
    })
}

/// The shortest digits of the same number, with an exponent for more than 15 digits or below 0.0001.
fn double(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let count = digits.bytes().filter(u8::is_ascii_digit).count() as i32;
    if exponent < count.max(15) && exponent >= -4 {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}E{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_dotnet_does() {
        let cases = [
            (5.0, "5"),
            (-0.5, "-0.5"),
            (0.1, "0.1"),
            (0.0, "0"),
            (-0.0, "-0"),
            (0.0001, "0.0001"),
            (0.00001, "1E-05"),
            (1e14, "100000000000000"),
            (1e15, "1E+15"),
            (1.5e300, "1.5E+300"),
            (1_234_567_890_123_456.0, "1234567890123456"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (number, text) in cases {
            assert_eq!(double(number), text);
        }
    }

    #[test]
    fn every_kind_has_its_form() {
        let form = |value: Value<'_>| text(&value);
        assert_eq!(form(Value::Boolean(true)).as_deref(), Some("True"));
        assert_eq!(form(Value::Unsigned(u64::MAX)).as_deref(), Some("18446744073709551615"));
        assert_eq!(form(Value::Uuid(0xAB)).as_deref(), Some("00000000-0000-0000-0000-0000000000ab"));
        assert_eq!(form(Value::Timestamp(0)).as_deref(), Some("1970-01-01T00:00:00.0000000Z"));
        assert_eq!(form(Value::DateTimeOffset(0)).as_deref(), Some("0001-01-01T00:00:00.0000000Z"));
        assert_eq!(form(Value::TimeSpan(600_000_000)).as_deref(), Some("00:01:00"));
        assert_eq!(form(Value::Timestamp(i64::MAX)), None);
        assert_eq!(form(Value::Unknown), None);
        assert_eq!(form(Value::Other(&[0x40])), None);
    }
}
