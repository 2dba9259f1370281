//! Stored values read one by one, for tools.

use bytes::Bytes;

use super::encoding::{append_counters, append_used, read_record, read_trace};
use super::topic;
use crate::{BodyRef, QueueId, SequenceNumber, Timestamp};

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

/// The counters of a partition whose next message gets this number.
pub(crate) fn counters(next_number: SequenceNumber) -> Bytes {
    append_counters(next_number, Vec::new()).into()
}

/// An instant of last use.
pub(crate) fn used(at: Timestamp) -> Bytes {
    append_used(at, Vec::new()).into()
}
