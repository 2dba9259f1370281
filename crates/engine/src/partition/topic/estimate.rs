//! How much publishing writes, asked before anything is decided.

use super::super::Partition;
use super::super::step::CHANGED_BYTES_PER_CALL_MAX;
use crate::{Arrival, Facts, NewMessage, Subject, Timestamp};

impl Partition {
    /// Most copies that a message may come to; 0 in a queue.
    pub(crate) fn copies_max(&self) -> usize {
        let Some(topic) = &self.state.topic else { return 0 };
        // One for all rules without action, one for each action, one for those that fail.
        let subscriptions = topic.subscriptions().len();
        subscriptions + topic.filters().actions + if topic.may_change() { subscriptions } else { 0 }
    }

    /// Most that the copies of one command may take together that have something of their own, in bytes.
    pub(crate) fn changed_bytes_max(&self) -> usize {
        let may_change = self.state.topic.as_ref().is_some_and(|topic| topic.may_change());
        if may_change { CHANGED_BYTES_PER_CALL_MAX } else { 0 }
    }

    /// About how many copies a message comes to that is published now after so many others.
    pub(crate) fn count_copies(&self, now: Timestamp, others: usize, message: &NewMessage) -> usize {
        let Some(topic) = &self.state.topic else { return 0 };
        if message.scheduled_enqueue_time.is_some_and(|at| at > now) {
            return 0;
        }
        let nothing = Facts::default();
        let number = self.state.entity.next_number.0.saturating_add(others as u64);
        let arrival = Arrival {
            sequence_number: number,
            enqueued_sequence_number: number,
            enqueued_at_ms: now.0,
            time_to_live_ms: message.time_to_live_ms,
            size_bytes: message.content.len() as u64,
            ..Arrival::default()
        };
        let subject = Subject { facts: message.facts.as_deref().unwrap_or(&nothing), arrival };
        let mut verdicts = Vec::new();
        topic.index().ask(&subject, &mut || 0, &mut verdicts);
        verdicts.len()
    }
}
