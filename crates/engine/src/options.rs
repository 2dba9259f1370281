//! Entity options and the reasons a command is refused.

use serde::{Deserialize, Serialize};

/// Options of a queue; names and defaults are Service Bus's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueOptions {
    /// Length of a message lock and of each renewal, in milliseconds; 5 s to 5 min, default 1 min.
    pub lock_duration_ms: u64,
    /// Failed deliveries after which a message is dead-lettered; at least 1, default 10.
    pub max_delivery_count: u32,
    /// Default and cap of the time-to-live in milliseconds (S-10…S-13); `None` means no limit (S-15).
    pub default_message_time_to_live_ms: Option<u64>,
    /// Whether expired messages are dead-lettered (S-17) or dropped (S-18).
    pub dead_lettering_on_message_expiration: bool,
    /// Largest encoded message accepted, in bytes.
    pub max_message_size_bytes: u64,
    /// Largest sum of stored content, in bytes; sends beyond it are refused.
    pub max_size_bytes: u64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            lock_duration_ms: 60_000,
            max_delivery_count: 10,
            default_message_time_to_live_ms: None,
            dead_lettering_on_message_expiration: false,
            max_message_size_bytes: 1024 * 1024,
            max_size_bytes: 80 * 1024 * 1024 * 1024,
        }
    }
}

/// Why a command was refused. The front ends map each to a condition and a status in one table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lock ended, or the message is gone, or the token was never given out.
    #[error(
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."
    )]
    MessageLockLost,
    /// No message with that sequence number in the state the operation needs.
    #[error(
        "The message with sequence number {0} could not be found, or is not in a state that allows this."
    )]
    MessageNotFound(u64),
    /// A dead-lettered message can't be dead-lettered again.
    #[error("A message in a dead-letter queue can't be dead-lettered again.")]
    AlreadyDeadLettered,
    /// The message exceeds the entity's limit.
    #[error("The message of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes of this entity.")]
    MessageTooLarge {
        /// Encoded size.
        size_bytes: u64,
        /// The entity's limit.
        limit_bytes: u64,
    },
    /// The entity reached its size quota.
    #[error(
        "The entity has reached its size limit of {limit_bytes} bytes; receive or purge messages to make room."
    )]
    EntityFull {
        /// The quota.
        limit_bytes: u64,
    },
    /// The disk has no room.
    #[error("The broker's storage is full; messages are accepted again as soon as there is room.")]
    StorageFull,
    /// The receiver is not open.
    #[error("The receiver is not open.")]
    ReceiverNotFound,
    /// The request itself makes no sense (empty list, absurd value).
    #[error("{0}")]
    InvalidArgument(String),
    /// The partition was restarted or the broker is stopping; retry.
    #[error("The entity is temporarily unavailable; retry the operation.")]
    Unavailable,
    /// The entity was deleted.
    #[error("The messaging entity could not be found; it was deleted.")]
    EntityDeleted,
}
