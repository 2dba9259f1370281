//! A message in a request, before it is encoded.

use bytes::{Bytes, BytesMut};
use peeklock_engine::NewMessage;
use peeklock_errors::ErrorKind;
use peeklock_message::copy_blocks::CopyBlocks;
use peeklock_message::submission::RequiredProperties;
use peeklock_message::{InvalidMessage, annotation, submission};
use peeklock_wire::Value;
use peeklock_wire::message::{
    Header, MapSection, MessageProperties, encode_application_properties, encode_body_data,
};
use uuid::Uuid;

use super::broker_properties::MessageSettings;
use crate::error::Error;

/// Usual size of a message beside its body, in bytes.
const ENVELOPE_BYTES: usize = 512;

/// The parts of a message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The `BrokerProperties` and the content type.
    pub settings: MessageSettings,
    /// Application properties.
    pub user: Vec<(String, Value)>,
    /// Its body.
    pub body: Bytes,
}

impl Draft {
    /// Encodes the message for the engine and checks it like one that arrived encoded.
    ///
    /// # Errors
    /// 400 for an invalid message, 403 for one with a property that is too large.
    pub fn into_message(self, wanted: RequiredProperties, now_ms: u64) -> Result<NewMessage, Error> {
        self.into_message_of(wanted, now_ms, &mut CopyBlocks::default())
    }

    /// [`Self::into_message`] for many messages, whose contents share `blocks`.
    ///
    /// # Errors
    /// The same.
    pub(super) fn into_message_of(
        self,
        wanted: RequiredProperties,
        now_ms: u64,
        blocks: &mut CopyBlocks,
    ) -> Result<NewMessage, Error> {
        let bytes = self.body.len() + ENVELOPE_BYTES;
        // Without an id, the content is a copy that has one.
        let encoded = if self.settings.message_id.is_some() {
            blocks.write(bytes, |output| self.encode(now_ms, output))
        } else {
            let mut output = BytesMut::with_capacity(bytes);
            self.encode(now_ms, &mut output);
            output.freeze()
        };
        let mut next_id = || Uuid::new_v4().as_u128();
        submission::read_message_into(&encoded, wanted, &mut next_id, blocks).map_err(|invalid| match invalid
        {
            InvalidMessage::TooLarge(reason) => Error::of(ErrorKind::MessageTooLarge, reason),
            _ => Error::bad_request(invalid.to_string()),
        })
    }

    fn encode(self, now_ms: u64, output: &mut BytesMut) {
        let Self { settings, user, body } = self;
        let ttl_ms = settings.time_to_live_ms.map(|life_ms| u32::try_from(life_ms).unwrap_or(u32::MAX));
        if ttl_ms.is_some() {
            Header { ttl_ms, ..Header::default() }.encode(output);
        }
        encode_annotations(&settings, output);
        // Too long for the header's ttl: expressed by two times, as in the SDKs.
        let long_life_ms = settings.time_to_live_ms.filter(|_| ttl_ms == Some(u32::MAX));
        let text = |text: Option<String>| text.map(String::into_boxed_str);
        MessageProperties {
            message_id: text(settings.message_id).map_or(Value::Null, Value::String),
            to: text(settings.to),
            subject: text(settings.label),
            reply_to: text(settings.reply_to),
            correlation_id: text(settings.correlation_id).map_or(Value::Null, Value::String),
            content_type: text(settings.content_type),
            absolute_expiry_time_ms: long_life_ms.map(|life_ms| signed(now_ms.saturating_add(life_ms))),
            creation_time_ms: long_life_ms.map(|_| signed(now_ms)),
            group_id: text(settings.session_id),
            reply_to_group_id: text(settings.reply_to_session_id),
            ..MessageProperties::default()
        }
        .encode(output);
        if !user.is_empty() {
            let entries: Vec<_> =
                user.into_iter().map(|(name, value)| (Value::String(name.into()), value)).collect();
            encode_application_properties(&entries, output);
        }
        encode_body_data(&body, output);
    }
}

fn encode_annotations(settings: &MessageSettings, output: &mut BytesMut) {
    let keys = [
        (annotation::PARTITION_KEY, &settings.partition_key),
        (annotation::VIA_PARTITION_KEY, &settings.via_partition_key),
    ];
    if settings.scheduled_enqueue_time_ms.is_none() && keys.iter().all(|(_, key)| key.is_none()) {
        return;
    }
    let mut section = MapSection::message_annotations(output);
    if let Some(at_ms) = settings.scheduled_enqueue_time_ms {
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

    fn draft(settings: MessageSettings) -> Draft {
        Draft { settings, user: Vec::new(), body: Bytes::from_static(b"body") }
    }

    #[test]
    fn wishes_reach_the_engine() {
        let settings = MessageSettings {
            time_to_live_ms: Some(5000),
            scheduled_enqueue_time_ms: Some(9000),
            session_id: Some("s".into()),
            partition_key: Some("s".into()),
            message_id: Some("m".into()),
            ..MessageSettings::default()
        };
        let message = draft(settings)
            .into_message(RequiredProperties { rule_properties: true, ..RequiredProperties::default() }, 0)
            .expect("sound");
        assert_eq!(message.time_to_live_ms, Some(5000));
        assert_eq!(message.scheduled_enqueue_time, Some(Timestamp(9000)));
        assert_eq!(message.session_id.as_deref(), Some("s"));
        assert_eq!(message.rule_properties.expect("asked for").message_id.as_deref(), Some("m"));
    }

    #[test]
    fn lives_longer_than_a_header_can_say_are_kept() {
        let life_ms = 100 * 86_400_000;
        let settings = MessageSettings { time_to_live_ms: Some(life_ms), ..MessageSettings::default() };
        assert_eq!(
            draft(settings).into_message(RequiredProperties::default(), 7).expect("sound").time_to_live_ms,
            Some(life_ms)
        );
        let settings = MessageSettings { time_to_live_ms: Some(u64::MAX), ..MessageSettings::default() };
        let message = draft(settings).into_message(RequiredProperties::default(), 7).expect("sound");
        assert!(message.time_to_live_ms.is_some_and(|life_ms| life_ms > 1 << 62));
    }

    #[test]
    fn keys_must_agree_and_ids_be_short() {
        let keys = MessageSettings {
            session_id: Some("s".into()),
            partition_key: Some("p".into()),
            ..MessageSettings::default()
        };
        assert!(draft(keys).into_message(RequiredProperties::default(), 0).is_err());
        let id = MessageSettings { message_id: Some("m".repeat(129)), ..MessageSettings::default() };
        assert_eq!(
            draft(id).into_message(RequiredProperties::default(), 0).expect_err("too long").sub_code,
            40000
        );
    }
}
