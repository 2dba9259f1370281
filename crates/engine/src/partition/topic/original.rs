//! A message to be published, before the rules are evaluated.

use std::sync::Arc;

use super::super::record::Extra;
use crate::{Arrival, BodyRef, Forwarded, KeyPartition, RuleProperties, SequenceNumber, Timestamp};

/// The common properties of a message's copies, and what rules see in addition to its [`RuleProperties`].
pub(super) struct Original {
    /// Its number in the topic.
    pub(super) number: SequenceNumber,
    /// The message's partition in a partitioned topic, also that of its copies.
    pub(super) partition: KeyPartition,
    /// Its body.
    pub(super) body: BodyRef,
    /// Length of the body.
    pub(super) content_bytes: u32,
    /// Its requested time to live.
    pub(super) time_to_live_ms: Option<u64>,
    /// Its scheduled enqueue time, if it was scheduled.
    pub(super) scheduled_enqueue_time: Option<Timestamp>,
    /// The properties that rules evaluate.
    pub(super) rule_properties: Option<Arc<RuleProperties>>,
    /// The optional fields of an unchanged copy, including the body's number.
    pub(super) extra: Arc<Extra>,
}

impl Original {
    /// The system properties for the rules; `time_to_live_ms` is the time to live in the topic.
    pub(super) fn arrival(&self, now: Timestamp, time_to_live_ms: Option<u64>) -> Arrival<'_> {
        let arrival = Arrival {
            sequence_number: self.partition.shown(self.number).0,
            // As receivers of copies see it.
            enqueued_sequence_number: self.partition.shown(SequenceNumber(self.body.0)).0,
            enqueued_at_ms: now.0,
            time_to_live_ms,
            scheduled_enqueue_time_ms: self.scheduled_enqueue_time.map(|at| at.0),
            size_bytes: u64::from(self.content_bytes),
            dead_letter_source: None,
        };
        with_forwarding_info(arrival, self.extra.forwarded.as_deref())
    }
}

/// The system properties of a forwarded message: it keeps its original number and its dead-letter source.
pub(super) fn with_forwarding_info<'a>(arrival: Arrival<'a>, way: Option<&'a Forwarded>) -> Arrival<'a> {
    let Some(way) = way else { return arrival };
    Arrival {
        enqueued_sequence_number: way.enqueued_sequence_number.0,
        dead_letter_source: way.dead_letter_source.as_deref(),
        ..arrival
    }
}
