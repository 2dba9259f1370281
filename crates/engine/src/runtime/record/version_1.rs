//! Entities as they were stored before there was administration; read, no longer written.

use serde::Deserialize;

use super::{EntityRecord, VERSION, decode_version};
use crate::{EntityOptions, EntityTimes, QueueOptions, TopicOptions};

#[derive(Deserialize)]
struct StoredEntity {
    name: String,
    kind: StoredKind,
}

/// New kinds go to the end: their position is stored.
#[derive(Deserialize)]
enum StoredKind {
    /// Before sessions and idle deletion.
    PlainQueue(StoredPlainQueue),
    Queue(StoredQueue),
    Topic(StoredTopic),
}

#[derive(Deserialize)]
struct StoredPlainQueue {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
}

#[derive(Deserialize)]
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

#[derive(Deserialize)]
struct StoredTopic {
    default_message_time_to_live_ms: Option<u64>,
    auto_delete_on_idle_ms: Option<u64>,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
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
            ..Self::default()
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
            max_message_size_bytes: stored.max_message_size_bytes,
            max_size_bytes: stored.max_size_bytes,
            ..Self::default()
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
            ..Self::default()
        }
    }
}

/// Reads such a record. Nobody noted when the entity was created.
pub(super) fn decode(bytes: &[u8]) -> Result<EntityRecord, String> {
    let StoredEntity { name, kind } = decode_version(VERSION, bytes)?;
    let options = match kind {
        StoredKind::PlainQueue(stored) => EntityOptions::Queue(stored.into()),
        StoredKind::Queue(stored) => EntityOptions::Queue(stored.into()),
        StoredKind::Topic(stored) => EntityOptions::Topic(stored.into()),
    };
    Ok(EntityRecord { name, times: EntityTimes::default(), options })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: &[u8], name: &str, options: impl Into<EntityOptions>) {
        let expected =
            EntityRecord { name: name.to_owned(), times: EntityTimes::default(), options: options.into() };
        assert_eq!(EntityRecord::decode(stored), Ok(expected));
    }

    #[test]
    fn queues_stored_before_there_was_administration_stay_readable() {
        let stored =
            b"\x01\x06Orders\x01\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x07\x80\x80\x40\x80\x80\x80\x80\xc0\x02";
        let options = QueueOptions {
            default_message_time_to_live_ms: Some(5),
            requires_session: true,
            auto_delete_on_idle_ms: Some(7),
            ..QueueOptions::default()
        };
        check(stored, "Orders", options);
    }

    #[test]
    fn topics_stored_before_there_was_administration_stay_readable() {
        let stored = b"\x01\x04News\x02\x00\x01\x08\x80\x80\x40\x80\x80\x80\x80\xc0\x02";
        check(stored, "News", TopicOptions { auto_delete_on_idle_ms: Some(8), ..TopicOptions::default() });
    }

    #[test]
    fn queues_stored_before_there_were_sessions_stay_readable() {
        let stored = b"\x01\x06Orders\x00\xe0\xd4\x03\x0a\x01\x05\x00\x80\x80\x40\x80\x80\x80\x80\xc0\x02";
        let options = QueueOptions { default_message_time_to_live_ms: Some(5), ..QueueOptions::default() };
        check(stored, "Orders", options);
    }
}
