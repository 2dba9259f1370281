//! Keys of the store: the partition, key space and number of each kind of value. No other file composes keys.
//!
//! | partition | space | numbers | value |
//! |---|---|---|---|
//! | 0 | `Meta` | 0 | the next free partition |
//! | 0 | `Meta` | id of an entity | its name and options; the entity owns the partition of that number |
//! | 0 | `Meta` | 2⁶⁴ − 1 | the last correction that set the clock back |
//! | queue, topic, subscription | `Meta` | 16 | its counters |
//! | queue, topic, subscription | `Meta` | 17 | its last use |
//! | topic | `Meta` | 2⁶³ + id | a subscription, which owns the partition of that id |
//! | queue, topic, subscription | `Head` | below 2⁶² | the record of the message with this number |
//! | queue, topic | `Head` | 2⁶² + number | the id of an accepted message, for duplicate detection |
//! | queue, subscription | `Head` | 2⁶³ + index | the state of a session |
//! | queue, topic | `Body` | number | the body of a message; those of subscriptions are in their topic's partition |

use std::ops::RangeInclusive;

use peeklock_storage::{Key, PartitionId, Space};

use crate::{BodyRef, QueueId, SequenceNumber};

/// The partition of the catalogue, which lists all entities.
pub(crate) const CATALOGUE: PartitionId = PartitionId(0);

const NEXT_PARTITION: u64 = 0;
const SET_BACK: u64 = u64::MAX;

/// `Meta` numbers of a queue, topic or subscription begin here.
pub(crate) const META_FIRST: u64 = 16;
const META_COUNTERS: u64 = 16;
const META_LAST_USE: u64 = 17;
/// Marks the `Meta` numbers of subscriptions. Nothing is stored at this number itself.
const META_SUBSCRIPTION: u64 = 1 << 63;

/// Marks the `Head` numbers of remembered ids.
const HEAD_REMEMBERED: u64 = 1 << 62;
/// Marks the `Head` numbers of session states.
const HEAD_SESSION_STATE: u64 = 1 << 63;

/// The value at a number of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogueSubject {
    /// The next free partition.
    NextPartition,
    /// The last correction that set the clock back.
    SetBack,
    /// A queue or topic.
    Entity(PartitionId),
}

impl CatalogueSubject {
    /// The value at a `Meta` number of [`CATALOGUE`].
    pub(crate) const fn of(number: u64) -> Self {
        match number {
            NEXT_PARTITION => Self::NextPartition,
            SET_BACK => Self::SetBack,
            entity => Self::Entity(PartitionId(entity)),
        }
    }
}

/// The value at a `Meta` number of a queue, topic or subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaSubject {
    /// The next sequence number.
    Counters,
    /// When it was last used.
    LastUse,
    /// A subscription of the topic.
    Subscription(QueueId),
    /// Unknown to this version.
    Unknown,
}

impl MetaSubject {
    /// The value at a `Meta` number of a partition other than [`CATALOGUE`].
    pub(crate) const fn of(number: u64) -> Self {
        match number {
            META_COUNTERS => Self::Counters,
            META_LAST_USE => Self::LastUse,
            number if number > META_SUBSCRIPTION => Self::Subscription(QueueId(number ^ META_SUBSCRIPTION)),
            _ => Self::Unknown,
        }
    }

    /// The subscription at this `Meta` number, if it is one.
    pub(crate) const fn subscription(number: u64) -> Option<QueueId> {
        match Self::of(number) {
            Self::Subscription(id) => Some(id),
            _ => None,
        }
    }
}

/// The value at a `Head` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadSubject {
    /// The attributes of a message.
    Message(SequenceNumber),
    /// An id for duplicate detection, by the number of the message that had it.
    RememberedId(SequenceNumber),
    /// The state of a session, by its index among the states.
    SessionState(u64),
}

impl HeadSubject {
    /// The value at a `Head` number.
    pub(crate) const fn of(number: u64) -> Self {
        if number >= HEAD_SESSION_STATE {
            Self::SessionState(number & !HEAD_SESSION_STATE)
        } else if number >= HEAD_REMEMBERED {
            Self::RememberedId(SequenceNumber(number & !HEAD_REMEMBERED))
        } else {
            Self::Message(SequenceNumber(number))
        }
    }

    /// Its `Head` number.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Message(number) => number.0,
            Self::RememberedId(number) => HEAD_REMEMBERED | number.0,
            Self::SessionState(index) => HEAD_SESSION_STATE | index,
        }
    }
}

/// Key of the next free partition id.
pub(crate) const fn next_partition_key() -> Key {
    Key::new(Space::Meta, CATALOGUE, NEXT_PARTITION)
}

/// Key of the last correction that set the clock back.
pub(crate) const fn set_back_key() -> Key {
    Key::new(Space::Meta, CATALOGUE, SET_BACK)
}

