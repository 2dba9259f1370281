//! The values of the catalogue in the store; `crate::layout` says where.
//!
//! Options are stored as they are. A new one changes what the bytes mean, so it is a new version beside the old one:
//! `version_1` is how they were before there was administration.

mod version_1;

use bytes::Bytes;
use peeklock_storage::PartitionId;
use serde::{Deserialize, Serialize};

use super::SetBack;
use crate::{EntityOptions, EntityTimes};

/// First byte of the counter, and of entities once.
const VERSION: u8 = 1;
/// First byte of entities.
const VERSION_OF_ENTITIES: u8 = 2;

/// An entity as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntityRecord {
    /// As it was given first.
    pub(super) name: String,
    pub(super) times: EntityTimes,
    pub(super) options: EntityOptions,
}

impl EntityRecord {
    pub(super) fn encode(&self) -> Result<Bytes, String> {
        encode_version(VERSION_OF_ENTITIES, self)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        match bytes.first() {
            Some(&VERSION_OF_ENTITIES) => decode_version(VERSION_OF_ENTITIES, bytes),
            _ => version_1::decode(bytes),
        }
    }
}

/// The counter's value.
pub(super) fn encode_counter(next: PartitionId) -> Result<Bytes, String> {
    encode_version(VERSION, &next.0)
}

/// The counter's value read back.
pub(super) fn decode_counter(bytes: &[u8]) -> Result<PartitionId, String> {
    decode_version(VERSION, bytes).map(PartitionId)
}

/// A correction of the clock.
pub(super) fn encode_set_back(set_back: SetBack) -> Result<Bytes, String> {
    encode_version(VERSION, &(set_back.from, set_back.to))
}

/// A correction read back.
pub(super) fn decode_set_back(bytes: &[u8]) -> Result<SetBack, String> {
    decode_version(VERSION, bytes).map(|(from, to)| SetBack { from, to })
}

fn encode_version<T: Serialize>(version: u8, value: &T) -> Result<Bytes, String> {
    postcard::to_extend(value, vec![version]).map(Bytes::from).map_err(|error| error.to_string())
}

fn decode_version<'a, T: Deserialize<'a>>(known: u8, bytes: &'a [u8]) -> Result<T, String> {
    let Some((version, rest)) = bytes.split_first() else { return Err("the record is empty".to_owned()) };
    if *version != known {
        return Err(format!("format version {version} is unknown; this broker reads version {known}"));
    }
    match postcard::take_from_bytes(rest) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AuthorizationRule, EntityStatus, Forwarding, Kept, QueueOptions, Rights, Secret, Timestamp,
        TopicOptions,
    };

    const TIMES: EntityTimes = EntityTimes { created_at: Timestamp(3), updated_at: Timestamp(4) };

    fn record() -> EntityRecord {
        let options = QueueOptions {
            default_message_time_to_live_ms: Some(5),
            requires_session: true,
            auto_delete_on_idle_ms: Some(7),
            requires_duplicate_detection: true,
            duplicate_detection_history_time_window_ms: 6,
            status: EntityStatus::SendDisabled,
            forwarding: Forwarding {
                forward_to: Some("a".into()),
                forward_dead_lettered_messages_to: Some("b".into()),
            },
            authorization_rules: vec![AuthorizationRule {
                name: "r".into(),
                rights: Rights { send: true, ..Rights::default() },
                primary_key: Secret::new("p"),
                secondary_key: Secret::new("s"),
                created_at: Timestamp(1),
                modified_at: Timestamp(2),
            }],
            kept: Kept { user_metadata: Some("u".into()), enable_express: true, ..Kept::default() },
            ..QueueOptions::default()
        };
        EntityRecord { name: "Orders".to_owned(), times: TIMES, options: options.into() }
    }

    #[test]
    fn records_survive_the_way_to_the_disk() {
        let topic = TopicOptions { auto_delete_on_idle_ms: Some(8), ..TopicOptions::default() };
        let topic = EntityRecord { name: "News".to_owned(), times: TIMES, options: topic.into() };
        for record in [record(), topic] {
            let bytes = record.encode().unwrap();
            assert_eq!(EntityRecord::decode(&bytes), Ok(record));
        }
        let set_back = SetBack { from: Timestamp(9), to: Timestamp(5) };
        assert_eq!(decode_set_back(&encode_set_back(set_back).unwrap()), Ok(set_back));
        assert_eq!(decode_counter(&encode_counter(PartitionId(300)).unwrap()), Ok(PartitionId(300)));
    }

    /// The format on disk must not change by accident.
    #[test]
    fn the_stored_form_is_pinned() {
        let bytes = record().encode().unwrap();
        let expected = b"\x02\x06Orders\x03\x04\x00\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x07\x80\x80\x40\x80\x80\x80\x80\xc0\x02\
            \x01\x06\x02\x01\x01a\x01\x01b\x01\x01r\x00\x01\x00\x01p\x01s\x01\x02\x01\x01u\x01\x00\x01\x01\x00\x00";
        assert_eq!(bytes.as_ref(), expected);
    }

    #[test]
    fn damaged_records_are_refused_with_the_cause() {
        let good = record().encode().unwrap();
        for end in 0..good.len() {
            assert!(EntityRecord::decode(&good[..end]).is_err(), "cut at {end}");
        }
        let longer = [good.as_ref(), &[0]].concat();
        assert!(EntityRecord::decode(&longer).unwrap_err().contains("1 bytes too many"));
        let newer = [&[9], &good[1..]].concat();
        assert!(EntityRecord::decode(&newer).unwrap_err().contains("version 9"));
    }
}
