//! A queue or topic: its name, times and options.

use bytes::Bytes;

use super::options::{StoredQueue, StoredTopic};
use super::{frame, legacy};
use crate::{EntityOptions, EntityTimes, Timestamp};

/// The stored form of a queue or topic. Its id is in the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityRecord {
    /// The name as first given.
    pub(crate) name: String,
    /// When it was created and last changed.
    pub(crate) times: EntityTimes,
    /// Its options.
    pub(crate) options: EntityOptions,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredEntity {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(uint64, tag = "2")]
    created_at_ms: u64,
    #[prost(uint64, tag = "3")]
    updated_at_ms: u64,
    #[prost(oneof = "Kind", tags = "4, 5")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "4")]
    Queue(StoredQueue),
    #[prost(message, tag = "5")]
    Topic(StoredTopic),
}

/// Encodes an entity.
pub(crate) fn write_entity(entity: &EntityRecord) -> Bytes {
    let kind = match &entity.options {
        EntityOptions::Queue(options) => Kind::Queue(options.into()),
        EntityOptions::Topic(options) => Kind::Topic(options.into()),
    };
    let stored = StoredEntity {
        name: Some(entity.name.clone()),
        created_at_ms: entity.times.created_at.0,
        updated_at_ms: entity.times.updated_at.0,
        kind: Some(kind),
    };
    let mut record = Vec::new();
    frame::append(&stored, &mut record);
    record.into()
}

/// Reads the record of an entity.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_entity(bytes: &[u8]) -> Result<EntityRecord, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_entity(bytes);
    }
    let StoredEntity { name, created_at_ms, updated_at_ms, kind } = frame::read(bytes)?;
    let options = match frame::required(kind, "options of a kind of entity that this version knows")? {
        Kind::Queue(options) => EntityOptions::Queue(options.try_into()?),
        Kind::Topic(options) => EntityOptions::Topic(options.try_into()?),
    };
    let times = EntityTimes { created_at: Timestamp(created_at_ms), updated_at: Timestamp(updated_at_ms) };
    Ok(EntityRecord { name: frame::required(name, "name")?, times, options })
}
