//! Maps dead-letter reasons to metrics.

use crate::SubQueue;
use crate::metrics::Totals;
use crate::partition::Record;
use crate::partition::reasons::{DELIVERIES_EXCEEDED, EXPIRED, HEADER_SIZE_EXCEEDED, SESSION_ID_MISSING};
use crate::runtime::forwarder::FORWARDING_REASONS;

/// Counts a dead letter by its reason; true if the reason is too many deliveries. Reasons that the broker does not set come
/// from the application or from a rule. A transfer dead letter keeps the reason with which it was dead-lettered before, and
/// is counted as one of forwarding.
pub(super) fn count_dead_letter(totals: &mut Totals, record: &Record, is_by_rule: bool) -> bool {
    if record.sub_queue() == SubQueue::TransferDeadLetter {
        totals.dead_lettered_forwarding += 1;
        return false;
    }
    let dead_letter = record.extra().and_then(|extra| extra.dead_letter.as_ref());
    let reason = dead_letter.and_then(|dead_letter| dead_letter.reason.as_deref()).unwrap_or_default();
    let counter = match reason {
        EXPIRED => {
            totals.expired += 1;
            &mut totals.dead_lettered_ttl
        }
        DELIVERIES_EXCEEDED => &mut totals.dead_lettered_max_delivery,
        HEADER_SIZE_EXCEEDED => &mut totals.dead_lettered_header,
        SESSION_ID_MISSING => &mut totals.dead_lettered_session,
        reason if FORWARDING_REASONS.contains(&reason) => &mut totals.dead_lettered_forwarding,
        _ if is_by_rule => &mut totals.dead_lettered_filter,
        _ => &mut totals.dead_lettered_application,
    };
    *counter += 1;
    reason == DELIVERIES_EXCEEDED
}
