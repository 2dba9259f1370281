//! Maps dead-letter reasons to metrics.

use crate::metrics::Totals;
use crate::partition::Record;

/// Counts a dead letter by its reason; true if the reason is too many deliveries. Reasons that the broker does not set come
/// from the application or from a rule.
pub(super) fn count_dead_letter(totals: &mut Totals, record: &Record, is_by_rule: bool) -> bool {
    let dead_letter = record.extra().and_then(|extra| extra.dead_letter.as_ref());
    let reason = dead_letter.and_then(|dead_letter| dead_letter.reason.as_deref()).unwrap_or_default();
    let counter = match reason {
        "TTLExpiredException" => {
            totals.expired += 1;
            &mut totals.dead_lettered_ttl
        }
        "MaxDeliveryCountExceeded" => &mut totals.dead_lettered_max_delivery,
        "HeaderSizeExceeded" => &mut totals.dead_lettered_header,
        "Session id is null." => &mut totals.dead_lettered_session,
        "MessagingEntityNotFoundException"
        | "MessagingEntityDisabledException"
        | "MaxTransferHopCountExceeded"
        | "QuotaExceededException"
        | "MessageSizeExceededException" => &mut totals.dead_lettered_forwarding,
        _ if is_by_rule => &mut totals.dead_lettered_filter,
        _ => &mut totals.dead_lettered_application,
    };
    *counter += 1;
    reason == "MaxDeliveryCountExceeded"
}
