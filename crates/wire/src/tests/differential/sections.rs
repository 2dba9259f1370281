//! Header and properties sections, and whole messages.

use bytes::{Bytes, BytesMut};
use fe2o3_amqp_types::messaging as theirs;
use fe2o3_amqp_types::messaging::message::__private::{Deserializable, Serializable};
use proptest::prelude::*;

use super::super::arbitrary;
use super::{Tame, their_value, they_write_correctly_inside};
use crate::Value;
use crate::message::*;

/// Part 3.2.4: a message-id is one of four types. (Theirs accepts no other.)
fn message_id(value: Value) -> Value {
    match value {
        Value::ULong(_) | Value::Uuid(_) | Value::Binary(_) | Value::String(_) => value,
        _ => Value::Null,
    }
}

type TheirMessage = theirs::Message<theirs::Body<serde_amqp::Value>>;

proptest! {
    #[test]
    fn messages_agree(
        header in arbitrary::header(),
        mut properties in arbitrary::properties(),
        mut body in arbitrary::value(),
    ) {
        properties.message_id = message_id(properties.message_id);
        properties.correlation_id = message_id(properties.correlation_id);
        body.tame();
        if !they_write_correctly_inside(&body) {
            body = Value::Bool(true);
        }
        let mut output = BytesMut::new();
        header.encode(&mut output);
        properties.encode(&mut output);
        encode_body_value(&body, &mut output);

        let Deserializable(their) = serde_amqp::from_slice::<Deserializable<TheirMessage>>(&output).unwrap();
        let their_header = their.header.clone().unwrap();
        prop_assert_eq!(their_header.durable, header.durable.unwrap_or(false));
        prop_assert_eq!(their_header.priority.0, header.priority.unwrap_or(4));
        prop_assert_eq!(their_header.ttl, header.ttl_ms);
        prop_assert_eq!(their_header.first_acquirer, header.first_acquirer.unwrap_or(false));
        prop_assert_eq!(their_header.delivery_count, header.delivery_count.unwrap_or(0));
        let theirs::Body::Value(theirs::AmqpValue(their_body)) = &their.body else { panic!("not a value body") };
        prop_assert_eq!(their_body, &their_value(&body));

        let back = Bytes::from(serde_amqp::to_vec(&Serializable(their)).unwrap());
        let sections = Sections::split(&back).unwrap();
        prop_assert_eq!(sections.decode_properties().unwrap(), properties);
        prop_assert_eq!(sections.body_value().unwrap(), body);
    }
}
