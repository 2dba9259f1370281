//! Messages as the engine sees them: a few facts, and content it never looks into.

use std::sync::Arc;

use crate::{
    Departing, Forwarded, KeyPartition, LockToken, MessageKey, Origin, PartitionKey, PropertyChanges,
    QueueId, ReceiverId, RuleProperties, SequenceNumber, SubQueue, Timestamp,
};
use bytes::Bytes;
use peeklock_budget::Share;

/// A message as a sender submits it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewMessage {
    /// The encoded message as the front end received it; handed back unchanged.
    pub content: Bytes,
    /// Requested life after enqueueing, in milliseconds; `None` means the entity's default (S-1, S-12).
    pub time_to_live_ms: Option<u64>,
    /// When it becomes available; `None` or a past instant means now.
    pub scheduled_enqueue_time: Option<Timestamp>,
    /// Session id; the empty string is a session id.
    pub session_id: Option<Box<str>>,
    /// Length of what Service Bus calls the header: everything but the body, in bytes.
    pub header_bytes: u32,
    /// What rules see of it; needed in topics only.
    pub rule_properties: Option<Arc<RuleProperties>>,
    /// A number reserved for it while it was scheduled in a transaction, as clients see it: [`crate::Command::Provisional`].
    pub reserved_number: Option<SequenceNumber>,
    /// What a forwarded message brings along; senders have nothing to say here.
    pub origin: Option<Box<Origin>>,
    /// The key for duplicate detection; required where that is enabled. A message without one is never a duplicate.
    pub message_key: Option<MessageKey>,
    /// The key by which a partitioned entity chooses the partition; without meaning elsewhere.
    pub partition_key: Option<PartitionKey>,
}

impl NewMessage {
    /// The life that it asks for; one that was forwarded may keep the end it had.
    pub(crate) fn asked_life_ms(&self, now: Timestamp) -> Option<u64> {
        let end = self.origin.as_ref().map_or(Timestamp::NEVER, |origin| origin.expires_at);
        if end == Timestamp::NEVER { self.time_to_live_ms } else { Some(end.0.saturating_sub(now.0)) }
    }
}

/// One application property, its value encoded by the front end and opaque here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The key.
    pub name: Box<str>,
    /// The encoded value.
    pub value: Bytes,
}

/// Properties merged over those in the content: what a receiver changed when it settled.
pub type Properties = Vec<Property>;

/// Why a message rests in a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetter {
    /// `DeadLetterReason` (S-19 and broker-defined reasons), if given.
    pub reason: Option<Arc<str>>,
    /// `DeadLetterErrorDescription`, if given.
    pub description: Option<Arc<str>>,
}

impl DeadLetter {
    /// The application property in which readers find the reason.
    pub const REASON: &str = "DeadLetterReason";
    /// The application property in which readers find the description.
    pub const DESCRIPTION: &str = "DeadLetterErrorDescription";
}

/// State shown to readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MessageState {
    /// Waiting for a receiver, or locked by one.
    #[default]
    Active,
    /// Set aside; only retrievable by sequence number.
    Deferred,
    /// Not yet enqueued.
    Scheduled,
}

/// Where the content is stored: the sequence number under which it was first written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyRef(pub u64);

/// Everything about a stored message except its content.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageView {
    /// The queue or subscription in which it rests.
    pub queue: QueueId,
    /// Its number in the order of the entity; clients see [`Self::shown_number`].
    pub sequence_number: SequenceNumber,
    /// The partition of a partitioned entity to which it belongs; elsewhere the first.
    pub partition: KeyPartition,
    /// When it was accepted, or activated if it had been scheduled (S-9).
    pub enqueued_at: Timestamp,
    /// When it expires; [`Timestamp::NEVER`] without a time-to-live. For a scheduled message, counted from its
    /// scheduled enqueue time (S-9).
    pub expires_at: Timestamp,
    /// Effective time-to-live in milliseconds (S-13), `None` for no limit. Differs from
    /// `expires_at - enqueued_at` only for scheduled messages, whose life has not begun.
    pub time_to_live_ms: Option<u64>,
    /// Number of failed deliveries so far; 0 on the first.
    pub delivery_count: u32,
    /// Active, deferred or scheduled.
    pub state: MessageState,
    /// The queue inside the entity in which it rests.
    pub sub_queue: SubQueue,
    /// Set once it was dead-lettered.
    pub dead_letter: Option<Arc<DeadLetter>>,
    /// What actions of rules changed, to be laid over the content.
    pub changes: Option<Arc<PropertyChanges>>,
    /// Properties changed by receivers, to be merged over those in the content and over the changes.
    pub modified: Option<Arc<Properties>>,
    /// Its way here, if it was forwarded.
    pub forwarded: Option<Arc<Forwarded>>,
    /// Where its content is.
    pub body: BodyRef,
    /// Length of its content in bytes, as it was stored.
    pub content_bytes: u32,
}

impl MessageView {
    /// An active message of the main queue that was never delivered, changed or forwarded, never expires, and has an empty content.
    #[must_use]
    pub fn new(queue: QueueId, number: SequenceNumber) -> Self {
        Self {
            queue,
            sequence_number: number,
            partition: KeyPartition::default(),
            enqueued_at: Timestamp::default(),
            expires_at: Timestamp::NEVER,
            time_to_live_ms: None,
            delivery_count: 0,
            state: MessageState::Active,
            sub_queue: SubQueue::Main,
            dead_letter: None,
            changes: None,
            modified: None,
            forwarded: None,
            body: BodyRef(number.0),
            content_bytes: 0,
        }
    }

    /// Its number as clients see it.
    #[must_use]
    pub const fn shown_number(&self) -> SequenceNumber {
        self.partition.shown(self.sequence_number)
    }

    /// Of a topic's copy: the number that the message had in the topic, as clients see it.
    #[must_use]
    pub const fn shown_number_of_topic(&self) -> SequenceNumber {
        self.partition.shown(SequenceNumber(self.body.0))
    }
}

/// A message together with its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The facts.
    pub view: MessageView,
    /// The content as it was sent.
    pub content: Bytes,
    /// The lock, if this reader holds one.
    pub lock: Option<Lock>,
}

/// A held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Names it.
    pub token: LockToken,
    /// When it ends unless renewed.
    pub locked_until: Timestamp,
}

/// A message on its way to a receiver.
#[derive(Debug)]
pub struct Delivery {
    /// Who gets it.
    pub receiver: ReceiverId,
    /// The message; `lock` is set in peek-lock mode.
    pub message: Received,
    /// What a forwarder needs to know ([`crate::ReceiveMode::Forward`]).
    pub departing: Option<Box<Departing>>,
    /// What its content takes of the process's memory, until its receiver reports that by itself; `None` if it is little.
    pub share: Option<Share>,
}
