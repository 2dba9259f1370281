//! The message that a rule is asked about.

use crate::RuleProperties;

/// A message as rules see it, when it is published.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What was sent.
    pub rule_properties: &'a RuleProperties,
    /// What the broker knows of it.
    pub arrival: Arrival<'a>,
}

/// What the broker adds to a message that is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival<'a> {
    /// Its number in the topic.
    pub sequence_number: u64,
    /// Its number where it first entered the broker.
    pub enqueued_sequence_number: u64,
    /// When it was published, in milliseconds since 1970.
    pub enqueued_at_ms: u64,
    /// How long it lives in the topic, in milliseconds; `None` for no limit.
    pub time_to_live_ms: Option<u64>,
    /// When it was to become available, in milliseconds since 1970, if that was asked for.
    pub scheduled_enqueue_time_ms: Option<u64>,
    /// Its size as sent, in bytes.
    pub size_bytes: u64,
    /// The entity in which it was dead-lettered, if it was forwarded from there.
    pub dead_letter_source: Option<&'a str>,
}
