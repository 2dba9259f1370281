//! The body of a message as bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use peeklock_wire::Value;
use peeklock_wire::message::{Body, Sections};
use serde_json::{Map, Value as Json};
use uuid::Uuid;

use super::{date, user_properties};

/// Data unchanged; a value that is text or bytes as such; every other value, and sequences, as JSON. A body that can't
/// be decoded is returned in its encoding.
pub fn of(sections: &Sections) -> Bytes {
    match sections.decode_body() {
        Ok(Body::Data(data)) => data,
        Ok(Body::Value(Value::Null)) => Bytes::new(),
        Ok(Body::Value(Value::String(text) | Value::Symbol(text))) => Bytes::from(String::from(text)),
        Ok(Body::Value(Value::Binary(bytes))) => bytes,
        Ok(Body::Value(value)) => Bytes::from(json(&value).to_string()),
        Ok(Body::Sequence(elements)) => Bytes::from(json(&Value::List(elements)).to_string()),
        Err(_) => sections.body.clone(),
    }
}

/// A value in JSON: types that JSON lacks as text, or as null.
fn json(value: &Value) -> Json {
    match value {
        Value::Bool(truth) => Json::from(*truth),
        Value::ULong(number) => Json::from(*number),
        Value::Float(number) => Json::from(*number),
        Value::Double(number) => Json::from(*number),
        Value::Char(character) => Json::from(character.to_string()),
        Value::Timestamp(at_ms) => Json::from(date::text(u64::try_from(*at_ms).unwrap_or(0))),
        Value::Uuid(bytes) => Json::from(Uuid::from_bytes(*bytes).to_string()),
        Value::Binary(bytes) => Json::from(STANDARD.encode(bytes)),
        Value::String(text) | Value::Symbol(text) => Json::from(&**text),
        Value::List(elements) | Value::Array(elements) => elements.iter().map(json).collect(),
        Value::Map(entries) => Json::Object(
            entries.iter().map(|(key, value)| (key_text(key), json(value))).collect::<Map<_, _>>(),
        ),
        Value::Described(described) => json(&described.value),
        Value::Null | Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => Json::Null,
        Value::UByte(_)
        | Value::UShort(_)
        | Value::UInt(_)
        | Value::Byte(_)
        | Value::Short(_)
        | Value::Int(_)
        | Value::Long(_) => value.as_i64().map_or(Json::Null, Json::from),
    }
}

fn key_text(key: &Value) -> String {
    user_properties::plain_text(key).map_or_else(|| json(key).to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use peeklock_wire::message::{encode_body_data, encode_body_value};

    use super::*;

    fn shown(body: &[u8]) -> Bytes {
        of(&Sections::split(&Bytes::copy_from_slice(body)).expect("sound"))
    }

    fn value(value: &Value) -> Bytes {
        let mut body = BytesMut::new();
        encode_body_value(value, &mut body);
        shown(&body)
    }

    #[test]
    fn every_body_has_bytes() {
        let mut data = BytesMut::new();
        encode_body_data(b"a\xff", &mut data);
        encode_body_data(b"b", &mut data);
        assert_eq!(shown(&data), &b"a\xffb"[..]);
        assert_eq!(shown(b""), &b""[..]);
        assert_eq!(value(&"gr\u{fc}n".into()), "gr\u{fc}n");
        assert_eq!(value(&Value::Null), "");
        assert_eq!(value(&Value::Binary(Bytes::from_static(b"\0"))), &b"\0"[..]);
        assert_eq!(value(&Value::Int(-7)), "-7");
        let map = vec![
            ("k".into(), Value::List(vec![Value::Null, Value::Double(0.5), Value::Uuid([0; 16])])),
            (Value::Int(1), Value::Timestamp(0)),
        ];
        assert_eq!(
            value(&Value::Map(map)),
            r#"{"1":"Thu, 01 Jan 1970 00:00:00 GMT","k":[null,0.5,"00000000-0000-0000-0000-000000000000"]}"#
        );
        let sequence = [&[0x00, 0x53, 0x76][..], &Value::List(vec![Value::Int(1)]).to_bytes()].concat();
        assert_eq!(shown(&[&sequence[..], &sequence].concat()), "[1,1]");
    }
}
