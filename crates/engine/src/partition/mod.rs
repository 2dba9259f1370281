//! One entity (a queue, or a topic with its subscriptions) as a pure state machine: state, command, now, random →
//! events, effects.
//!
//! Only events change state. What is stored are events, as facts; deciding code may change freely.
//!
//! - `step` and `handle/*` decide, one file per command; `timers`, `dispatch`, `ending` and
//!   `status` are what commands share.
//! - `apply` alone writes `state`, which holds one `queue` for the entity and one for each subscription; `messages` (in
//!   chunks of 64), `locks` and `receivers` are its parts, `policy` is what options come to.
//! - `selection` is what receivers with a selector want.
//! - `duplicates` is which message ids were accepted lately, where that matters.
//! - `credible` is which stored instants count after the clock was wrong.
//! - `sessions` is what queues with sessions have besides: an index by session, who holds which, their states.
//! - `topic` is what a topic has beside its queues: the rules and the references to its contents.
//! - [`persist()`] and `restore` go to the store and back; `crate::stored` is the format of the values.

mod apply;
mod chunk;
mod credible;
mod dispatch;
mod duplicates;
mod ending;
mod handle;
mod idle;
mod locks;
mod messages;
mod per_sub_queue;
mod persist;
mod policy;
mod prepare;
mod properties;
mod queue;
mod reasons;
mod receivers;
pub(crate) mod record;
mod restore;
mod selection;
mod sessions;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod timers;
mod topic;

use std::sync::Arc;

use peeklock_rules::Verdict;
use peeklock_storage::Entry;
use rand::Rng;

pub use self::credible::Credible;
pub use self::persist::{persist, touch};
pub(crate) use self::properties::changes_bytes;
use self::queue::Queue;
pub use self::record::Record;
pub use self::restore::UnreadRecord;
pub use self::selection::SelectionChange;
use self::state::State;
pub use self::state::Watched;
use self::step::Step;
use crate::{
    Command, Effect, EntityOptions, Event, Forwarding, QueueId, QueuePath, ReceiverId, RequestId, RuleLimits,
    SequenceNumber, SubQueue, Subscription, Timestamp,
};

/// What handling produced; reused from turn to turn.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Already applied to the state, in order.
    pub events: Vec<Event>,
    /// Requests, to be carried out once the events are durable, in order.
    pub effects: Vec<Effect>,
    /// What the copies of messages take in the store, in bytes: an estimate, summed up until whoever stores them takes it.
    pub copies_bytes: usize,
    /// What rules said of the last message; kept for its memory only.
    verdicts: Vec<Verdict>,
}

/// A stored record that can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {number}: {reason}")]
pub struct RestoreError {
    /// The number of its key.
    pub number: u64,
    /// What is wrong.
    pub reason: String,
}

/// Numbers about a partition, always current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Active, locked and deferred messages of the main queue.
    pub active: u64,
    /// Those of them that are deferred.
    pub deferred: u64,
    /// Messages in the dead-letter queue.
    pub dead_letter: u64,
    /// Scheduled messages.
    pub scheduled: u64,
    /// Messages in the transfer dead-letter queue.
    pub transfer_dead_letter: u64,
    /// Messages out of delivery because what is stored of them is damaged.
    pub quarantined: u64,
    /// Sum of the stored contents, in bytes.
    pub size_bytes: u64,
}

impl Counts {
    /// Adds the counts of another queue.
    pub const fn add(&mut self, other: Self) {
        self.active += other.active;
        self.deferred += other.deferred;
        self.dead_letter += other.dead_letter;
        self.scheduled += other.scheduled;
        self.transfer_dead_letter += other.transfer_dead_letter;
        self.quarantined += other.quarantined;
        self.size_bytes += other.size_bytes;
    }
}

/// What clients do with a queue or subscription now; nothing of it outlives a restart but the states of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// Messages of the main queue that are locked, deferred ones apart.
    pub locked: u64,
    /// Messages that receivers have credit for and did not get, those that forward apart.
    pub credit: u64,
    /// Sessions that nobody holds although something is available.
    pub sessions_waiting: u64,
    /// Sessions that a receiver holds.
    pub sessions_locked: u64,
    /// Sessions with a state.
    pub sessions_with_state: u64,
}

impl Activity {
    /// Adds what happens in another queue.
    pub const fn add(&mut self, other: Self) {
        self.locked += other.locked;
        self.credit = self.credit.saturating_add(other.credit);
        self.sessions_waiting += other.sessions_waiting;
        self.sessions_locked += other.sessions_locked;
        self.sessions_with_state += other.sessions_with_state;
    }
}

