//! Why the broker itself dead-letters messages.

use std::sync::Arc;

use super::record::Extra;
use crate::DeadLetter;

/// Reason of expired messages (S-19).
const EXPIRED: &str = "TTLExpiredException";
/// Reason of messages whose delivery failed too often.
const DELIVERIES_EXCEEDED: &str = "MaxDeliveryCountExceeded";

/// Reason of messages whose properties became too large.
const HEADER_SIZE_EXCEEDED: &str = "HeaderSizeExceeded";
/// Reason of messages without session id that reach a subscription with sessions, where no sender can be told.
const SESSION_ID_MISSING: &str = "Session ID is null";

/// One value for all messages dead-lettered for the same reason.
#[derive(Debug)]
pub(super) struct Reasons {
    /// The time-to-live is over (S-17, S-19).
    pub(super) expired: Reason,
    /// As many deliveries failed as are allowed.
    pub(super) deliveries_exceeded: Reason,
    /// A settlement would have made the header too large.
    pub(super) header_size_exceeded: Reason,
    /// There is no session it could belong to.
    pub(super) session_id_missing: Reason,
}

/// A reason, also as the rare facts of a message that has no others.
#[derive(Debug)]
pub(super) struct Reason {
    /// The reason.
    pub(super) dead_letter: Arc<DeadLetter>,
    /// The same, ready to be shared.
    pub(super) extra: Arc<Extra>,
}

impl Reasons {
    /// Those of a queue that allows so many failed deliveries.
    pub(super) fn new(deliveries: u32) -> Self {
        Self {
            expired: Reason::new(EXPIRED, "The message expired and was dead lettered."),
            deliveries_exceeded: Reason::new(
                DELIVERIES_EXCEEDED,
                &format!("Message could not be consumed after {deliveries} delivery attempts."),
            ),
            header_size_exceeded: Reason::new(
                HEADER_SIZE_EXCEEDED,
                "The size quota for this stream has been exceeded.",
            ),
            session_id_missing: Reason::new(
                SESSION_ID_MISSING,
                "Session enabled entity doesn't allow a message whose session identifier is null.",
            ),
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
