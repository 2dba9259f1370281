//! The reasons with which the broker itself dead-letters messages.

use std::sync::{Arc, OnceLock};

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

/// The reasons of a queue, one shared value for each. A reason is made when a message first needs it: most queues of a
/// namespace with many need none.
#[derive(Debug)]
pub(super) struct Reasons {
    /// The maximum delivery count, which one of them names.
    deliveries: u32,
    expired: OnceLock<Reason>,
    deliveries_exceeded: OnceLock<Reason>,
    header_size_exceeded: OnceLock<Reason>,
    session_id_missing: OnceLock<Reason>,
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
    pub(super) const fn new(deliveries: u32) -> Self {
        Self {
            deliveries,
            expired: OnceLock::new(),
            deliveries_exceeded: OnceLock::new(),
            header_size_exceeded: OnceLock::new(),
            session_id_missing: OnceLock::new(),
        }
    }

    /// The time to live is over (S-17, S-19).
    pub(super) fn expired(&self) -> &Reason {
        self.expired.get_or_init(|| Reason::new(EXPIRED, "The message expired and was dead lettered."))
    }

    /// The maximum delivery count is reached.
    pub(super) fn deliveries_exceeded(&self) -> &Reason {
        self.deliveries_exceeded.get_or_init(|| {
            let deliveries = self.deliveries;
            let text = format!("Message could not be consumed after {deliveries} delivery attempts.");
            Reason::new(DELIVERIES_EXCEEDED, &text)
        })
    }

    /// A settlement would have made the header too large.
    pub(super) fn header_size_exceeded(&self) -> &Reason {
        self.header_size_exceeded.get_or_init(|| Reason::new(HEADER_SIZE_EXCEEDED, HEADER_SIZE_EXCEEDED_TEXT))
    }

    /// The message has no session id.
    pub(super) fn session_id_missing(&self) -> &Reason {
        self.session_id_missing.get_or_init(|| Reason::new(SESSION_ID_MISSING, SESSION_ID_MISSING_TEXT))
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
