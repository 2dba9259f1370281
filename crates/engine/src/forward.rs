//! Messages on their way from one entity to another (semantics §14.1).
//!
//! What arrives there and what leaves here is one joint step, one batch of the store: so a message is in exactly one of both
//! whatever instant the power fails.

use std::sync::Arc;

use crate::{DeadLetter, Properties, PropertyChanges, QueuePath, SequenceNumber, Timestamp};

/// Times a message may be forwarded; one that would be once more is dead-lettered (semantics §14.1).
pub const HOPS_MAX: u8 = 4;

/// What a message remembers of its way here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The number it had where it was sent to, as clients saw it.
    pub enqueued_sequence_number: SequenceNumber,
    /// How often it was forwarded.
    pub hops: u8,
    /// The entity in which it was dead-lettered, if it was forwarded out of a dead-letter queue since.
    pub dead_letter_source: Option<Arc<str>>,
}

/// What a forwarded message brings along beside what a sender says of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Its way.
    pub forwarded: Arc<Forwarded>,
    /// When its life ends whatever the target's default says; [`Timestamp::NEVER`] for a life that begins at the target, as
    /// long as [`crate::NewMessage::time_to_live_ms`] says.
    pub expires_at: Timestamp,
    /// What actions of rules changed.
    pub changes: Option<Arc<PropertyChanges>>,
    /// Properties changed by receivers.
    pub modified: Option<Arc<Properties>>,
    /// Why it was dead-lettered, if it was.
    pub dead_letter: Option<Arc<DeadLetter>>,
}

/// What a forwarder gets with a message, beside what every receiver does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departing {
    /// Where it rests.
    pub source: QueuePath,
    /// Whether its content is a topic's.
    pub is_copy: bool,
    /// Length of the content, in bytes.
    pub content_bytes: u32,
    /// The session it was sent to.
    pub session_id: Option<Arc<str>>,
    /// Length of its header as far as it was noted.
    pub header_bytes: u32,
}
