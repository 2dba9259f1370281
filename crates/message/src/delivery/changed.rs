//! Changes by rule actions, in the encoding of the message to which they apply.

use bytes::Bytes;
use peeklock_engine::{PropertyChanges, PropertyValue, TextProperty};
use peeklock_wire::Value;
use peeklock_wire::message::{MapEntry, MessageProperties};

use crate::{decimal, rule_properties};

/// Whether a change affects the properties section; the partition key is an annotation.
pub(super) fn concerns_properties(changes: &PropertyChanges) -> bool {
    changes.texts.iter().any(|(property, _)| *property != TextProperty::PartitionKey)
}

/// Changes the properties of a message: changed ids are strings, whatever their type was before.
pub(super) fn apply(changes: &PropertyChanges, properties: &mut MessageProperties) {
    for (property, value) in &changes.texts {
        let id = || value.clone().map_or(Value::Null, Value::String);
        match property {
            TextProperty::ContentType => properties.content_type.clone_from(value),
            TextProperty::CorrelationId => properties.correlation_id = id(),
            TextProperty::Label => properties.subject.clone_from(value),
            TextProperty::MessageId => properties.message_id = id(),
            TextProperty::ReplyTo => properties.reply_to.clone_from(value),
            TextProperty::ReplyToSessionId => properties.reply_to_group_id.clone_from(value),
            TextProperty::SessionId => properties.group_id.clone_from(value),
            TextProperty::To => properties.to.clone_from(value),
            TextProperty::PartitionKey => {}
        }
    }
}

/// The value set on an application property, in the width of the sent one if that is sufficient: N and Ja distinguish
/// int from long, and readers expect the known type.
pub(super) fn as_sent(value: &PropertyValue, sent: Option<MapEntry<'_>>) -> Value {
    let sent = sent.and_then(|entry| Value::decode(&mut Bytes::copy_from_slice(entry.encoded_value)).ok());
    let narrow = match (value, sent) {
        (PropertyValue::Integer(number), Some(sent)) => integer(*number, &sent),
        (PropertyValue::Double(number), Some(Value::Float(_))) => float(*number),
        _ => None,
    };
    narrow.unwrap_or_else(|| {
        let value = rule_properties::to_value(value);
        // A value that clients can't read in any encoding is left unchanged.
        decimal::as_service(&value).ok().flatten().unwrap_or(value)
    })
}

fn integer(number: i64, sent: &Value) -> Option<Value> {
    match sent {
        Value::UByte(_) => number.try_into().ok().map(Value::UByte),
        Value::UShort(_) => number.try_into().ok().map(Value::UShort),
        Value::UInt(_) => number.try_into().ok().map(Value::UInt),
        Value::ULong(_) => number.try_into().ok().map(Value::ULong),
        Value::Byte(_) => number.try_into().ok().map(Value::Byte),
        Value::Short(_) => number.try_into().ok().map(Value::Short),
        Value::Int(_) => number.try_into().ok().map(Value::Int),
        _ => None,
    }
}

/// Only numbers that a float represents exactly.
fn float(number: f64) -> Option<Value> {
    #[allow(clippy::cast_possible_truncation)] // reason: a loss is detected by converting back
    let narrow = number as f32;
    (f64::from(narrow).to_bits() == number.to_bits()).then_some(Value::Float(narrow))
}
