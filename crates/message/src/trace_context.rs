//! The trace context in a message.

use bytes::Bytes;
use peeklock_wire::Value;
use peeklock_wire::message::Sections;

use crate::rule_properties::id_text;

/// The property of W3C trace contexts, which current SDKs write and read.
const TRACE_PARENT: &str = "traceparent";
/// The property that accompanies it.
const TRACE_STATE: &str = "tracestate";
/// The property of earlier SDKs, with the same text; the SDKs of .NET, Java, JS and Python still write it.
const DIAGNOSTIC_ID: &str = "Diagnostic-Id";

/// The trace properties of a message, as they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`, or else `Diagnostic-Id`.
    pub parent: Box<str>,
    /// `tracestate`.
    pub state: Option<Box<str>>,
}

/// Reads them from an encoded message; `None` if it has no trace context.
#[must_use]
pub fn read(content: &Bytes) -> Option<TraceContext> {
    let sections = Sections::split_trusted(content).ok()?;
    let (mut parent, mut older, mut state) = (None, None, None);
    for entry in Sections::map_entries(&sections.application_properties).ok()?.flatten() {
        let found = match entry.key {
            Some(TRACE_PARENT) => &mut parent,
            Some(DIAGNOSTIC_ID) => &mut older,
            Some(TRACE_STATE) => &mut state,
            _ => continue,
        };
        *found = Value::decode(&mut Bytes::copy_from_slice(entry.encoded_value)).ok().and_then(into_text);
    }
    Some(TraceContext { parent: parent.or(older)?, state })
}

/// The id of an encoded message as text.
#[must_use]
pub fn message_id(content: &Bytes) -> Option<Box<str>> {
    let properties = Sections::split_trusted(content).ok()?.decode_properties().ok()?;
    id_text(&properties.message_id)
}

fn into_text(value: Value) -> Option<Box<str>> {
    match value {
        Value::String(text) | Value::Symbol(text) => Some(text),
        // Python writes binaries.
        Value::Binary(bytes) => std::str::from_utf8(&bytes).ok().map(Into::into),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use peeklock_wire::message::{MessageProperties, encode_application_properties, encode_body_value};

    use super::*;

    fn message(properties: &[(&str, Value)]) -> Bytes {
        let mut output = BytesMut::new();
        let message_id = Value::String("m-1".into());
        MessageProperties { message_id, ..MessageProperties::default() }.encode(&mut output);
        let properties: Vec<_> =
            properties.iter().map(|(key, value)| (Value::String((*key).into()), value.clone())).collect();
        encode_application_properties(&properties, &mut output);
        encode_body_value(&Value::Null, &mut output);
        output.freeze()
    }

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    #[test]
    fn the_properties_of_today_count_before_those_of_earlier_sdks() {
        let both = message(&[
            (DIAGNOSTIC_ID, text("old")),
            ("other", Value::Int(1)),
            (TRACE_STATE, text("a=b")),
            (TRACE_PARENT, text("new")),
        ]);
        let expected = TraceContext { parent: "new".into(), state: Some("a=b".into()) };
        assert_eq!(read(&both), Some(expected));
        let older = message(&[(DIAGNOSTIC_ID, Value::Binary(Bytes::from_static(b"old")))]);
        assert_eq!(read(&older), Some(TraceContext { parent: "old".into(), state: None }));
        assert_eq!(message_id(&older).as_deref(), Some("m-1"));
    }

    #[test]
    fn invalid_texts_are_no_trace_context() {
        for value in [Value::Int(7), Value::Null, Value::Binary(Bytes::from_static(b"\xff"))] {
            assert_eq!(read(&message(&[(TRACE_PARENT, value)])), None);
        }
        assert_eq!(read(&message(&[])), None);
        assert_eq!(read(&Bytes::from_static(b"no message")), None);
    }
}
