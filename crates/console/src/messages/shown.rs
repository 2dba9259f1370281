//! A message in JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peeklock_admin::Error;
use peeklock_admin::messages::{Place, payload};
use peeklock_engine::{MessageState, Received};
use peeklock_message::annotation;
use peeklock_message::delivery::{DeliveryFormat, Encoder};
use peeklock_message::rule_properties::id_text;
use peeklock_wire::message::{Body, MessageProperties, Sections, lookup};
use peeklock_wire::{DecodeError, Value};
use serde_json::{Map, Value as Json, json};

use crate::time;
use crate::values;

/// A message with the beginning of its body.
///
/// # Errors
/// 500 for an unreadable stored message, which the checks at sending prevent.
pub(crate) fn message(received: &Received, place: &Place, body_bytes_max: usize) -> Result<Json, Error> {
    show(received, place, body_bytes_max).map_err(|error| {
        let sequence_number = received.view.sequence_number.0;
        tracing::error!(sequence_number, %error, "stored message unreadable");
        Error::internal()
    })
}

/// The name of a state.
pub(crate) const fn state(state: MessageState) -> &'static str {
    match state {
        MessageState::Active => "active",
        MessageState::Deferred => "deferred",
        MessageState::Scheduled => "scheduled",
    }
}

fn show(received: &Received, place: &Place, body_bytes_max: usize) -> Result<Json, DecodeError> {
    // The same properties as over AMQP: with changes of receivers, dead-letter reasons and the broker's annotations.
    let format = DeliveryFormat::Browsed { omits_body: false };
    let encoded = Encoder::default().encode_whole(received, format, place.origin)?;
    let sections = Sections::split_trusted(&encoded)?;
    let properties = sections.decode_properties()?;
    let annotations = Sections::decode_map(&sections.message_annotations)?;
    let view = &received.view;
    let mut shown = Map::new();
    let mut set = |name: &str, value: Json| {
        shown.insert(name.to_owned(), value);
    };
    set("sequence_number", json!(view.shown_number().0.to_string()));
    set("state", json!(state(view.state)));
    set("enqueued_at", time::json(view.enqueued_at));
    set("expires_at", time::json(view.expires_at));
    set("delivery_count", json!(view.delivery_count));
    set("time_to_live_ms", json!(view.time_to_live_ms));
    set("size_bytes", json!(view.content_bytes));
    let scheduled = [annotation::SCHEDULED_ENQUEUE_TIME, annotation::DELIVERY_TIME];
    let scheduled_ms = scheduled.iter().find_map(|key| lookup(&annotations, key)?.as_i64());
    if let Some(at_ms) = scheduled_ms.and_then(|at_ms| u64::try_from(at_ms).ok()) {
        set("scheduled_for", time::json(peeklock_engine::Timestamp(at_ms)));
    }
    for (name, value) in texts(&properties) {
        set(name, value);
    }
    for (name, key) in
        [("partition_key", annotation::PARTITION_KEY), ("via_partition_key", annotation::VIA_PARTITION_KEY)]
    {
        set(name, json!(lookup(&annotations, key).and_then(Value::as_str)));
    }
    if let Some(why) = &view.dead_letter {
        let source = lookup(&annotations, annotation::DEAD_LETTER_SOURCE).and_then(Value::as_str);
        set("dead_letter", json!({ "reason": why.reason, "description": why.description, "source": source }));
    }
    let mut user = Map::new();
    for (name, value) in Sections::decode_map(&sections.application_properties)? {
        if let Some(name) = name.as_str() {
            user.insert(name.to_owned(), values::of_amqp(&value));
        }
    }
    set("properties", Json::Object(user));
    set("body", body(&sections, body_bytes_max));
    Ok(Json::Object(shown))
}

fn texts(properties: &MessageProperties) -> [(&'static str, Json); 8] {
    let text = |text: &Option<Box<str>>| json!(text.as_deref());
    let id = |id: &Value| json!(id_text(id).as_deref());
    [
        ("message_id", id(&properties.message_id)),
        ("correlation_id", id(&properties.correlation_id)),
        ("session_id", text(&properties.group_id)),
        ("reply_to", text(&properties.reply_to)),
        ("reply_to_session_id", text(&properties.reply_to_group_id)),
        ("to", text(&properties.to)),
        ("subject", text(&properties.subject)),
        ("content_type", text(&properties.content_type)),
    ]
}

/// The beginning of a body: its bytes, and as text if it is UTF-8. A value or sequence is returned as JSON.
fn body(sections: &Sections, bytes_max: usize) -> Json {
    let kind = match sections.decode_body() {
        Ok(Body::Data(_)) => "data",
        Ok(Body::Value(_)) => "value",
        Ok(Body::Sequence(_)) => "sequence",
        Err(_) => "encoded",
    };
    let payload = payload(sections);
    let bytes = payload.len();
    let shown = payload.get(..bytes_max).unwrap_or(&payload);
    let text = std::str::from_utf8(&payload).is_ok().then(|| {
        // The cut may be within a character.
        let end = std::str::from_utf8(shown).map_or_else(|error| error.valid_up_to(), str::len);
        String::from_utf8_lossy(shown.get(..end).unwrap_or_default()).into_owned()
    });
    let mut body = json!({
        "kind": kind,
        "bytes": bytes,
        "base64": STANDARD.encode(shown),
        "truncated": shown.len() < bytes,
    });
    if let (Some(text), Some(object)) = (text, body.as_object_mut()) {
        object.insert("text".into(), json!(text));
    }
    body
}
