//! A message that is published, before the rules are asked about it.

use std::sync::Arc;

use super::super::record::Extra;
use crate::{Arrival, BodyRef, Forwarded, KeyPartition, RuleProperties, SequenceNumber, Timestamp};

/// What the copies of a message have in common, and what rules see beside its [`RuleProperties`].
pub(super) struct Original {
    /// The topic's number for it.
    pub(super) number: SequenceNumber,
    /// The partition of a partitioned topic to which it belongs, and with it all copies.
    pub(super) partition: KeyPartition,
    /// Where its content is.
    pub(super) body: BodyRef,
    /// Length of that.
    pub(super) content_bytes: u32,
    /// The life it asks for.
    pub(super) time_to_live_ms: Option<u64>,
    /// When it was to become available, if that was asked for.
    pub(super) scheduled_enqueue_time: Option<Timestamp>,
    /// What rules see.
    pub(super) rule_properties: Option<Arc<RuleProperties>>,
    /// The rare facts of a copy that no action changed; they name the content.
    pub(super) extra: Arc<Extra>,
}

impl Original {
    /// What rules see beside the facts: `time_to_live_ms` is its life in the topic.
    pub(super) fn arrival(&self, now: Timestamp, time_to_live_ms: Option<u64>) -> Arrival<'_> {
        let arrival = Arrival {
            sequence_number: self.partition.shown(self.number).0,
            // As readers of copies are shown it.
            enqueued_sequence_number: self.partition.shown(SequenceNumber(self.body.0)).0,
            enqueued_at_ms: now.0,
            time_to_live_ms,
            scheduled_enqueue_time_ms: self.scheduled_enqueue_time.map(|at| at.0),
            size_bytes: u64::from(self.content_bytes),
            dead_letter_source: None,
        };
        on_its_way(arrival, self.extra.forwarded.as_deref())
    }
}

/// What rules see of a message that came from elsewhere: it keeps its first number, and where it was dead-lettered.
pub(super) fn on_its_way<'a>(arrival: Arrival<'a>, way: Option<&'a Forwarded>) -> Arrival<'a> {
    let Some(way) = way else { return arrival };
    Arrival {
        enqueued_sequence_number: way.enqueued_sequence_number.0,
        dead_letter_source: way.dead_letter_source.as_deref(),
        ..arrival
    }
}
