//! Details of events that concern several messages.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::partition::Record;
use crate::{BodyRef, QueueId, SequenceNumber, SubQueue};

/// See [`crate::Event::Published`].
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// Its number in the topic, the next one.
    pub number: SequenceNumber,
    /// The body, stored with that number; `None` for a scheduled message, whose body is stored already.
    pub content: Option<Bytes>,
    /// Its number while it was scheduled, which is invalid from now on.
    pub scheduled: Option<SequenceNumber>,
    /// The body.
    pub body: BodyRef,
    /// Length of the body in bytes.
    pub content_bytes: u32,
    /// The copies of subscriptions.
    pub copies: SmallVec<[SubscriptionCopy; 1]>,
}

/// A message of a topic in one subscription.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionCopy {
    /// The subscription.
    pub queue: QueueId,
    /// Its number in the subscription, the next one.
    pub number: SequenceNumber,
    /// Its record.
    pub record: Record,
}

/// See [`crate::Event::Deleted`].
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// The queue of the messages.
    pub queue: QueueId,
    /// Their sub-queue.
    pub sub_queue: SubQueue,
    /// Their numbers, in order.
    pub numbers: Box<[SequenceNumber]>,
    /// Bodies that nothing else refers to, in order.
    pub bodies: Box<[BodyRef]>,
}
