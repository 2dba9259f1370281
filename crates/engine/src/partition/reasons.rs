//! The reasons with which the broker itself dead-letters messages.

use std::sync::Arc;

use super::record::Extra;
use crate::DeadLetter;

/// Reason of expired messages (S-19).
pub(crate) const EXPIRED: &str = "TTLExpiredException";
/// Reason of messages that reached the maximum delivery count.
pub(crate) const DELIVERIES_EXCEEDED: &str = "MaxDeliveryCountExceeded";
/// Reason of messages whose properties became too large.
pub(crate) const HEADER_SIZE_EXCEEDED: &str = "HeaderSizeExceeded";
/// Its description.
pub(crate) const HEADER_SIZE_EXCEEDED_TEXT: &str = "The size quota for this stream has been exceeded.";
/// Reason of messages without session id in a subscription with sessions; the sender can't be notified. As observed in Service
/// Bus (azure-service-bus 196).
pub(crate) const SESSION_ID_MISSING: &str = "Session id is null.";
/// Its description.
pub(crate) const SESSION_ID_MISSING_TEXT: &str =
    "Session enabled entity doesn't allow a message whose session identifier is null.";

/// The reasons, one shared value for each.
#[derive(Debug)]
pub(super) struct Reasons {
    /// The time to live is over (S-17, S-19).
    pub(super) expired: Reason,
    /// The maximum delivery count is reached.
    pub(super) deliveries_exceeded: Reason,
    /// A settlement would have made the header too large.
    pub(super) header_size_exceeded: Reason,
    /// The message has no session id.
    pub(super) session_id_missing: Reason,
}

/// A reason, also as the optional fields of a message that has no others.
#[derive(Debug)]
pub(super) struct Reason {
    /// The reason.
    pub(super) dead_letter: Arc<DeadLetter>,
    /// The same as optional fields, ready to be shared.
    pub(super) extra: Arc<Extra>,
}

impl Reasons {
    /// The reasons for a queue with this maximum delivery count.
    pub(super) fn new(deliveries: u32) -> Self {
        Self {
            expired: Reason::new(EXPIRED, "The message expired and was dead lettered."),
            deliveries_exceeded: Reason::new(
                DELIVERIES_EXCEEDED,
                &format!("Message could not be consumed after {deliveries} delivery attempts."),
            ),
            header_size_exceeded: Reason::new(HEADER_SIZE_EXCEEDED, HEADER_SIZE_EXCEEDED_TEXT),
            session_id_missing: Reason::new(SESSION_ID_MISSING, SESSION_ID_MISSING_TEXT),
        }
    }
}

impl Reason {
    fn new(reason: &str, description: &str) -> Self {
        let dead_letter =
            Arc::new(DeadLetter { reason: Some(reason.into()), description: Some(description.into()) });
        let extra = Extra { dead_letter: Some(Arc::clone(&dead_letter)), ..Extra::default() };
        Self { dead_letter, extra: Arc::new(extra) }
    }
}
