//! How entities are stored: `Meta` space of partition 0, entity `n` (which owns partition `n`) at number `n`, the
//! next free partition id at number 0.
//!
//! The stored structures are apart from the ones in use, so that adding an option can't silently change what old
//! bytes mean: a new field means a new version beside the old one.

use bytes::Bytes;
use peeklock_storage::{Key, PartitionId, Space};
use serde::{Deserialize, Serialize};

use crate::{EntityOptions, QueueOptions, TopicOptions};

/// The partition that holds the catalogue.
pub(super) const CATALOGUE: PartitionId = PartitionId(0);

/// Where the next free partition id is stored.
pub(super) const COUNTER: u64 = 0;

/// First byte of every record.
const VERSION: u8 = 1;

/// An entity as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityRecord {
    /// As it was given first.
    pub(super) name: String,
    pub(super) options: EntityOptions,
}

#[derive(Serialize, Deserialize)]
struct StoredEntity {
    name: String,
    kind: StoredKind,
}

/// New kinds go to the end: their position is stored.
#[derive(Serialize, Deserialize)]
enum StoredKind {
    /// Before sessions and idle deletion; read, no longer written.
    PlainQueue(StoredPlainQueue),
    Queue(StoredQueue),
    Topic(StoredTopic),
}

#[derive(Serialize, Deserialize)]
struct StoredPlainQueue {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredQueue {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    requires_session: bool,
    auto_delete_on_idle_ms: Option<u64>,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredTopic {
    default_message_time_to_live_ms: Option<u64>,
    auto_delete_on_idle_ms: Option<u64>,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
}

impl From<&QueueOptions> for StoredQueue {
    fn from(options: &QueueOptions) -> Self {
        // Taken apart in full, so that a new option can't be forgotten here.
        let QueueOptions {
            lock_duration_ms,
            max_delivery_count,
            default_message_time_to_live_ms,
            dead_lettering_on_message_expiration,
            requires_session,
            auto_delete_on_idle_ms,
            max_message_size_bytes,
            max_size_bytes,
        } = *options;
        Self {
            lock_duration_ms,
            max_delivery_count,
            default_message_time_to_live_ms,
            dead_lettering_on_message_expiration,
            requires_session,
            auto_delete_on_idle_ms,
            max_message_size_bytes,
            max_size_bytes,
        }
    }
}

impl From<StoredQueue> for QueueOptions {
    fn from(stored: StoredQueue) -> Self {
        Self {
            lock_duration_ms: stored.lock_duration_ms,
            max_delivery_count: stored.max_delivery_count,
            default_message_time_to_live_ms: stored.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: stored.dead_lettering_on_message_expiration,
            requires_session: stored.requires_session,
            auto_delete_on_idle_ms: stored.auto_delete_on_idle_ms,
            max_message_size_bytes: stored.max_message_size_bytes,
            max_size_bytes: stored.max_size_bytes,
        }
    }
}

impl From<StoredPlainQueue> for QueueOptions {
    fn from(stored: StoredPlainQueue) -> Self {
        Self {
            lock_duration_ms: stored.lock_duration_ms,
            max_delivery_count: stored.max_delivery_count,
            default_message_time_to_live_ms: stored.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: stored.dead_lettering_on_message_expiration,
            requires_session: false,
            auto_delete_on_idle_ms: None,
            max_message_size_bytes: stored.max_message_size_bytes,
            max_size_bytes: stored.max_size_bytes,
        }
    }
}

impl From<&TopicOptions> for StoredTopic {
    fn from(options: &TopicOptions) -> Self {
        let TopicOptions {
            default_message_time_to_live_ms,
            auto_delete_on_idle_ms,
            max_message_size_bytes,
            max_size_bytes,
        } = *options;
        Self {
            default_message_time_to_live_ms,
            auto_delete_on_idle_ms,
            max_message_size_bytes,
            max_size_bytes,
        }
    }
}

impl From<StoredTopic> for TopicOptions {
    fn from(stored: StoredTopic) -> Self {
        Self {
            default_message_time_to_live_ms: stored.default_message_time_to_live_ms,
            auto_delete_on_idle_ms: stored.auto_delete_on_idle_ms,
            max_message_size_bytes: stored.max_message_size_bytes,
            max_size_bytes: stored.max_size_bytes,
        }
    }
}

impl EntityRecord {
    pub(super) fn encode(&self) -> Result<Bytes, String> {
        let kind = match &self.options {
            EntityOptions::Queue(options) => StoredKind::Queue(options.into()),
            EntityOptions::Topic(options) => StoredKind::Topic(options.into()),
        };
        encode(&StoredEntity { name: self.name.clone(), kind })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let StoredEntity { name, kind } = decode(bytes)?;
        let options = match kind {
            StoredKind::PlainQueue(stored) => EntityOptions::Queue(stored.into()),
            StoredKind::Queue(stored) => EntityOptions::Queue(stored.into()),
            StoredKind::Topic(stored) => EntityOptions::Topic(stored.into()),
        };
        Ok(Self { name, options })
    }
}

/// The counter's value.
pub(super) fn encode_counter(next: PartitionId) -> Result<Bytes, String> {
    encode(&next.0)
}

/// The counter's value read back.
pub(super) fn decode_counter(bytes: &[u8]) -> Result<PartitionId, String> {
    decode(bytes).map(PartitionId)
}

/// Where an entity is stored.
pub(super) const fn entity_key(partition: PartitionId) -> Key {
    Key::new(Space::Meta, CATALOGUE, partition.0)
}

fn encode<T: Serialize>(value: &T) -> Result<Bytes, String> {
    postcard::to_extend(value, vec![VERSION]).map(Bytes::from).map_err(|error| error.to_string())
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let Some((version, rest)) = bytes.split_first() else { return Err("the record is empty".to_owned()) };
    if *version != VERSION {
        return Err(format!("format version {version} is unknown; this broker reads version {VERSION}"));
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

    fn record() -> EntityRecord {
        let options = QueueOptions {
            default_message_time_to_live_ms: Some(5),
            requires_session: true,
            auto_delete_on_idle_ms: Some(7),
            ..QueueOptions::default()
        };
        EntityRecord { name: "Orders".to_owned(), options: options.into() }
    }

    #[test]
    fn records_survive_the_way_to_the_disk() {
        let topic = TopicOptions { auto_delete_on_idle_ms: Some(8), ..TopicOptions::default() };
        let topic = EntityRecord { name: "News".to_owned(), options: topic.into() };
        for record in [record(), topic] {
            let bytes = record.encode().unwrap();
            assert_eq!(EntityRecord::decode(&bytes), Ok(record));
        }
        assert_eq!(decode_counter(&encode_counter(PartitionId(300)).unwrap()), Ok(PartitionId(300)));
    }

    /// The format on disk must not change by accident.
    #[test]
    fn the_stored_form_is_pinned() {
        let bytes = record().encode().unwrap();
        let expected =
            b"\x01\x06Orders\x01\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x07\x80\x80\x40\x80\x80\x80\x80\xc0\x02";
        assert_eq!(bytes.as_ref(), expected);
    }

    #[test]
    fn queues_stored_before_there_were_sessions_stay_readable() {
        let stored = b"\x01\x06Orders\x00\xe0\xd4\x03\x0a\x01\x05\x00\x80\x80\x40\x80\x80\x80\x80\xc0\x02";
        let options = QueueOptions { default_message_time_to_live_ms: Some(5), ..QueueOptions::default() };
        let expected = EntityRecord { name: "Orders".to_owned(), options: options.into() };
        assert_eq!(EntityRecord::decode(stored), Ok(expected));
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
