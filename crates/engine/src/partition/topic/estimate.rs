//! Estimates how much publishing writes, before anything is decided.

use super::super::Partition;
use super::super::queue::Queue;
use super::super::step::CHANGED_BYTES_PER_CALL_MAX;
use super::original::with_forwarding_info;
use crate::{Arrival, NewMessage, QueueId, RuleProperties, Subject, Timestamp};

impl Partition {
    /// Maximum number of copies of one message; 0 in a queue.
    pub(crate) fn copies_max(&self) -> usize {
        let Some(topic) = &self.state.topic else { return 0 };
        // One for the rules without action, one for each action, one for failed rules.
        let subscriptions = topic.subscriptions().len();
        subscriptions + topic.filters().actions + if topic.may_change() { subscriptions } else { 0 }
    }

    /// Upper estimate of the visits (see [`crate::partition::Outputs`]) of publishing messages; 0 in a queue.
    pub(crate) fn publishing_visits(&self, messages: &[NewMessage]) -> usize {
        let Some(topic) = &self.state.topic else { return 0 };
        let steps_max = |message: &NewMessage| topic.index().steps_max(message.header_bytes as usize);
        let copies_max = self.copies_max().saturating_mul(messages.len());
        messages.iter().map(steps_max).fold(copies_max, usize::saturating_add)
    }

    /// Visits of the deletion of a subscription: all its messages.
    pub(crate) fn deleting_visits(&self, subscription: QueueId) -> usize {
        self.state.subscriptions.get(&subscription).map_or(0, Queue::message_count)
    }

    /// Maximum total size of unshared parts of the copies of one command, in bytes.
    pub(crate) fn changed_bytes_max(&self) -> usize {
        let may_change = self.state.topic.as_ref().is_some_and(|topic| topic.may_change());
        if may_change { CHANGED_BYTES_PER_CALL_MAX } else { 0 }
    }

    /// Estimates the number of copies of a message published now after `others` other messages.
    pub(crate) fn count_copies(&self, now: Timestamp, others: usize, message: &NewMessage) -> usize {
        let Some(topic) = &self.state.topic else { return 0 };
        if message.scheduled_enqueue_time.is_some_and(|at| at > now) {
            return 0;
        }
        let nothing = RuleProperties::default();
        let number = self.state.entity.next_number.0.saturating_add(others as u64);
        let arrival = Arrival {
            sequence_number: number,
            enqueued_sequence_number: number,
            enqueued_at_ms: now.0,
            time_to_live_ms: self.state.entity.policy.effective_time_to_live_ms(message.asked_life_ms(now)),
            scheduled_enqueue_time_ms: message.scheduled_enqueue_time.map(|at| at.0),
            size_bytes: message.content.len() as u64,
            dead_letter_source: None,
        };
        let arrival =
            with_forwarding_info(arrival, message.origin.as_deref().map(|origin| &*origin.forwarded));
        let subject =
            Subject { rule_properties: message.rule_properties.as_deref().unwrap_or(&nothing), arrival };
        let (mut verdicts, mut ids) = (Vec::new(), Ids(number.into()));
        topic.index().ask(&subject, &mut || ids.next(), &mut verdicts);
        verdicts.len()
    }
}

/// Ids that look random: with constant ones, a rule that evaluates random ids could match differently in the estimate than in
/// the publication.
struct Ids(u128);

impl Ids {
    /// One step of a linear congruential generator.
    fn next(&mut self) -> u128 {
        const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;
        const INCREMENT: u128 = 0x5851_F42D_4C95_7F2D_1405_7B7E_F767_814F;
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        self.0
    }
}
