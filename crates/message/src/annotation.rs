//! Message annotations known to the broker.

use bytes::Bytes;
use peeklock_wire::message::Sections;
use peeklock_wire::{DecodeError, Str, Value};

/// Milliseconds since 1970 when the message becomes available. Set by the sender; kept.
pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
/// The same from JMS clients, as a long or a timestamp (AMQP Binding for JMS, 3.2.5). Set by the sender; kept.
pub const DELIVERY_TIME: &str = "x-opt-delivery-time";
/// Set by the sender; kept.
pub const PARTITION_KEY: &str = "x-opt-partition-key";
/// Set by the sender; kept, without effect.
pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
/// When the message was accepted or activated.
pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
/// The sequence number (long: Go and Java assert the type).
pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
/// The sequence number in the entity that the message first entered, if that was another one.
pub const ENQUEUED_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
/// The partition of a message in a partitioned entity (short, as azure-service-bus-go read it); only for such entities.
pub const PARTITION_ID: &str = "x-opt-partition-id";
/// End of the lock; for a browsed message, a time that means "not locked".
pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
/// 0 active, 1 deferred, 2 scheduled (also after such a message has become available); absent means active.
pub const MESSAGE_STATE: &str = "x-opt-message-state";
/// Delivery annotation with the lock token (for deferred messages, Go reads it only here; P's own tests expect it in each
/// locked message).
pub const LOCK_TOKEN: &str = "x-opt-lock-token";

/// The queue in which a forwarded dead letter was first dead-lettered.
pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";

/// Keys written only by the broker; values from a sender are dropped on delivery.
const SERVICE_OWNED: [&str; 8] = [
    ENQUEUED_TIME,
    SEQUENCE_NUMBER,
    ENQUEUED_SEQUENCE_NUMBER,
    LOCKED_UNTIL,
    MESSAGE_STATE,
    LOCK_TOKEN,
    DEAD_LETTER_SOURCE,
    PARTITION_ID,
];

/// Whether the key is written only by the broker.
pub fn is_service_owned(key: &str) -> bool {
    SERVICE_OWNED.contains(&key)
}

/// The milliseconds since 1970 of an encoded timestamp; `None` for another value.
pub(crate) fn timestamp_ms(mut encoded_value: Bytes) -> Option<i64> {
    match Value::decode(&mut encoded_value) {
        Ok(Value::Timestamp(at_ms)) => Some(at_ms),
        _ => None,
    }
}

/// The sender's annotations that the broker uses.
#[derive(Debug, Default)]
pub(crate) struct Annotated {
    /// The value of [`PARTITION_KEY`], if it is a text.
    pub(crate) partition_key: Option<Str>,
    /// The value of [`VIA_PARTITION_KEY`], if it is a text.
    pub(crate) via_partition_key: Option<Str>,
    /// The value of [`SCHEDULED_ENQUEUE_TIME`].
    pub(crate) scheduled_enqueue_time: Value,
    /// The value of [`DELIVERY_TIME`].
    pub(crate) delivery_time: Value,
}

impl Annotated {
    /// Reads a section; other annotations are skipped, and of several with the same key the first is used.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub(crate) fn read(section: &Bytes) -> Result<Self, DecodeError> {
        let mut annotated = Self::default();
        let mut seen = [false; 4];
        for entry in Sections::map_entries(section)? {
            let entry = entry?;
            let known = [PARTITION_KEY, VIA_PARTITION_KEY, SCHEDULED_ENQUEUE_TIME, DELIVERY_TIME];
            let Some(which) = known.iter().position(|known| entry.key == Some(known)) else { continue };
            if seen.get_mut(which).is_none_or(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            let value = Value::decode(&mut section.slice_ref(entry.encoded_value))?;
            match (which, value) {
                (0, Value::String(text) | Value::Symbol(text)) => annotated.partition_key = Some(text),
                (1, Value::String(text) | Value::Symbol(text)) => annotated.via_partition_key = Some(text),
                (2, value) => annotated.scheduled_enqueue_time = value,
                (3, value) => annotated.delivery_time = value,
                _ => {}
            }
        }
        Ok(annotated)
    }
}
