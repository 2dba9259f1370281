//! Queues and topics: version 1 was written before administration existed.

use serde::Deserialize;

use super::options::{Queue, Times, Topic};
use super::{read_fields, unknown, version};
use crate::stored::entity::EntityRecord;
use crate::{EntityOptions, EntityTimes, QueueOptions, TopicOptions};

#[derive(Deserialize)]
struct Version2 {
    name: String,
    times: Times,
    options: Options,
}

#[derive(Deserialize)]
enum Options {
    Queue(Queue),
    Topic(Topic),
}

impl From<Version2> for EntityRecord {
    fn from(Version2 { name, times, options }: Version2) -> Self {
        let options = match options {
            Options::Queue(queue) => EntityOptions::Queue(queue.into()),
            Options::Topic(topic) => EntityOptions::Topic(topic.into()),
        };
        Self { name, times: times.into(), options }
    }
}

#[derive(Deserialize)]
struct Version1 {
    name: String,
    kind: Kind,
}

#[derive(Deserialize)]
enum Kind {
    /// From before sessions and AutoDeleteOnIdle.
    PlainQueue(PlainQueue),
    Queue(QueueVersion1),
    Topic(TopicVersion1),
}

#[derive(Deserialize)]
struct PlainQueue {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
}

#[derive(Deserialize)]
struct QueueVersion1 {
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
struct TopicVersion1 {
    default_message_time_to_live_ms: Option<u64>,
    auto_delete_on_idle_ms: Option<u64>,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
}

impl From<QueueVersion1> for QueueOptions {
    fn from(stored: QueueVersion1) -> Self {
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

impl From<PlainQueue> for QueueOptions {
    fn from(stored: PlainQueue) -> Self {
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

impl From<TopicVersion1> for TopicOptions {
    fn from(stored: TopicVersion1) -> Self {
        Self {
            default_message_time_to_live_ms: stored.default_message_time_to_live_ms,
            auto_delete_on_idle_ms: stored.auto_delete_on_idle_ms,
            max_message_size_bytes: stored.max_message_size_bytes,
            max_size_bytes: stored.max_size_bytes,
            ..Self::default()
        }
    }
}

impl From<Version1> for EntityRecord {
    fn from(Version1 { name, kind }: Version1) -> Self {
        let options = match kind {
            Kind::PlainQueue(stored) => EntityOptions::Queue(stored.into()),
            Kind::Queue(stored) => EntityOptions::Queue(stored.into()),
            Kind::Topic(stored) => EntityOptions::Topic(stored.into()),
        };
        Self { name, times: EntityTimes::default(), options }
    }
}

pub(in crate::stored) fn read_entity(bytes: &[u8]) -> Result<EntityRecord, String> {
    match version(bytes)? {
        1 => read_fields::<Version1>(bytes).map(Into::into),
        2 => read_fields::<Version2>(bytes).map(Into::into),
        other => unknown(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: &[u8], name: &str, options: impl Into<EntityOptions>) {
        let expected =
            EntityRecord { name: name.to_owned(), times: EntityTimes::default(), options: options.into() };
        assert_eq!(read_entity(stored), Ok(expected));
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
