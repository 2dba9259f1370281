//! Properties of an entity beside its options, and the protocol version that introduced each.

use peeklock_engine::EntityTimes;
use peeklock_engine::Timestamp;
use peeklock_engine::partition::Counts;

use super::instant;
use super::xml::{COUNTS, Document};

/// Properties of an entity beside its options.
pub(super) struct EntityDetails {
    /// When it was created and last changed.
    pub(super) times: EntityTimes,
    /// When it was last used.
    pub(super) accessed_at: Option<Timestamp>,
    /// Numbers of its messages.
    pub(super) counts: Counts,
    /// Whether its stored data is damaged.
    pub(super) is_damaged: bool,
    /// Number of a topic's subscriptions.
    pub(super) subscriptions: usize,
    /// Number of their SQL filters.
    pub(super) sql_filters: usize,
    /// Number of their correlation filters.
    pub(super) correlation_filters: usize,
}

/// The element with the numbers of messages in each state.
const COUNT_DETAILS: &str = "CountDetails";

/// Produces the text of an element.
type Detail = fn(&EntityDetails) -> String;

/// The elements that hold a text.
const DETAILS: &[(&str, Detail)] = &[
    ("AccessedAt", |known| known.accessed_at.map_or_else(|| instant::NEVER.to_owned(), instant::text)),
    ("CorrelationFilterCount", |known| known.correlation_filters.to_string()),
    ("CreatedAt", |known| instant::text(known.times.created_at)),
    ("EntityAvailabilityStatus", |known| if known.is_damaged { "Unknown" } else { "Available" }.to_owned()),
    ("IsAnonymousAccessible", |_| "false".to_owned()),
    ("MessageCount", |known| message_count(&known.counts).to_string()),
    ("SizeInBytes", |known| known.counts.size_bytes.to_string()),
    ("SqlFilterCount", |known| known.sql_filters.to_string()),
    ("SubscriptionCount", |known| known.subscriptions.to_string()),
    ("UpdatedAt", |known| instant::text(known.times.updated_at)),
];

/// Elements added in later versions of the protocol, with the version. Clients with earlier versions neither get nor
/// send them.
const ADDED: &[(&str, &str)] = &[
    ("CorrelationFilterCount", "2024-05"),
    // Recordings of BasicRuleCrudOperations (2017-04, without it) and BasicSubscriptionCrudOperations (2021-05).
    ("IsClientAffine", "2021-05"),
    ("MaxMessageSizeInKilobytes", "2021-05"),
    ("SqlFilterCount", "2024-05"),
];

/// The version of the protocol that added an element; `None` for an original one.
pub(super) fn added_in(element: &str) -> Option<&'static str> {
    ADDED.iter().find(|(name, _)| *name == element).map(|(_, version)| *version)
}

/// Whether there is an element of this name.
#[cfg(test)]
pub(super) fn is_known(element: &str) -> bool {
    element == COUNT_DETAILS || DETAILS.iter().any(|(name, _)| *name == element)
}

impl EntityDetails {
    /// Writes the element of this name.
    pub(super) fn write(&self, document: &mut Document, element: &str) {
        if element == COUNT_DETAILS {
            write_counts(document, &self.counts);
        } else if let Some((_, text)) = DETAILS.iter().find(|(name, _)| *name == element) {
            document.text(element, &text(self));
        }
    }
}

/// Number of all messages in any state, including quarantined ones.
const fn message_count(counts: &Counts) -> u64 {
    let Counts { active, dead_letter, scheduled, transfer_dead_letter, quarantined, .. } = *counts;
    active + dead_letter + scheduled + transfer_dead_letter + quarantined
}

/// A message that is forwarded is in one of the two entities at any time, so the count of messages in transfer is 0.
fn write_counts(document: &mut Document, counts: &Counts) {
    document.element(COUNT_DETAILS, &[("xmlns:d2p1", COUNTS)], |document| {
        for (name, count) in [
            ("d2p1:ActiveMessageCount", counts.active),
            ("d2p1:DeadLetterMessageCount", counts.dead_letter),
            ("d2p1:ScheduledMessageCount", counts.scheduled),
            ("d2p1:TransferMessageCount", 0),
            ("d2p1:TransferDeadLetterMessageCount", counts.transfer_dead_letter),
        ] {
            document.text(name, &count.to_string());
        }
    });
}
