//! Application properties as headers: strings in quotation marks as in JSON; numbers, `true` and `false` unquoted;
//! times in the format of RFC 1123, quoted.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use peeklock_wire::{Str, Value};
use uuid::Uuid;

use super::date;

/// Headers used by HTTP, by proxies, or by Service Bus.
const RESERVED: [&str; 46] = [
    "age",
    "authorization",
    "baggage",
    "brokerproperties",
    "cache-control",
    "connection",
    "cookie",
    "date",
    "dnt",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "from",
    "host",
    "http2-settings",
    "keep-alive",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "request-id",
    "retry-after",
    "server",
    "servicebusauthorization",
    "set-cookie",
    "strict-transport-security",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Prefixes of such names.
const RESERVED_BEGINNINGS: [&str; 8] =
    ["accept", "access-control-", "content-", "if-", "proxy-", "sec-", "x-forwarded-", "x-ms-"];

/// Whether a header is not an application property; names are in lower case.
fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok()
        || RESERVED_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The application properties of a sent message, in the order of its headers. Their names arrive in lower case: HTTP
/// header names are case-insensitive.
pub(super) fn read(headers: &HeaderMap) -> Vec<(String, Value)> {
    let own = headers.keys().filter(|name| !is_reserved(name.as_str()));
    let property = |name: &HeaderName| {
        // Repeated headers are one property: RFC 9110, 5.3.
        let texts: Vec<_> = headers.get_all(name).iter().map(text_of).collect();
        (name.as_str().to_owned(), read_value(&texts.join(", ")))
    };
    own.map(property).collect()
}

/// A header's text: UTF-8, otherwise Latin-1.
pub(super) fn text_of(value: &HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// A value that is neither quoted nor a number nor a JSON literal is a string (the documentation's own example).
fn read_value(text: &str) -> Value {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        let unquoted = serde_json::from_str::<String>(text).unwrap_or_else(|_| inner.to_owned());
        let instant = date::read_rfc_1123(&unquoted).and_then(|at_ms| i64::try_from(at_ms).ok());
        return instant.map_or_else(|| Value::String(unquoted.into()), Value::Timestamp);
    }
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return Value::Bool(text.eq_ignore_ascii_case("true"));
    }
    if text == "null" {
        return Value::Null;
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return Value::String(text.into());
    }
    if let Ok(number) = text.parse::<i64>() {
        return i32::try_from(number).map_or(Value::Long(number), Value::Int);
    }
    text.parse().map_or_else(|_| Value::String(text.into()), Value::Double)
}

/// Adds a property to a response. Properties that no header can represent are omitted: invalid or reserved names, and
/// lists.
pub(super) fn write(name: &str, value: &Value, headers: &mut HeaderMap) {
    let Ok(name) = HeaderName::try_from(name) else { return };
    let Some(text) = value_text(value).filter(|_| !is_reserved(name.as_str())) else { return };
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.append(name, value);
    }
}

fn value_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::UByte(_)
        | Value::UShort(_)
        | Value::UInt(_)
        | Value::Byte(_)
        | Value::Short(_)
        | Value::Int(_)
        | Value::Long(_) => value.as_i64()?.to_string(),
        Value::ULong(number) => number.to_string(),
        Value::Float(number) if number.is_finite() => format!("{number:?}"),
        Value::Double(number) if number.is_finite() => format!("{number:?}"),
        Value::Float(number) => quoted(&number.to_string()),
        Value::Double(number) => quoted(&number.to_string()),
        Value::Char(character) => quoted(&character.to_string()),
        Value::Timestamp(at_ms) => quoted(&date::text(u64::try_from(*at_ms).unwrap_or(0))),
        Value::Uuid(bytes) => quoted(&Uuid::from_bytes(*bytes).to_string()),
        Value::Binary(bytes) => quoted(&STANDARD.encode(bytes)),
        Value::String(text) | Value::Symbol(text) => quoted(text),
        Value::Described(described) => return value_text(&described.value),
        Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::Decimal128(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Array(_) => return None,
    })
}

