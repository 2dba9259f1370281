//! Stored values read one by one, for tools.

use bytes::Bytes;
use peeklock_storage::{Key, PartitionId, Space};

use super::encoding::{append_counters, append_used, read_record, read_trace};
use super::persist::{META_COUNTERS, META_USED};
use super::topic;
use crate::{BodyRef, QueueId, SequenceNumber, Timestamp};

/// The subscription stored under a `Meta` number of a topic, if it is the number of one.
pub(crate) fn subscription_of(number: u64) -> Option<QueueId> {
    topic::subscription_of(number)
}

/// The name of a stored subscription.
pub(crate) fn subscription_name(id: QueueId, value: &[u8]) -> Option<String> {
    topic::read_subscription(id, value).ok().map(|subscription| subscription.name.into())
}

/// Where the content of a stored message is.
pub(crate) fn content_of(number: SequenceNumber, value: &[u8]) -> Option<BodyRef> {
    if let Some((body, _)) = read_trace(value).ok()? {
        return Some(body);
    }
    Some(read_record(value).ok()?.body(number))
}

/// Where the counters of a partition are stored.
pub(crate) const fn counters_key(partition: PartitionId) -> Key {
    Key::new(Space::Meta, partition, META_COUNTERS)
}

/// The counters of a partition whose next message gets this number.
pub(crate) fn counters(next_number: SequenceNumber) -> Bytes {
    append_counters(next_number, Vec::new()).into()
}

/// Whether the instant of the last use is stored under a `Meta` number.
pub(crate) const fn is_used(number: u64) -> bool {
    number == META_USED
}

/// An instant of last use.
pub(crate) fn used(at: Timestamp) -> Bytes {
    append_used(at, Vec::new()).into()
}
