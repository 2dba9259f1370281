//! What events say that are about several messages.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::partition::Record;
use crate::{BodyRef, QueueId, SequenceNumber, SubQueue};

/// See [`crate::Event::Published`].
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// The topic's number for it, the next one.
    pub number: SequenceNumber,
    /// The content, stored under that number; `None` for one that was scheduled and is stored already.
    pub content: Option<Bytes>,
    /// The number under which it was scheduled, dead from now on.
    pub scheduled: Option<SequenceNumber>,
    /// Where the content is.
    pub body: BodyRef,
    /// Its length in bytes.
    pub content_bytes: u32,
    /// Who gets it.
    pub copies: SmallVec<[SubscriptionCopy; 1]>,
}

/// A message of a topic in one subscription.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionCopy {
    /// Which subscription.
    pub queue: QueueId,
    /// Its number there, the next one.
    pub number: SequenceNumber,
    /// The facts about it.
    pub record: Record,
}

/// See [`crate::Event::Deleted`].
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// Where the messages were.
    pub queue: QueueId,
    /// Where they rested.
    pub sub_queue: SubQueue,
    /// Which, in order.
    pub numbers: Box<[SequenceNumber]>,
    /// Bodies that nothing else refers to, in order.
    pub bodies: Box<[BodyRef]>,
}
