//! Messages on their way from one entity to another (semantics §14.1).
//!
//! What arrives there and what leaves here is one batch of the store, the target's: so a message is in exactly one of both
//! whatever instant the power fails. The source learns of it afterwards and only forgets.

use std::sync::Arc;

use crate::{
    BodyRef, Changes, DeadLetter, NewMessage, Properties, QueueId, QueuePath, SequenceNumber, Timestamp,
};

use serde::{Deserialize, Serialize};

/// Times a message may be forwarded; one that would be once more is dead-lettered (semantics §14.1).
pub const HOPS_MAX: u8 = 4;

/// What a message remembers of its way here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// The number it had where it was sent to.
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
    /// When its life ends whatever the target's default says; [`Timestamp::NEVER`] for none.
    pub expires_at: Timestamp,
    /// What actions of rules changed.
    pub changes: Option<Arc<Changes>>,
    /// Properties changed by receivers.
    pub modified: Option<Arc<Properties>>,
    /// Why it was dead-lettered, if it was.
    pub dead_letter: Option<Arc<DeadLetter>>,
}

/// A message that leaves for another entity: where its store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Where it rests.
    pub source: QueuePath,
    /// Its number there.
    pub number: SequenceNumber,
    /// The entity that keeps its content: the queue itself, or the topic.
    pub entity: QueueId,
    /// Its content.
    pub body: BodyRef,
    /// Length of the content.
    pub content_bytes: u32,
    /// Whether other messages may refer to the content. Then the batch of the target leaves a trace in place of the
    /// message, and the source removes it, and the content with its last reference: a crash in between leaves nothing
    /// behind that nobody knows of.
    pub shared: bool,
}

/// What a forwarder gets with a message, beside what every receiver does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departing {
    /// Where it is.
    pub departure: Departure,
    /// The session it was sent to.
    pub session_id: Option<Arc<str>>,
    /// Length of its header as far as it was noted.
    pub header_bytes: u32,
}

/// A message handed to its target.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// The message, with its [`NewMessage::origin`].
    pub message: NewMessage,
    /// What goes elsewhere when it is stored here.
    pub departure: Departure,
}
