//! Forwarding of messages from one entity to another (semantics §14.1).
//!
//! Storing a message in the target and removing it from the source is one joint step, one batch of the store: so the message
//! is always in exactly one of the two, whenever the power fails.

use std::sync::Arc;

use crate::{DeadLetter, Properties, PropertyChanges, QueuePath, SequenceNumber, Timestamp};

/// Maximum number of times a message is forwarded; then it is dead-lettered (semantics §14.1).
pub const HOPS_MAX: u8 = 4;

/// The forwarding information of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Its number in the entity it was sent to, as clients see it.
    pub enqueued_sequence_number: SequenceNumber,
    /// How many times it was forwarded.
    pub hops: u8,
    /// The entity in which it was dead-lettered, if it was forwarded out of a dead-letter queue.
    pub dead_letter_source: Option<Arc<str>>,
}

/// The properties that a forwarded message has in addition to those set by a sender.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Its forwarding information.
    pub forwarded: Arc<Forwarded>,
    /// When it expires, regardless of the target's default; [`Timestamp::NEVER`] if its life starts at the target, with
    /// [`crate::NewMessage::time_to_live_ms`].
    pub expires_at: Timestamp,
    /// Changes made by actions of rules.
    pub changes: Option<Arc<PropertyChanges>>,
    /// Properties changed by receivers.
    pub modified: Option<Arc<Properties>>,
    /// The dead-letter reason, if it was dead-lettered.
    pub dead_letter: Option<Arc<DeadLetter>>,
}

/// Additional data of a delivery to a forwarder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departing {
    /// The queue of the message.
    pub source: QueuePath,
    /// Whether its body belongs to a topic.
    pub is_copy: bool,
    /// Length of the body, in bytes.
    pub content_bytes: u32,
    /// The session it was sent to.
    pub session_id: Option<Arc<str>>,
    /// Length of its header, if recorded.
    pub header_bytes: u32,
}
