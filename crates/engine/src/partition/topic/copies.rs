//! Makes the copies of a message for the subscriptions of a topic (semantics §12.2): all rules are evaluated at once, and the
//! verdicts of each subscription become copies.
//!
//! In each subscription the copy for the rules without action comes first, then one for each rule with an action in the order
//! of the rules, then a dead-lettered one if a rule failed.

use std::sync::Arc;

use peeklock_rules::{Failure, SqlAction, Verdict};
use smallvec::SmallVec;

use super::super::policy::Policy;
use super::super::properties::{changes_bytes, exceeds_header};
use super::super::queue::Queue;
use super::super::record::{Extra, Record};
use super::super::state::State;
use super::super::step::{Step, VISITS_PER_COPY};
use super::changed::{changed, named};
use super::original::Original;
use crate::event::SubscriptionCopy;
use crate::{
    DeadLetter, MessageState, QueueId, Rule, RuleProperties, SequenceNumber, SubQueue, Subject, Subscription,
};

/// Estimated stored size of a copy's record in bytes, without its unshared parts; keeps batches small.
const COPY_BYTES_ESTIMATE: usize = 64;

/// Maximum length of a failure's description, in bytes; equals the limit for reasons set by SDKs.
const DESCRIPTION_BYTES_MAX: usize = 4096;

/// All copies of a message.
pub(super) type Copies = SmallVec<[SubscriptionCopy; 1]>;

impl Step<'_> {
    /// Evaluates all rules for a message and makes its copies.
    pub(super) fn copies(&mut self, original: &Original) -> Copies {
        let (now, changed_bytes_left) = (self.now, self.changed_bytes_left);
        let (state, random, outputs) = self.parts();
        let Some(topic) = &state.topic else { return Copies::new() };
        let mut new_id = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        // The minimum of the message's, the topic's and the subscription's time to live counts (S-16).
        let time_to_live_ms = state.entity.policy.effective_time_to_live_ms(original.time_to_live_ms);
        let nothing = RuleProperties::default();
        let rule_properties = original.rule_properties.as_deref().unwrap_or(&nothing);
        let subject = Subject { rule_properties, arrival: original.arrival(now, time_to_live_ms) };
        outputs.verdicts.clear();
        let steps = topic.index().ask(&subject, &mut new_id, &mut outputs.verdicts);
        // There are at most as many copies as verdicts.
        let copying = outputs.verdicts.len().saturating_mul(VISITS_PER_COPY);
        outputs.visits = outputs.visits.saturating_add(steps).saturating_add(copying);
        let copies = Copies::with_capacity(outputs.verdicts.len());
        let mut copier = Copier {
            state,
            original,
            subject,
            new_id: &mut new_id,
            without_session: None,
            changed_bytes_left,
            copies,
        };
        for verdicts in outputs.verdicts.chunk_by(|one, other| one.place.group == other.place.group) {
            let Some(id) = verdicts.first().map(|first| QueueId(first.place.group)) else { continue };
            if let (Some(subscription), Some(queue)) = (topic.subscription(id), state.queue(id)) {
                copier.serve(subscription, queue, verdicts);
            }
        }
        let Copier { copies, changed_bytes_left: left, .. } = copier;
        outputs.uncounted_bytes += copies.len() * COPY_BYTES_ESTIMATE + (changed_bytes_left - left);
        self.changed_bytes_left = left;
        copies
    }
}

/// Makes the copies of one message.
struct Copier<'a> {
    state: &'a State,
    original: &'a Original,
    subject: Subject<'a>,
    new_id: &'a mut dyn FnMut() -> u128,
    /// Shared optional fields for subscriptions with sessions, when the message has no session id.
    without_session: Option<Arc<Extra>>,
    /// Remaining bytes for unshared parts of copies.
    changed_bytes_left: usize,
    copies: Copies,
}