/// Key of a queue or topic.
pub(crate) const fn entity_key(id: PartitionId) -> Key {
    Key::new(Space::Meta, CATALOGUE, id.0)
}

/// Whether `key` belongs to an entity: a queue, or a topic with its subscriptions.
#[must_use]
pub const fn is_entity(key: Key) -> bool {
    let is_listed = matches!(key.space, Space::Meta) && key.partition.0 == CATALOGUE.0;
    is_listed && matches!(CatalogueSubject::of(key.number), CatalogueSubject::Entity(_))
}

/// Key of the counters of a queue, topic or subscription.
pub(crate) const fn counters_key(partition: PartitionId) -> Key {
    Key::new(Space::Meta, partition, META_COUNTERS)
}

/// Key of the last use of a queue, topic or subscription.
pub(crate) const fn last_use_key(partition: PartitionId) -> Key {
    Key::new(Space::Meta, partition, META_LAST_USE)
}

/// A key of the partition that never has a value.
pub(crate) const fn never_stored_key(partition: PartitionId) -> Key {
    Key::new(Space::Meta, partition, META_SUBSCRIPTION)
}

/// Key of a subscription of a topic.
pub(crate) const fn subscription_key(topic: PartitionId, id: QueueId) -> Key {
    Key::new(Space::Meta, topic, META_SUBSCRIPTION | id.0)
}

/// Key of a value in the `Head` space, with a number from [`HeadSubject::number`].
pub(crate) const fn head_key(partition: PartitionId, number: u64) -> Key {
    Key::new(Space::Head, partition, number)
}

/// Key of a remembered id.
pub(crate) const fn remembered_key(entity: PartitionId, number: SequenceNumber) -> Key {
    head_key(entity, HeadSubject::RememberedId(number).number())
}

/// The `Head` numbers of remembered ids from one message to another.
pub(crate) const fn remembered_numbers(first: SequenceNumber, last: SequenceNumber) -> RangeInclusive<u64> {
    HeadSubject::RememberedId(first).number()..=HeadSubject::RememberedId(last).number()
}

/// Key of a body.
pub(crate) const fn body_key(entity: PartitionId, body: BodyRef) -> Key {
    Key::new(Space::Body, entity, body.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_made() {
        let partition = PartitionId(7);
        assert_eq!(CatalogueSubject::of(next_partition_key().number), CatalogueSubject::NextPartition);
        assert_eq!(CatalogueSubject::of(set_back_key().number), CatalogueSubject::SetBack);
        assert_eq!(CatalogueSubject::of(entity_key(partition).number), CatalogueSubject::Entity(partition));
        assert_eq!(MetaSubject::of(counters_key(partition).number), MetaSubject::Counters);
        assert_eq!(MetaSubject::of(last_use_key(partition).number), MetaSubject::LastUse);
        assert_eq!(MetaSubject::of(never_stored_key(partition).number), MetaSubject::Unknown);
        let subscription = subscription_key(partition, QueueId(9)).number;
        assert_eq!(MetaSubject::subscription(subscription), Some(QueueId(9)));
        for number in [0, META_COUNTERS, META_LAST_USE, 1 << 62, META_SUBSCRIPTION] {
            assert_eq!(MetaSubject::subscription(number), None);
        }
        let subjects = [
            HeadSubject::Message(SequenceNumber(5)),
            HeadSubject::RememberedId(SequenceNumber(5)),
            HeadSubject::SessionState(5),
        ];
        for subject in subjects {
            assert_eq!(HeadSubject::of(subject.number()), subject);
        }
    }

    /// The keys of existing stores must not change.
    #[test]
    fn the_layout_is_pinned() {
        let partition = PartitionId(7);
        let (number, body) = (SequenceNumber(5), BodyRef(5));
        let meta = |partition, number| Key::new(Space::Meta, PartitionId(partition), number);
        let head = |number| Key::new(Space::Head, partition, number);
        assert_eq!(next_partition_key(), meta(0, 0));
        assert_eq!(set_back_key(), meta(0, u64::MAX));
        assert_eq!(entity_key(partition), meta(0, 7));
        assert_eq!(counters_key(partition), meta(7, 16));
        assert_eq!(last_use_key(partition), meta(7, 17));
        assert_eq!(subscription_key(partition, QueueId(9)), meta(7, (1 << 63) + 9));
        assert_eq!(head_key(partition, HeadSubject::Message(number).number()), head(5));
        assert_eq!(remembered_key(partition, number), head((1 << 62) + 5));
        assert_eq!(head_key(partition, HeadSubject::SessionState(5).number()), head((1 << 63) + 5));
        assert_eq!(body_key(partition, body), Key::new(Space::Body, partition, 5));
        let ids = remembered_numbers(SequenceNumber(1), SequenceNumber(2));
        assert_eq!(ids, (1 << 62) + 1..=(1 << 62) + 2);
    }
}
