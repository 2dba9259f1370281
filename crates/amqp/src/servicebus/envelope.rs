//! Requests and responses of `$cbs` and `$management`: the correlation-id of a response is the message-id of its
//! request.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::errors::{Fault, Tracker, symbol};
use crate::endpoint::{DeliveryTag, Outgoing};
use crate::wire::message::{MessageProperties, Sections, encode_application_properties, encode_body_value};
use crate::wire::{Str, Value, loggable};

pub(crate) use crate::wire::message::lookup;

/// The text of a string or symbol.
#[must_use]
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) | Value::Symbol(text) => Some(text),
        _ => None,
    }
}

/// A decoded request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Any type; the response repeats it, type included.
    pub(crate) message_id: Value,
    /// Missing in Python's requests to `$cbs`.
    pub(crate) reply_to: Option<Str>,
    /// Application properties.
    pub(crate) properties: Vec<(Value, Value)>,
    /// The body.
    pub(crate) body: Value,
}

impl Request {
    /// Reads an encoded message.
    ///
    /// # Errors
    /// [`Fault::MalformedMessage`].
    pub(crate) fn decode(payload: &Bytes) -> Result<Self, Fault> {
        let malformed = |error: crate::wire::DecodeError| Fault::MalformedMessage(error.into_reason());
        let sections = Sections::split(payload).map_err(malformed)?;
        let properties = sections.decode_properties().map_err(malformed)?;
        Ok(Self {
            message_id: properties.message_id,
            reply_to: properties.reply_to,
            properties: Sections::decode_map(&sections.application_properties).map_err(malformed)?,
            body: sections.body_value().map_err(malformed)?,
        })
    }

    /// The text of an application property.
    pub(crate) fn property(&self, key: &str) -> Option<&str> {
        lookup(&self.properties, key).and_then(text)
    }
}

/// The keys under which a client reads the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `status-code`, `status-description`; P treats any `error-condition` as a failure, so it is omitted.
    Cbs,
    /// `statusCode`, `statusDescription`, `errorCondition`.
    Management,
}

/// The result of a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// A status code as in HTTP.
    pub(crate) status: i32,
    /// A condition beside a status of success: `get-message-sessions` reports that it found none.
    pub(crate) condition: Option<&'static str>,
    /// The body: a map, even if empty (P calls `.get` on it).
    pub(crate) body: Value,
}

impl Answer {
    /// 200 with some entries.
    pub(crate) fn ok(entries: Vec<(&str, Value)>) -> Self {
        let body = entries.into_iter().map(|(key, value)| (Value::String(key.into()), value)).collect();
        Self { status: 200, condition: None, body: Value::Map(body) }
    }

    /// 204 without a body.
    pub(crate) fn no_content() -> Self {
        Self { status: 204, condition: None, body: Value::Map(Vec::new()) }
    }
}

/// Encodes a response.
pub(crate) fn encode(
    dialect: Dialect,
    correlation_id: Value,
    result: &Result<Answer, Fault>,
    tracker: Tracker,
) -> Bytes {
    let mut output = BytesMut::with_capacity(256);
    MessageProperties { correlation_id, ..MessageProperties::default() }.encode(&mut output);
    let (code_key, description_key) = match dialect {
        Dialect::Cbs => ("status-code", "status-description"),
        Dialect::Management => ("statusCode", "statusDescription"),
    };
    let (status, description, condition) = match result {
        Ok(answer) => (answer.status, description_of(answer.status).to_owned(), answer.condition),
        Err(fault) => {
            let (condition, status) = fault.condition_and_status();
            tracing::debug!(condition, status, fault = &*loggable(&fault.to_string()), "request refused");
            (status, tracker.description(fault), Some(condition))
        }
    };
    let mut entries = vec![
        (Value::String(code_key.into()), Value::Int(status)),
        (Value::String(description_key.into()), Value::String(description.into())),
    ];
    if let (Dialect::Management, Some(condition)) = (dialect, condition) {
        entries.push((Value::String("errorCondition".into()), symbol(condition)));
    }
    encode_application_properties(&entries, &mut output);
    match result {
        Ok(answer) => encode_body_value(&answer.body, &mut output),
        Err(_) => encode_body_value(&Value::Map(Vec::new()), &mut output),
    }
    output.freeze()
}

/// A response to send: settled, because P never settles it.
pub(crate) fn outgoing(payload: Bytes, tag: DeliveryTag) -> Outgoing {
    Outgoing { tag: Some(tag), settled: true, message_format: 0, payload: SmallVec::from_iter([payload]) }
}

fn description_of(status: i32) -> &'static str {
    match status {
        202 => "Accepted",
        204 => "No Content",
        _ => "OK",
    }
}