/// The state of one entity: a queue, or a topic with its subscriptions.
#[derive(Debug)]
pub struct Partition {
    rule_limits: RuleLimits,
    state: State,
}

impl Partition {
    /// An empty entity. `id` is that of the storage partition it lives in.
    #[must_use]
    pub fn new(id: QueueId, options: impl Into<EntityOptions>) -> Self {
        Self::sharing(id, Arc::new(options.into()))
    }

    /// The same with options that others share.
    pub(crate) fn sharing(id: QueueId, options: Arc<EntityOptions>) -> Self {
        Self { state: State::new(id, options), rule_limits: RuleLimits::default() }
    }

    /// The same with other limits of rules than the default ones.
    #[must_use]
    pub const fn with_rule_limits(mut self, rule_limits: RuleLimits) -> Self {
        self.rule_limits = rule_limits;
        self
    }

    /// The same, but no number that `other` reserved is given out again: the store may know nothing of it.
    #[must_use]
    pub fn with_numbers_of(mut self, other: &Self) -> Self {
        self.state.numbers_reserved = other.state.numbers_reserved;
        let next = &mut self.state.entity.next_number;
        *next = self.state.numbers_reserved.max(*next);
        self
    }

    /// Fires due timers, then carries out one command, then serves receivers. Work is bounded: a large backlog of
    /// due timers is worked off over several calls ([`Self::next_deadline`] stays in the past meanwhile).
    pub fn handle(
        &mut self,
        now: Timestamp,
        random: &mut dyn Rng,
        request: Option<RequestId>,
        command: Command,
        outputs: &mut Outputs,
    ) {
        Step::new(now, &self.rule_limits, &mut self.state, random, outputs).run(request, command);
    }

    /// Lets the event of [`Command::ChangeOptions`] happen to a partition to which nothing is attached, because it has no actor
    /// yet: nothing else follows from the command at once.
    pub(crate) fn follow_options(&mut self, options: Arc<EntityOptions>) {
        self.state.apply(&Event::OptionsChanged { options });
    }

    /// Whether anything goes on from here to other entities.
    #[must_use]
    pub fn is_forwarding(&self) -> bool {
        let subscriptions = self.state.subscriptions.values();
        std::iter::once(&self.state.entity).chain(subscriptions).any(|queue| queue.policy.is_forwarding())
    }

    /// What goes on from here, and the names of the targets, if that may have changed since this was last asked.
    pub fn take_forwarding(&mut self) -> Option<Vec<(QueuePath, Box<str>)>> {
        if !std::mem::take(&mut self.state.forwarding_changed) {
            return None;
        }
        let mut found = Vec::new();
        // What is not to give keeps what it has.
        if !self.state.options.status().gives() {
            return Some(found);
        }
        if let EntityOptions::Queue(queue) = &*self.state.options {
            note_targets(self.state.entity.id, &queue.forwarding, &mut found);
        }
        for subscription in self.subscriptions().filter(|subscription| subscription.options.status.gives()) {
            note_targets(subscription.queue, &subscription.options.forwarding, &mut found);
        }
        Some(found)
    }

