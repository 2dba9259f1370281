//! Message annotations with a meaning.

/// Milliseconds since 1970: when the message shall become available. The sender's; kept.
pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
/// The sender's; kept.
pub const PARTITION_KEY: &str = "x-opt-partition-key";
/// The sender's; kept, and without effect.
pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
/// When the message was accepted or activated.
pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
/// Its number (long: Go and Java assert the type).
pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
/// Its number where it first entered the broker.
pub const ENQUEUED_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
/// End of the lock, only under one.
pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
/// 0 active, 1 deferred, 2 scheduled; absent means active.
pub const MESSAGE_STATE: &str = "x-opt-message-state";
/// Delivery annotation: the lock token (Go knows it only from here for deferred messages).
pub const LOCK_TOKEN: &str = "x-opt-lock-token";

/// The queue in which a forwarded dead letter first was dead-lettered.
pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";

/// Keys only the broker writes; what a sender puts there is dropped on delivery.
const SERVICE_OWNED: [&str; 8] = [
    ENQUEUED_TIME,
    SEQUENCE_NUMBER,
    ENQUEUED_SEQUENCE_NUMBER,
    LOCKED_UNTIL,
    MESSAGE_STATE,
    LOCK_TOKEN,
    DEAD_LETTER_SOURCE,
    "x-opt-partition-id",
];

/// Whether only the broker writes this key.
pub fn is_service_owned(key: &str) -> bool {
    SERVICE_OWNED.contains(&key)
}