fn quoted(text: &str) -> String {
    ascii(&serde_json::Value::from(text).to_string())
}

/// JSON in ASCII only: other characters occur only in strings, where each can be escaped.
pub(super) fn ascii(json: &str) -> String {
    use std::fmt::Write as _;

    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string can't fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

/// The text of a string, or of a number.
pub(super) fn plain_text(value: &Value) -> Option<Str> {
    peeklock_message::rule_properties::id_text(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: &Value) -> Value {
        let mut headers = HeaderMap::new();
        write("Name", value, &mut headers);
        let found = read(&headers);
        let (name, value) = found.into_iter().next().expect("one");
        assert_eq!(name, "name");
        value
    }

    #[test]
    fn a_header_that_is_repeated_is_one_property() {
        let mut headers = HeaderMap::new();
        for text in ["one", "two"] {
            headers.append("name", HeaderValue::from_static(text));
        }
        assert_eq!(read(&headers), [("name".to_owned(), Value::String("one, two".into()))]);
    }

    #[test]
    fn values_that_http_has_words_for_come_back_as_they_went() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(-7),
            Value::Long(1 << 40),
            Value::Double(1.0),
            Value::Double(-2.5e-7),
            Value::String("".into()),
            Value::String("12".into()),
            Value::String("true".into()),
            Value::String("quote \" backslash \\ line \n gr\u{fc}n \u{1f600} \u{7f}".into()),
            Value::Timestamp(784_111_777_000),
        ] {
            assert_eq!(round_trip(&value), value);
        }
    }

    #[test]
    fn other_values_come_back_as_the_nearest() {
        let text = |text: &str| Value::String(text.into());
        assert_eq!(round_trip(&Value::UByte(7)), Value::Int(7));
        assert_eq!(round_trip(&Value::ULong(u64::MAX)), Value::Double(18_446_744_073_709_551_615.0));
        assert_eq!(round_trip(&Value::Float(0.5)), Value::Double(0.5));
        assert_eq!(round_trip(&Value::Double(f64::NAN)), text("NaN"));
        assert_eq!(round_trip(&Value::symbol("s")), text("s"));
        assert_eq!(round_trip(&Value::Char('c')), text("c"));
        assert_eq!(round_trip(&Value::Uuid([0; 16])), text("00000000-0000-0000-0000-000000000000"));
        assert_eq!(round_trip(&Value::Binary(b"ab".as_slice().into())), text("YWI="));
    }

    #[test]
    fn bare_text_is_text() {
        let text = |text: &str| Value::String(text.into());
        assert_eq!(read_value("High"), text("High"));
        assert_eq!(read_value("12345,ABC"), text("12345,ABC"));
        assert_eq!(read_value(r#""C:\dir""#), text(r"C:\dir"), "no JSON");
        assert_eq!(read_value("True"), Value::Bool(true));
        assert_eq!(read_value("-"), text("-"));
        assert_eq!(read_value("nan"), text("nan"));
        assert_eq!(read_value("\""), text("\""));
        assert_eq!(text_of(&HeaderValue::from_bytes(b"gr\xfcn").expect("a header")), "gr\u{fc}n");
    }

    #[test]
    fn headers_of_http_are_no_properties() {
        assert!(RESERVED.is_sorted());
        let mut headers = HeaderMap::new();
        for name in ["host", "accept-encoding", "content-length", "x-ms-retrypolicy", "authorization"] {
            headers.insert(name, HeaderValue::from_static("x"));
            assert_eq!(read(&headers), [], "{name}");
        }
        write("Location", &Value::Int(1), &mut headers);
        write("no name", &Value::Int(1), &mut headers);
        write("list", &Value::List(Vec::new()), &mut headers);
        assert_eq!(headers.len(), 5);
    }
}
