//! A message as a request describes it, on its way to its encoding.

use bytes::{Bytes, BytesMut};
use peeklock_engine::NewMessage;
use peeklock_message::annotation;
use peeklock_message::submission;
use peeklock_message::submission::Wanted;
use peeklock_wire::Value;
use peeklock_wire::message::{
    Header, MapSection, MessageProperties, encode_application_properties, encode_body_data,
};
use uuid::Uuid;

use super::broker_properties::Wishes;
use crate::error::Error;

/// What a message is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    /// What `BrokerProperties` says, and the content type.
    pub(super) wishes: Wishes,
    /// Application properties.
    pub(super) user: Vec<(String, Value)>,
    /// Its bytes.
    pub(super) body: Bytes,
}

impl Draft {
    /// The message as the engine takes it, read like one that came encoded.
    ///
    /// # Errors
    /// 400 for what no message may be.
    pub(super) fn into_message(self, wanted: Wanted, now_ms: u64) -> Result<NewMessage, Error> {
        let encoded = self.encode(now_ms);
        submission::read_message(&encoded, wanted, &mut || Uuid::new_v4().as_u128())
            .map_err(|unfit| Error::bad_request(unfit.to_string()))
    }

    fn encode(self, now_ms: u64) -> Bytes {
        let Self { wishes, user, body } = self;
        let mut output = BytesMut::with_capacity(body.len() + 512);
        let ttl_ms = wishes.time_to_live_ms.map(|life_ms| u32::try_from(life_ms).unwrap_or(u32::MAX));
        if ttl_ms.is_some() {
            Header { ttl_ms, ..Header::default() }.encode(&mut output);
        }
        encode_annotations(&wishes, &mut output);
        // Longer than a header can say: told by two instants, as the SDKs tell it.
        let long_life_ms = wishes.time_to_live_ms.filter(|_| ttl_ms == Some(u32::MAX));
        let text = |text: Option<String>| text.map(String::into_boxed_str);
        MessageProperties {
            message_id: text(wishes.message_id).map_or(Value::Null, Value::String),
            to: text(wishes.to),
            subject: text(wishes.label),
            reply_to: text(wishes.reply_to),
            correlation_id: text(wishes.correlation_id).map_or(Value::Null, Value::String),
            content_type: text(wishes.content_type),
            absolute_expiry_time_ms: long_life_ms.map(|life_ms| signed(now_ms.saturating_add(life_ms))),
            creation_time_ms: long_life_ms.map(|_| signed(now_ms)),
            group_id: text(wishes.session_id),
            reply_to_group_id: text(wishes.reply_to_session_id),
            ..MessageProperties::default()
        }
        .encode(&mut output);
        if !user.is_empty() {
            let entries: Vec<_> =
                user.into_iter().map(|(name, value)| (Value::String(name.into()), value)).collect();
            encode_application_properties(&entries, &mut output);
        }
        encode_body_data(&body, &mut output);
        output.freeze()
    }
}

fn encode_annotations(wishes: &Wishes, output: &mut BytesMut) {
    let keys = [
        (annotation::PARTITION_KEY, &wishes.partition_key),
        (annotation::VIA_PARTITION_KEY, &wishes.via_partition_key),
    ];
    if wishes.scheduled_enqueue_time_ms.is_none() && keys.iter().all(|(_, key)| key.is_none()) {
        return;
    }
    let mut section = MapSection::message_annotations(output);
    if let Some(at_ms) = wishes.scheduled_enqueue_time_ms {
        section.timestamp(annotation::SCHEDULED_ENQUEUE_TIME, signed(at_ms));
    }
    for (name, key) in keys {
        if let Some(key) = key {
            section.string(name, key);
        }
    }
    section.finish();
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use peeklock_engine::Timestamp;

    use super::*;

    fn draft(wishes: Wishes) -> Draft {
        Draft { wishes, user: Vec::new(), body: Bytes::from_static(b"body") }
    }

    #[test]
    fn wishes_reach_the_engine() {
        let wishes = Wishes {
            time_to_live_ms: Some(5000),
            scheduled_enqueue_time_ms: Some(9000),
            session_id: Some("s".into()),
            partition_key: Some("s".into()),
            message_id: Some("m".into()),
            ..Wishes::default()
        };
        let message = draft(wishes).into_message(Wanted { facts: true, key: false }, 0).expect("sound");
        assert_eq!(message.time_to_live_ms, Some(5000));
        assert_eq!(message.scheduled_enqueue_time, Some(Timestamp(9000)));
        assert_eq!(message.session_id.as_deref(), Some("s"));
        assert_eq!(message.facts.expect("asked for").message_id.as_deref(), Some("m"));
    }

    #[test]
    fn lives_longer_than_a_header_can_say_are_kept() {
        let life_ms = 100 * 86_400_000;
        let wishes = Wishes { time_to_live_ms: Some(life_ms), ..Wishes::default() };
        assert_eq!(
            draft(wishes).into_message(Wanted::default(), 7).expect("sound").time_to_live_ms,
            Some(life_ms)
        );
        let wishes = Wishes { time_to_live_ms: Some(u64::MAX), ..Wishes::default() };
        let message = draft(wishes).into_message(Wanted::default(), 7).expect("sound");
        assert!(message.time_to_live_ms.is_some_and(|life_ms| life_ms > 1 << 62));
    }

    #[test]
    fn keys_must_agree_and_ids_be_short() {
        let keys =
            Wishes { session_id: Some("s".into()), partition_key: Some("p".into()), ..Wishes::default() };
        assert!(draft(keys).into_message(Wanted::default(), 0).is_err());
        let id = Wishes { message_id: Some("m".repeat(129)), ..Wishes::default() };
        assert_eq!(draft(id).into_message(Wanted::default(), 0).expect_err("too long").sub_code, 40000);
    }
}
