//! What rules see of a message, and values of properties as rules compare them.

use bytes::Bytes;
use peeklock_engine::{FactValue, Facts, MessageView};
use uuid::Uuid;

use peeklock_wire::message::{MessageProperties, Sections};
use peeklock_wire::{DecodeError, Value};

use crate::delivery::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON};

/// Reads what filters can name.
///
/// # Errors
/// [`DecodeError`] when the application properties are malformed.
pub fn read(properties: &MessageProperties, application: &Bytes) -> Result<Facts, DecodeError> {
    let user = Sections::decode_map(application)?;
    let named = |(key, value): (Value, Value)| match key {
        Value::String(name) | Value::Symbol(name) => Some((name, from_value(&value))),
        _ => None,
    };
    Ok(Facts {
        correlation_id: id_text(&properties.correlation_id),
        message_id: id_text(&properties.message_id),
        to: properties.to.clone(),
        reply_to: properties.reply_to.clone(),
        label: properties.subject.clone(),
        session_id: properties.group_id.clone(),
        reply_to_session_id: properties.reply_to_group_id.clone(),
        content_type: properties.content_type.clone(),
        user: user.into_iter().filter_map(named).collect(),
        ..Facts::default()
    })
}

/// Reads out of a stored message what filters can name, as whoever receives it would: under what actions and receivers
/// changed and the reason of dead-lettering. `None` if it is not a message, which sending had checked.
#[must_use]
pub fn read_facts(content: &Bytes, view: &MessageView) -> Option<Facts> {
    let sections = Sections::split_trusted(content).ok()?;
    let mut facts = read(&sections.decode_properties().ok()?, &sections.application_properties).ok()?;
    if let Some(changes) = &view.changes {
        changes.apply(&mut facts);
    }
    for property in view.modified.iter().flat_map(|modified| modified.iter()) {
        let value = Value::decode(&mut property.value.clone()).ok()?;
        set(&mut facts, &property.name, from_value(&value));
    }
    let stamps = view
        .dead_letter
        .as_deref()
        .map_or([None, None], |why| [why.reason.as_deref(), why.description.as_deref()]);
    for (name, text) in [DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION].into_iter().zip(stamps) {
        if let Some(text) = text {
            set(&mut facts, name, FactValue::Text(text.into()));
        }
    }
    Some(facts)
}

fn set(facts: &mut Facts, name: &str, value: FactValue) {
    match facts.user.iter_mut().find(|(known, _)| &**known == name) {
        Some((_, before)) => *before = value,
        None => facts.user.push((name.into(), value)),
    }
}

/// A message id of any type as text, the way the SDKs show it.
pub fn id_text(id: &Value) -> Option<Box<str>> {
    Some(match id {
        Value::String(text) | Value::Symbol(text) => text.clone(),
        Value::ULong(number) => number.to_string().into(),
        Value::Uuid(bytes) => Uuid::from_bytes(*bytes).to_string().into(),
        Value::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        },
        _ => return None,
    })
}

/// How N, J and P write a length of time: ticks of 100 ns.
const TIMESPAN: &str = "com.microsoft:timespan";
/// How N writes an instant with its offset: ticks of 100 ns since the year 1.
const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";

/// A value as rules compare it.
pub fn from_value(value: &Value) -> FactValue {
    match value {
        Value::Null => FactValue::Null,
        Value::Bool(truth) => FactValue::Boolean(*truth),
        Value::ULong(number) => {
            i64::try_from(*number).map_or(FactValue::Unsigned(*number), FactValue::Integer)
        }
        Value::UByte(number) => FactValue::Integer((*number).into()),
        Value::UShort(number) => FactValue::Integer((*number).into()),
        Value::UInt(number) => FactValue::Integer((*number).into()),
        Value::Byte(number) => FactValue::Integer((*number).into()),
        Value::Short(number) => FactValue::Integer((*number).into()),
        Value::Int(number) => FactValue::Integer((*number).into()),
        Value::Long(number) => FactValue::Integer(*number),
        Value::Float(number) => FactValue::Double((*number).into()),
        Value::Double(number) => FactValue::Double(*number),
        Value::String(text) | Value::Symbol(text) => FactValue::Text(text.clone()),
        Value::Timestamp(at_ms) => FactValue::Timestamp(*at_ms),
        Value::Uuid(uuid) => FactValue::Uuid(u128::from_be_bytes(*uuid)),
        other => FactValue::Other(other.to_bytes().as_ref().into()),
    }
}

