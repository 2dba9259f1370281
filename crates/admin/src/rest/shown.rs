//! A message in an HTTP response: its bytes as body, `BrokerProperties`, and a header for each application property.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body as ResponseBody, HttpBody};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use peeklock_engine::{MessageState, Received, Timestamp};
use peeklock_message::annotation;
use peeklock_message::delivery::{DeliveryFormat, Encoder};
use peeklock_wire::message::{MessageProperties, Sections, lookup};
use peeklock_wire::{DecodeError, Value};
use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use super::place::Place;
use super::receiving::UnsentMessage;
use super::{date, location, payload, user_properties};
use crate::error::Error;

/// The response with a message: 201 under a lock, 200 without.
///
/// # Errors
/// 500 for an unreadable stored message, which the checks at sending prevent.
pub(super) fn response(held: UnsentMessage, place: &Place, head: &Parts) -> Result<Response, Error> {
    let Some(received) = held.message() else { return Err(Error::internal()) };
    let (mut headers, payload) = show(received, place).map_err(|error| {
        let sequence_number = received.view.sequence_number.0;
        tracing::error!(sequence_number, %error, "stored message unreadable");
        Error::internal()
    })?;
    let status = match received.lock {
        Some(lock) => {
            let number = received.view.shown_number().0;
            if let Some(location) = location::of(head, place, number, lock.token) {
                headers.insert(LOCATION, location);
            }
            StatusCode::CREATED
        }
        None => StatusCode::OK,
    };
    let mut response = Response::new(ResponseBody::new(Outgoing { held, payload }));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn show(received: &Received, place: &Place) -> Result<(HeaderMap, Bytes), DecodeError> {
    // The same properties as over AMQP: with changes of receivers, dead-letter reasons and the broker's annotations.
    let encoded = Encoder::default().encode_whole(received, DeliveryFormat::Management, place.origin)?;
    let sections = Sections::split_trusted(&encoded)?;
    let properties = sections.decode_properties()?;
    let annotations = Sections::decode_map(&sections.message_annotations)?;
    let mut headers = HeaderMap::new();
    for (name, value) in Sections::decode_map(&sections.application_properties)? {
        if let Some(name) = name.as_str() {
            user_properties::write(name, &value, &mut headers);
        }
    }
    let broker = broker_properties(received, &properties, &annotations);
    let broker = user_properties::ascii(&Json::Object(broker).to_string());
    if let Ok(value) = HeaderValue::try_from(broker) {
        headers.insert("brokerproperties", value);
    }
    let content_type = properties.content_type.as_deref();
    if let Some(Ok(value)) = content_type.map(HeaderValue::try_from) {
        headers.insert(CONTENT_TYPE, value);
    }
    Ok((headers, payload::of(&sections)))
}

/// .NET's longest time span: the time to live of a message without one, which the service writes too (all recordings).
const UNLIMITED_SECONDS: f64 = 922_337_203_685.477_5;

fn broker_properties(
    received: &Received,
    properties: &MessageProperties,
    annotations: &[(Value, Value)],
) -> Map<String, Json> {
    let view = &received.view;
    let state = match view.state {
        MessageState::Active => "Active",
        MessageState::Deferred => "Deferred",
        MessageState::Scheduled => "Scheduled",
    };
    let annotated = |key: &str| lookup(annotations, key);
    let annotated_text = |key: &str| annotated(key).and_then(Value::as_str).map(Json::from);
    let instant = |at: Timestamp| Json::from(date::text(at.0));
    let text = |text: &Option<Box<str>>| text.as_deref().map(Json::from);
    let id = |id: &Value| user_properties::plain_text(id).map(|id| Json::from(&*id));
    let scheduled = annotated(annotation::SCHEDULED_ENQUEUE_TIME).and_then(Value::as_i64);
    // For a message that was not sent to another entity before, the service returns 0 (Receive and Delete Message, REST
    // reference).
    let first_number =
        annotated(annotation::ENQUEUED_SEQUENCE_NUMBER).and_then(Value::as_i64).map(Json::from);
    #[allow(clippy::cast_precision_loss)] // a fraction of a second in ten thousand years
    let life_seconds = view.time_to_live_ms.map_or(UNLIMITED_SECONDS, |life_ms| life_ms as f64 / 1000.0);
    let all = [
        ("CorrelationId", id(&properties.correlation_id)),
        ("DeadLetterSource", annotated_text(annotation::DEAD_LETTER_SOURCE)),
        // The first receive is delivery 1.
        ("DeliveryCount", Some(json!(u64::from(view.delivery_count) + 1))),
        ("EnqueuedSequenceNumber", Some(first_number.unwrap_or_else(|| json!(0)))),
        ("EnqueuedTimeUtc", Some(instant(view.enqueued_at))),
        ("ExpiresAtUtc", (view.expires_at != Timestamp::NEVER).then(|| instant(view.expires_at))),
        ("Label", text(&properties.subject)),
        ("LockToken", received.lock.map(|lock| Json::from(Uuid::from_u128(lock.token.0).to_string()))),
        ("LockedUntilUtc", received.lock.map(|lock| instant(lock.locked_until))),
        ("MessageId", id(&properties.message_id)),
        ("PartitionKey", annotated_text(annotation::PARTITION_KEY)),
        ("ReplyTo", text(&properties.reply_to)),
        ("ReplyToSessionId", text(&properties.reply_to_group_id)),
        (
            "ScheduledEnqueueTimeUtc",
            scheduled.and_then(|at_ms| u64::try_from(at_ms).ok()).map(|at_ms| instant(Timestamp(at_ms))),
        ),
        ("SequenceNumber", Some(json!(view.shown_number().0))),
        ("SessionId", text(&properties.group_id)),
        ("State", Some(Json::from(state))),
        ("TimeToLive", Some(json!(life_seconds))),
        ("To", text(&properties.to)),
        ("ViaPartitionKey", annotated_text(annotation::VIA_PARTITION_KEY)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The body of a response. The message counts as unsent until its bytes are polled. It reports no size, so it is sent in
/// chunks, as the service does: the older Python client takes a `Content-Length` for a property of the message.
struct Outgoing {
    held: UnsentMessage,
    payload: Bytes,
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.held.begins_to_leave();
        let payload = std::mem::take(&mut self.payload);
        Poll::Ready((!payload.is_empty()).then(|| Ok(Frame::data(payload))))
    }
}
