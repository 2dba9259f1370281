//! Messages in the engine: attributes, and an encoded body that the engine never decodes.

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
    /// The encoded message as the front end received it; delivered unchanged.
    pub content: Bytes,
    /// Requested time to live after enqueueing, in milliseconds; `None` means the entity's default (S-1, S-12).
    pub time_to_live_ms: Option<u64>,
    /// When it becomes available; `None` or a past time means now.
    pub scheduled_enqueue_time: Option<Timestamp>,
    /// Session id; the empty string is a session id.
    pub session_id: Option<Box<str>>,
    /// Length of what Service Bus calls the header: everything but the body, in bytes.
    pub header_bytes: u32,
    /// The properties that rules evaluate; needed in topics only.
    pub rule_properties: Option<Arc<RuleProperties>>,
    /// The client-visible number reserved when it was scheduled in a transaction: [`crate::Command::Provisional`].
    pub reserved_number: Option<SequenceNumber>,
    /// Set for forwarded messages only, never by senders.
    pub origin: Option<Box<Origin>>,
    /// The key for duplicate detection; required where that is enabled. A message without one is never a duplicate.
    pub message_key: Option<MessageKey>,
    /// The key by which a partitioned entity chooses the partition; ignored elsewhere.
    pub partition_key: Option<PartitionKey>,
}

impl NewMessage {
    /// The requested time to live; a forwarded message may keep its original expiry.
    pub(crate) fn asked_life_ms(&self, now: Timestamp) -> Option<u64> {
        let end = self.origin.as_ref().map_or(Timestamp::NEVER, |origin| origin.expires_at);
        if end == Timestamp::NEVER { self.time_to_live_ms } else { Some(end.0.saturating_sub(now.0)) }
    }
}

/// One application property; its value is encoded by the front end and opaque here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The key.
    pub name: Box<str>,
    /// The encoded value.
    pub value: Bytes,
}

/// Properties changed by receivers when settling; they override those in the body.
pub type Properties = Vec<Property>;

/// Why a message is in a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetter {
    /// `DeadLetterReason` (S-19 and broker-defined reasons), if set.
    pub reason: Option<Arc<str>>,
    /// `DeadLetterErrorDescription`, if set.
    pub description: Option<Arc<str>>,
}

impl DeadLetter {
    /// The application property with the reason.
    pub const REASON: &str = "DeadLetterReason";
    /// The application property with the description.
    pub const DESCRIPTION: &str = "DeadLetterErrorDescription";
}

/// State visible to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MessageState {
    /// Waiting for a receiver, or locked by one.
    #[default]
    Active,
    /// Deferred; only retrievable by sequence number.
    Deferred,
    /// Not yet enqueued.
    Scheduled,
}

/// Identifies a stored body: the sequence number with which it was first stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyRef(pub u64);

/// Everything about a stored message except its body.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageView {
    /// Its queue or subscription.
    pub queue: QueueId,
    /// Its internal number; clients see [`Self::shown_number`].
    pub sequence_number: SequenceNumber,
    /// Its partition in a partitioned entity; the first one otherwise.
    pub partition: KeyPartition,
    /// When it was accepted, or activated if it had been scheduled (S-9).
    pub enqueued_at: Timestamp,
    /// When it expires; [`Timestamp::NEVER`] without a time-to-live. For a scheduled message, counted from its
    /// scheduled enqueue time (S-9).
    pub expires_at: Timestamp,
    /// Effective time to live in milliseconds (S-13), `None` for no limit. Differs from `expires_at - enqueued_at` only for
    /// scheduled messages, whose time to live has not started.
    pub time_to_live_ms: Option<u64>,
    /// Number of failed deliveries so far; 0 on the first.
    pub delivery_count: u32,
    /// Active, deferred or scheduled.
    pub state: MessageState,
    /// Its sub-queue.
    pub sub_queue: SubQueue,
    /// Set when it was dead-lettered.
    pub dead_letter: Option<Arc<DeadLetter>>,
    /// Changes made by actions of rules; to be applied to the properties in the body.
    pub changes: Option<Arc<PropertyChanges>>,
    /// Properties changed by receivers; they override those in the body and the changes.
    pub modified: Option<Arc<Properties>>,
    /// Forwarding information, if it was forwarded.
    pub forwarded: Option<Arc<Forwarded>>,
    /// Its body.
    pub body: BodyRef,
    /// Length of its stored body in bytes.
    pub content_bytes: u32,
}

impl MessageView {
    /// An active message of the main queue that was never delivered, changed or forwarded, never expires, and has an empty
    /// body.
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

    /// Its client-visible number.
    #[must_use]
    pub const fn shown_number(&self) -> SequenceNumber {
        self.partition.shown(self.sequence_number)
    }

    /// For a topic's copy: the client-visible number that the message has in the topic.
    #[must_use]
    pub const fn shown_number_of_topic(&self) -> SequenceNumber {
        self.partition.shown(SequenceNumber(self.body.0))
    }
}

/// A message with its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its attributes.
    pub view: MessageView,
    /// Its body as it was sent.
    pub content: Bytes,
    /// The lock, if this reader holds one.
    pub lock: Option<Lock>,
}

/// A held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// The token.
    pub token: LockToken,
    /// When it expires unless renewed.
    pub locked_until: Timestamp,
}

/// A message to be sent to a receiver.
#[derive(Debug)]
pub struct Delivery {
    /// The receiver.
    pub receiver: ReceiverId,
    /// The message; `lock` is set in peek-lock mode.
    pub message: Received,
    /// Additional data for a forwarder ([`crate::ReceiveMode::Forward`]).
    pub departing: Option<Box<Departing>>,
    /// The memory of its body in the process's budget, until the receiver's connection reports it itself; `None` if it is
    /// small.
    pub share: Option<Share>,
}
