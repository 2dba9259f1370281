//! A message as one JSON object, as in the broker's management API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peeklock_client::Message;
use peeklock_wire::Value;
use peeklock_wire::message::Body;
use serde_json::{Map, Value as Json, json};

use super::text::shown_instant;

/// For a message that was never locked, the SDKs and the broker use a time in the distant past.
const REAL_TIME_MS_MIN: i64 = 0;

/// The message with at most `body_bytes_max` bytes of its body.
pub(super) fn message(message: &Message, body_bytes_max: usize) -> Json {
    let properties = &message.properties;
    let time = |at_ms: Option<i64>| at_ms.filter(|at_ms| *at_ms > REAL_TIME_MS_MIN).map(shown_instant);
    let mut object = json!({
        "sequence_number": message.sequence_number().to_string(),
        "state": message.state().name(),
        "enqueued_at": time(message.enqueued_at_ms()),
        "scheduled_for": time(message.scheduled_for_ms()),
        "expires_at": time(properties.absolute_expiry_time_ms),
        "locked_until": time(message.locked_until_ms()),
        "delivery_count": message.header.delivery_count.unwrap_or(0),
        "message_id": message.message_id(),
        "correlation_id": message.correlation_id(),
        "session_id": properties.group_id,
        "reply_to": properties.reply_to,
        "reply_to_session_id": properties.reply_to_group_id,
        "to": properties.to,
        "subject": properties.subject,
        "content_type": properties.content_type,
        "partition_key": message.partition_key(),
        "time_to_live_ms": message.header.ttl_ms,
        "properties": typed_map(&message.application),
        "size_bytes": message.encoded().len(),
        "body": body(&message.body, body_bytes_max),
    });
    let reason = message.dead_letter_reason();
    if let (Json::Object(object), true) = (&mut object, reason.is_some()) {
        let (description, source) = (message.dead_letter_description(), message.dead_letter_source());
        let why = json!({ "reason": reason, "description": description, "source": source });
        object.insert("dead_letter".to_owned(), why);
    }
    // Missing values are omitted.
    if let Json::Object(object) = &mut object {
        object.retain(|_, value| !value.is_null());
    }
    object
}

fn body(body: &Body, bytes_max: usize) -> Json {
    match body {
        Body::Data(bytes) => {
            let shown = bytes.get(..bytes_max).unwrap_or(bytes);
            let mut object =
                json!({ "kind": "data", "bytes": bytes.len(), "truncated": shown.len() < bytes.len() });
            let (key, value) = match std::str::from_utf8(shown) {
                Ok(text) => ("text", text.to_owned()),
                Err(_) => ("base64", STANDARD.encode(shown)),
            };
            if let Json::Object(object) = &mut object {
                object.insert(key.to_owned(), value.into());
            }
            object
        }
        Body::Value(value) => json!({ "kind": "value", "value": plain(value) }),
        Body::Sequence(values) => {
            json!({ "kind": "sequence", "value": values.iter().map(plain).collect::<Vec<_>>() })
        }
    }
}

/// A body as one line of text.
pub(super) fn body_text(body: &Body) -> String {
    match body {
        Body::Data(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("({} bytes that are not text)", bytes.len()),
        },
        Body::Value(value) => plain(value).to_string(),
        Body::Sequence(values) => Json::from(values.iter().map(plain).collect::<Vec<_>>()).to_string(),
    }
}

fn typed_map(entries: &[(Value, Value)]) -> Json {
    let entries = entries.iter().map(|(key, value)| {
        let key = key.as_str().map_or_else(|| plain(key).to_string(), str::to_owned);
        (key, json!({ "type": type_name(value), "value": plain(value) }))
    });
    Json::Object(entries.collect::<Map<_, _>>())
}

/// The name of an AMQP type.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::UByte(_) => "ubyte",
        Value::UShort(_) => "ushort",
        Value::UInt(_) => "uint",
        Value::ULong(_) => "ulong",
        Value::Byte(_) => "byte",
        Value::Short(_) => "short",
        Value::Int(_) => "int",
        Value::Long(_) => "long",
        Value::Float(_) => "float",
        Value::Double(_) => "double",
        Value::Decimal32(_) => "decimal32",
        Value::Decimal64(_) => "decimal64",
        Value::Decimal128(_) => "decimal128",
        Value::Char(_) => "char",
        Value::Timestamp(_) => "timestamp",
        Value::Uuid(_) => "uuid",
        Value::Binary(_) => "binary",
        Value::String(_) => "string",
        Value::Symbol(_) => "symbol",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Array(_) => "array",
        Value::Described(_) => "described",
    }
}

/// A value in the closest form of JSON: bytes as Base64, integers beyond 53 bits and decimals as text.
fn plain(value: &Value) -> Json {
    const EXACT_MAX: i64 = 1 << 53;
    let whole =
        |number: i64| if number.abs() <= EXACT_MAX { json!(number) } else { json!(number.to_string()) };
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::ULong(number) => i64::try_from(*number).map_or_else(|_| json!(number.to_string()), whole),
        Value::Float(number) => json!(number),
        Value::Double(number) => json!(number),
        Value::Decimal32(bytes) => json!(STANDARD.encode(bytes)),
        Value::Decimal64(bytes) => json!(STANDARD.encode(bytes)),
        Value::Decimal128(bytes) => json!(STANDARD.encode(bytes)),
        Value::Char(character) => json!(character),
        Value::Timestamp(at_ms) => json!(shown_instant(*at_ms)),
        Value::Uuid(bytes) => json!(uuid::Uuid::from_bytes(*bytes).to_string()),
        Value::Binary(bytes) => json!(STANDARD.encode(bytes)),
        Value::String(text) | Value::Symbol(text) => json!(text),
        Value::List(values) | Value::Array(values) => values.iter().map(plain).collect(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                (key.as_str().map_or_else(|| plain(key).to_string(), str::to_owned), plain(value))
            });
            Json::Object(entries.collect())
        }
        Value::Described(described) => plain(&described.value),
        number => number.as_i64().map_or(Json::Null, whole),
    }
}