impl Copier<'_> {
    /// Makes the copies of one subscription. The first rule that fails, in the order of the rules, determines the failure
    /// (inferred).
    fn serve(&mut self, subscription: &Subscription, queue: &Queue, verdicts: &[Verdict]) {
        let rule = |verdict: &Verdict| subscription.rules.get(verdict.place.position as usize);
        let is_plain = |verdict: &&Verdict| {
            verdict.failure.is_none() && rule(verdict).is_some_and(|rule| rule.action.is_none())
        };
        if verdicts.iter().find(is_plain).is_some() {
            self.plain(queue);
        }
        let mut failed: Option<Failure> = None;
        for verdict in verdicts {
            let Some(rule) = rule(verdict) else { continue };
            let outcome = match (&verdict.failure, &rule.action) {
                (Some(failure), _) => Err(failure.clone()),
                (None, None) => Ok(()),
                (None, Some(action)) => self.act(queue, rule, action),
            };
            failed = failed.or(outcome.err());
        }
        if let Some(failure) = failed
            && subscription.options.dead_lettering_on_filter_evaluation_exceptions
        {
            self.fail(queue, failure);
        }
    }

    /// Makes an unchanged copy.
    fn plain(&mut self, queue: &Queue) {
        let extra = Arc::clone(&self.original.extra);
        self.put(queue, extra, self.original.time_to_live_ms);
    }

    /// Makes a copy changed by an action; it names the rule. A copy whose header becomes too large is dead-lettered unchanged
    /// (semantics §9).
    fn act(&mut self, queue: &Queue, rule: &Rule, action: &SqlAction) -> Result<(), Failure> {
        let changes =
            named(action.changes(&self.subject, self.new_id)?, &rule.name, self.subject.rule_properties);
        let time_to_live_ms = changes.time_to_live_ms.unwrap_or(self.original.time_to_live_ms);
        let extra = changed(&self.original.extra, changes);
        let own_bytes = extra.changes.as_deref().map_or(0, changes_bytes);
        let modified = extra.modified.as_ref().map_or(&[][..], |modified| modified.as_slice());
        let is_too_large = exceeds_header(Some(&extra), modified, extra.dead_letter.as_deref());
        if is_too_large || own_bytes > self.changed_bytes_left {
            let reason = Arc::clone(&queue.policy.reasons.header_size_exceeded().dead_letter);
            self.dead(queue, reason);
        } else {
            self.changed_bytes_left -= own_bytes;
            self.put(queue, Arc::new(extra), time_to_live_ms);
        }
        Ok(())
    }

    /// Makes an unchanged, dead-lettered copy for a subscription with a failed rule.
    fn fail(&mut self, queue: &Queue, Failure { kind, mut text }: Failure) {
        cut(&mut text, DESCRIPTION_BYTES_MAX.min(self.changed_bytes_left));
        self.changed_bytes_left = self.changed_bytes_left.saturating_sub(text.len());
        self.dead(queue, Arc::new(DeadLetter { reason: Some(kind.into()), description: Some(text.into()) }));
    }

    fn dead(&mut self, queue: &Queue, why: Arc<DeadLetter>) {
        let extra = Extra { dead_letter: Some(why), ..Extra::clone(&self.original.extra) };
        let mut record = self.record(&queue.policy, self.original.time_to_live_ms);
        record.set_place(SubQueue::DeadLetter, MessageState::Active);
        record.set_extra(Some(Arc::new(extra)));
        self.push(queue, record);
    }

    /// Adds a copy; it is dead-lettered if it lacks a required session id.
    fn put(&mut self, queue: &Queue, extra: Arc<Extra>, time_to_live_ms: Option<u64>) {
        let policy = &queue.policy;
        let mut record = self.record(policy, time_to_live_ms);
        if policy.requires_session && extra.session_id.is_none() {
            record.set_place(SubQueue::DeadLetter, MessageState::Active);
            record.set_extra(Some(
                self.without_session(&policy.reasons.session_id_missing().dead_letter, extra),
            ));
        } else {
            record.set_extra(Some(extra));
        }
        self.push(queue, record);
    }

    /// The record of a copy, with a time to live limited by topic and subscription.
    fn record(&self, policy: &Policy, time_to_live_ms: Option<u64>) -> Record {
        let in_topic_ms = self.state.entity.policy.effective_time_to_live_ms(time_to_live_ms);
        let enqueued_at = crate::Timestamp(self.subject.arrival.enqueued_at_ms);
        let time_to_live_ms = policy.effective_time_to_live_ms(in_topic_ms);
        let mut record = Record::new(enqueued_at, time_to_live_ms, self.original.content_bytes);
        record.set_partition(self.original.partition);
        record
    }

    /// The optional fields of a copy without session id; unchanged copies share them.
    fn without_session(&mut self, why: &Arc<DeadLetter>, extra: Arc<Extra>) -> Arc<Extra> {
        let dead =
            |extra: &Extra| Arc::new(Extra { dead_letter: Some(Arc::clone(why)), ..Extra::clone(extra) });
        if !Arc::ptr_eq(&extra, &self.original.extra) {
            return dead(&extra);
        }
        Arc::clone(self.without_session.get_or_insert_with(|| dead(&extra)))
    }

    fn push(&mut self, queue: &Queue, record: Record) {
        let number = match self.copies.last() {
            // The subscription has another copy of this message already.
            Some(last) if last.queue == queue.id => SequenceNumber(last.number.0.saturating_add(1)),
            _ => queue.next_number,
        };
        self.copies.push(SubscriptionCopy { queue: queue.id, number, record });
    }
}

/// Shortens a text to at most `bytes_max` bytes at a character boundary.
fn cut(text: &mut String, bytes_max: usize) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