/// A value of a rule as it is shown. The widest of each kind: how wide it was when it was written is not kept.
pub fn to_value(value: &FactValue) -> Value {
    match value {
        FactValue::Null => Value::Null,
        FactValue::Boolean(truth) => Value::Bool(*truth),
        FactValue::Integer(number) => Value::Long(*number),
        FactValue::Unsigned(number) => Value::ULong(*number),
        FactValue::Double(number) => Value::Double(*number),
        FactValue::Text(text) => Value::String(text.clone()),
        FactValue::Timestamp(at_ms) => Value::Timestamp(*at_ms),
        FactValue::Uuid(uuid) => Value::Uuid(uuid.to_be_bytes()),
        FactValue::TimeSpan(ticks) => Value::described(Value::symbol(TIMESPAN), Value::Long(*ticks)),
        FactValue::DateTimeOffset(ticks) => {
            Value::described(Value::symbol(DATE_TIME_OFFSET), Value::Long(*ticks))
        }
        FactValue::Decimal(decimal) => Value::Decimal128(decimal.to_be_bytes()),
        FactValue::Other(encoded) => Value::decode(&mut Bytes::copy_from_slice(encoded)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;
    use peeklock_wire::message::encode_application_properties;

    #[test]
    fn ids_of_every_type_become_text() {
        let text = |id: Value| id_text(&id).as_deref().map(str::to_owned);
        assert_eq!(text("a".into()).as_deref(), Some("a"));
        assert_eq!(text(Value::ULong(7)).as_deref(), Some("7"));
        let uuid = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        assert_eq!(text(Value::Uuid(uuid)).as_deref(), Some("00112233-4455-6677-8899-aabbccddeeff"));
        assert_eq!(text(Value::Binary(Bytes::from_static(b"b"))).as_deref(), Some("b"));
        assert_eq!(text(Value::Binary(Bytes::from_static(b"\xff\x00"))).as_deref(), Some("ff00"));
        assert_eq!(text(Value::Null), None);
    }

    #[test]
    fn integers_lose_their_width_and_nothing_else() {
        let five = FactValue::Integer(5);
        for value in [
            Value::UByte(5),
            Value::UShort(5),
            Value::UInt(5),
            Value::ULong(5),
            Value::Byte(5),
            Value::Short(5),
            Value::Int(5),
            Value::Long(5),
        ] {
            assert_eq!(from_value(&value), five);
        }
        assert_eq!(from_value(&Value::ULong(u64::MAX)), FactValue::Unsigned(u64::MAX));
        assert_eq!(from_value(&Value::Float(0.5)), FactValue::Double(0.5));
        assert_eq!(from_value(&Value::symbol("s")), FactValue::Text("s".into()));
    }

    #[test]
    fn fields_are_read_where_the_sdks_write_them() {
        let properties = MessageProperties {
            message_id: Value::ULong(1),
            correlation_id: "c".into(),
            to: Some("to".into()),
            reply_to: Some("reply".into()),
            subject: Some("subject".into()),
            content_type: Some("type".into()),
            group_id: Some("".into()),
            reply_to_group_id: Some("back".into()),
            ..MessageProperties::default()
        };
        let mut section = BytesMut::new();
        let entries = [("B".into(), Value::Int(1)), ("a".into(), Value::Null)];
        encode_application_properties(&entries, &mut section);
        let facts = read(&properties, &section.freeze()).unwrap();
        let expected = Facts {
            correlation_id: Some("c".into()),
            message_id: Some("1".into()),
            to: Some("to".into()),
            reply_to: Some("reply".into()),
            label: Some("subject".into()),
            session_id: Some("".into()),
            reply_to_session_id: Some("back".into()),
            content_type: Some("type".into()),
            user: vec![("B".into(), FactValue::Integer(1)), ("a".into(), FactValue::Null)],
            ..Facts::default()
        };
        assert_eq!(facts, expected);
        assert_eq!(read(&MessageProperties::default(), &Bytes::new()).unwrap(), Facts::default());
    }

    fn leaf() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<u64>().prop_map(Value::ULong),
            any::<i32>().prop_map(Value::Int),
            (-1e9..1e9).prop_map(Value::Double),
            any::<[u8; 16]>().prop_map(Value::Decimal128),
            any::<char>().prop_map(Value::Char),
            any::<i64>().prop_map(Value::Timestamp),
            any::<[u8; 16]>().prop_map(Value::Uuid),
            any::<Vec<u8>>().prop_map(|bytes| Value::Binary(bytes.into())),
            "\\PC{0,20}".prop_map(|text| Value::String(text.into())),
            any::<i64>().prop_map(|ticks| {
                Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(ticks))
            }),
        ]
    }

    proptest! {
        /// What a rule shows compares as what was written into it.
        #[test]
        fn values_survive_the_way_through_a_rule(value in leaf()) {
            let fact = from_value(&value);
            prop_assert_eq!(from_value(&to_value(&fact)), fact);
        }
    }
}