    /// The earliest instant at which [`Command::Tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.state.next_deadline()
    }

    /// The subscriptions of a topic.
    #[must_use]
    pub fn subscription_ids(&self) -> Vec<QueueId> {
        self.state.subscriptions.keys().copied().collect()
    }

    /// Current counts of the queue; of a topic, what is scheduled on it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Rebuilds the state from everything stored under a partition's `Meta` and `Head` spaces (in key order): the
    /// live state less its volatile part. Of a topic this is the topic itself and the list of its subscriptions, which
    /// [`Self::restore_subscription`] fills.
    ///
    /// # Errors
    /// [`RestoreError`] names the `Meta` record that can't be read; others cost their message, see [`Self::take_unread`].
    pub fn restore(
        id: QueueId,
        options: impl Into<EntityOptions>,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        Self::restore_credible(id, options, Credible::ALL, meta, head)
    }

    /// [`Self::restore`] of what was stored by a clock that was wrong for a while; subscriptions likewise.
    ///
    /// # Errors
    /// [`RestoreError`] names the record that can't be read.
    pub fn restore_credible(
        id: QueueId,
        options: impl Into<EntityOptions>,
        credible: Credible,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        let state = State::restore(id, Arc::new(options.into()), credible, meta, head)?;
        Ok(Self { state, rule_limits: RuleLimits::default() })
    }

    /// The latest instant at which something happened of what was read back; the epoch if there is none.
    #[must_use]
    pub const fn latest_restored(&self) -> Timestamp {
        self.state.latest_restored
    }

    /// Adds what is stored under the partition of one subscription. Once those of all [`Self::subscriptions`] are
    /// there, [`Self::restored`] is to be called.
    ///
    /// # Errors
    /// [`RestoreError`] names the record that can't be read.
    pub fn restore_subscription(
        &mut self,
        id: QueueId,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<(), RestoreError> {
        self.state.restore_subscription(id, meta, head)
    }

    /// Notes that what is stored under a `Head` number of a queue or subscription is damaged. A message goes into
    /// quarantine.
    pub fn quarantine_stored(&mut self, queue: QueueId, number: u64) {
        self.state.quarantine_stored(queue, number);
    }

    /// The `Head` records that restoring could not understand, once. Their messages are in quarantine.
    pub fn take_unread(&mut self) -> Vec<UnreadRecord> {
        std::mem::take(&mut self.state.unread)
    }

    /// Whether the entity was idle for as long as it may be: it takes no commands any more.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.state.ended
    }

    /// Says that every subscription has been read back.
    pub fn restored(&mut self) {
        self.state.restored();
    }

    /// The subscriptions of a topic with their rules, in order of id.
    pub fn subscriptions(&self) -> impl Iterator<Item = &Arc<Subscription>> {
        self.state.topic.iter().flat_map(|topic| topic.subscriptions())
    }

    /// Subscriptions that changed or went since this was last asked, each once: what a directory has to look at.
    pub fn take_changed(&mut self) -> Vec<QueueId> {
        self.state.take_changed()
    }

    /// Links that want to know when what they are attached to is deleted, and what that is.
    #[must_use]
    pub fn watchers(&self) -> Vec<(ReceiverId, Watched)> {
        self.state.watchers.iter().map(|(watcher, watched)| (*watcher, *watched)).collect()
    }

    /// Where an open receiver reads.
    #[must_use]
    pub fn home(&self, receiver: ReceiverId) -> Option<QueueId> {
        self.state.homes.get(&receiver).copied()
    }

    /// Whether the messages of a queue or subscription are received by session, each session's in order.
    #[must_use]
    pub fn has_sessions(&self, queue: QueueId) -> bool {
        self.state.queue(queue).is_some_and(|queue| queue.sessions.is_some())
    }

    /// Whether a message rests in a queue or subscription.
    #[must_use]
    pub fn has_message(&self, queue: QueueId, number: SequenceNumber) -> bool {
        let queue = self.state.queue(queue);
        queue.is_some_and(|queue| queue.messages.each().iter().any(|messages| messages.get(number).is_some()))
    }

    /// When the first message that a receiver could get now was enqueued, of a queue or subscription.
    #[must_use]
    pub fn oldest_available(&self, queue: QueueId) -> Option<Timestamp> {
        let messages = self.state.queue(queue)?.messages.get(SubQueue::Main);
        messages.first_available().map(|(_, record)| record.enqueued_at())
    }

    /// What clients do with a queue or subscription now.
    #[must_use]
    pub fn activity(&self, queue: QueueId) -> Activity {
        self.state.queue(queue).map(Queue::activity).unwrap_or_default()
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn subscription_count(&self) -> usize {
        self.state.subscriptions.len()
    }

    /// One subscription of a topic.
    #[must_use]
    pub fn subscription(&self, id: QueueId) -> Option<&Arc<Subscription>> {
        self.state.topic.as_ref()?.subscription(id)
    }

    /// Current counts of a subscription; its `size_bytes` is 0, because contents are its topic's.
    #[must_use]
    pub fn subscription_counts(&self, id: QueueId) -> Option<Counts> {
        Some(self.state.subscriptions.get(&id)?.counts())
    }
}

/// Adds what goes on from a queue or subscription, and to whom.
fn note_targets(queue: QueueId, forwarding: &Forwarding, to: &mut Vec<(QueuePath, Box<str>)>) {
    let targets = [
        (SubQueue::Main, &forwarding.forward_to),
        (SubQueue::DeadLetter, &forwarding.forward_dead_lettered_messages_to),
    ];
    for (sub_queue, target) in targets {
        to.extend(target.clone().map(|target| (QueuePath { queue, sub_queue }, target)));
    }
}
