//! The message for which rules are evaluated.

use crate::RuleProperties;

/// A message as seen by rules when it is published.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The sent properties.
    pub rule_properties: &'a RuleProperties,
    /// The data known to the broker.
    pub arrival: Arrival<'a>,
}

/// Data added by the broker when a message is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival<'a> {
    /// Its sequence number in the topic.
    pub sequence_number: u64,
    /// Its sequence number in the entity that it first entered.
    pub enqueued_sequence_number: u64,
    /// When it was published, in milliseconds since 1970.
    pub enqueued_at_ms: u64,
    /// Its time-to-live in the topic, in milliseconds; `None` for no limit.
    pub time_to_live_ms: Option<u64>,
    /// The scheduled enqueue time in milliseconds since 1970, if one was set.
    pub scheduled_enqueue_time_ms: Option<u64>,
    /// Its size as sent, in bytes.
    pub size_bytes: u64,
    /// The entity in which it was dead-lettered, if it was forwarded from there.
    pub dead_letter_source: Option<&'a str>,
}
