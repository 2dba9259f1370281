//! One entity (a queue, or a topic with its subscriptions) as a pure state machine: state, command, now, random →
//! events, effects.
//!
//! Only events change the state. Events, not commands, are stored, so the deciding code may change freely.
//!
//! - `step` and `handle/*` decide, one file per command; `timers`, `dispatch`, `ending` and `status` are shared by commands.
//! - Only `apply` writes `state`, which holds one `queue` for the entity and one for each subscription; `messages` (in chunks
//!   of 64), `locks` and `receivers` are parts of a queue, `policy` is derived from its options.
//! - `prepare` checks commands of joint steps; `unfinished` continues requests that take several calls.
//! - `selection` handles receivers with a selector, `forwarding` names the targets of forwarders.
//! - `idle` deletes what is unused for too long.
//! - `duplicates` remembers message ids for duplicate detection.
//! - `credible` corrects stored timestamps after the clock was wrong.
//! - `sessions` has the additional state of queues with sessions: an index by session, holders, session states.
//! - `topic` has the additional state of topics: the rules and the reference counts of bodies.
//! - [`persist()`] writes to the store and `restore` reads back; `crate::stored` is the format of the values.

mod apply;
mod chunk;
mod credible;
mod dispatch;
mod duplicates;
mod ending;
mod forwarding;
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
pub(crate) mod reasons;
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
mod unfinished;

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
pub(crate) use self::step::CHANGED_BYTES_PER_CALL_MAX;
use self::step::Step;
pub use self::unfinished::Unfinished;
use crate::{
    Command, Effect, EntityOptions, Event, QueueId, ReceiverId, RequestId, RuleLimits, SequenceNumber,
    SubQueue, Subscription, Timestamp,
};

/// The results of handling a command; reused from turn to turn.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Already applied to the state, in order.
    pub events: Vec<Event>,
    /// To be carried out in order, once the events they depend on are durable.
    pub effects: Vec<Effect>,
    /// Estimated size in bytes of writes that no command's own estimate includes: copies of messages, and the variable
    /// parts of records that timers change; summed up until the caller resets it.
    pub uncounted_bytes: usize,
    /// Number of visited entries and of steps of evaluated rules; summed up until the caller resets it.
    pub visits: usize,
    /// Requests that [`Partition::resume`] continues.
    pub unfinished: Vec<(RequestId, Unfinished)>,
    /// The rules' verdicts on the last message; kept to reuse the memory.
    verdicts: Vec<Verdict>,
}

/// A stored record that can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {number}: {reason}")]
pub struct RestoreError {
    /// The number of its key.
    pub number: u64,
    /// A description of the fault.
    pub reason: String,
}

/// Counts of a queue's messages, always current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Active, locked and deferred messages of the main queue.
    pub active: u64,
    /// How many of these are deferred.
    pub deferred: u64,
    /// Messages in the dead-letter queue.
    pub dead_letter: u64,
    /// Scheduled messages.
    pub scheduled: u64,
    /// Messages in the transfer dead-letter queue.
    pub transfer_dead_letter: u64,
    /// Messages out of delivery because their stored data is damaged.
    pub quarantined: u64,
    /// Total size of the stored bodies, in bytes.
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

/// Client activity on a queue or subscription. Only session states survive a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// Locked messages of the main queue, without deferred ones.
    pub locked: u64,
    /// Unused credit of receivers, in messages, without forwarders.
    pub credit: u64,
    /// Sessions without a holder that have available messages.
    pub sessions_waiting: u64,
    /// Sessions held by a receiver.
    pub sessions_locked: u64,
    /// Sessions with a state.
    pub sessions_with_state: u64,
}

impl Activity {
    /// Adds the activity of another queue.
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
    /// An empty entity. `id` is that of its storage partition.
    #[must_use]
    pub fn new(id: QueueId, options: impl Into<EntityOptions>) -> Self {
        Self::sharing(id, Arc::new(options.into()))
    }

    /// The same with shared options.
    pub(crate) fn sharing(id: QueueId, options: Arc<EntityOptions>) -> Self {
        Self { state: State::new(id, options), rule_limits: RuleLimits::default() }
    }

    /// Replaces the default limits on rules.
    #[must_use]
    pub const fn with_rule_limits(mut self, rule_limits: RuleLimits) -> Self {
        self.rule_limits = rule_limits;
        self
    }

    /// Keeps what the store may not know of `other`, the state before this one was read back: the numbers that it reserved,
    /// and the last uses.
    #[must_use]
    pub fn in_place_of(mut self, other: &Self) -> Self {
        self.state.numbers_reserved = other.state.numbers_reserved;
        let next = &mut self.state.entity.next_number;
        *next = self.state.numbers_reserved.max(*next);
        self.state.keep_uses_of(&other.state);
        self
    }

    /// Fires due timers, then carries out one command, then serves receivers. A large backlog of due timers is processed over
    /// several calls (meanwhile [`Self::next_deadline`] stays in the past).
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

    /// Applies the event of [`Command::ChangeOptions`] to a partition that has no actor yet. Nothing is attached to it, so the
    /// command would have no other immediate effect.
    pub(crate) fn follow_options(&mut self, options: Arc<EntityOptions>) {
        self.state.apply(&Event::OptionsChanged { options });
    }

    /// The earliest point in time at which [`Command::Tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.state.next_deadline()
    }

    /// The subscriptions of a topic.
    #[must_use]
    pub fn subscription_ids(&self) -> Vec<QueueId> {
        self.state.subscriptions.keys().copied().collect()
    }

    /// Present counts of the queue; for a topic, of the messages scheduled on it and its transfer dead letters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Rebuilds the state from everything stored in a partition's `Meta` and `Head` spaces (in key order): the live state
    /// without its volatile part. For a topic these are its own records and the list of its subscriptions, which
    /// [`Self::restore_subscription`] fills.
    ///
    /// # Errors
    /// [`RestoreError`] names the `Meta` record that can't be read; a bad `Head` record affects only its message, see
    /// [`Self::take_unread`].
    pub fn restore(
        id: QueueId,
        options: impl Into<EntityOptions>,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        Self::restore_credible(id, Arc::new(options.into()), Credible::ALL, meta, head)
    }

    /// Like [`Self::restore`], with shared options, for data stored while the clock was wrong; applies to subscriptions as well.
    ///
    /// # Errors
    /// [`RestoreError`] names the record that can't be read.
    pub(crate) fn restore_credible(
        id: QueueId,
        options: Arc<EntityOptions>,
        credible: Credible,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        let state = State::restore(id, options, credible, meta, head)?;
        Ok(Self { state, rule_limits: RuleLimits::default() })
    }

    /// The latest time of an event in the restored data; the epoch if there is none.
    #[must_use]
    pub const fn latest_restored(&self) -> Timestamp {
        self.state.latest_restored
    }

    /// Adds the data stored in the partition of one subscription. After the last of [`Self::subscriptions`],
    /// [`Self::restored`] must be called.
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

    /// Records that the value at a `Head` number of a queue or subscription is damaged. A message is quarantined.
    pub fn quarantine_stored(&mut self, queue: QueueId, number: u64) {
        self.state.quarantine_stored(queue, number);
    }

    /// Takes the list of `Head` records that could not be decoded when restoring. Their messages are quarantined.
    pub fn take_unread(&mut self) -> Vec<UnreadRecord> {
        std::mem::take(&mut self.state.unread)
    }

    /// Whether the entity has ended (idle or deleted), so that it accepts no commands any more.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.state.ended
    }

    /// Determines which bodies of a topic must be kept because unreadable records may refer to them; called after the last
    /// [`Self::quarantine_stored`].
    pub fn suspect_bodies(&mut self) {
        self.state.suspect_bodies();
    }

    /// Completes restoring, after every subscription was restored.
    pub fn restored(&mut self) {
        self.state.restored();
    }

    /// The subscriptions of a topic with their rules, in order of id.
    pub fn subscriptions(&self) -> impl Iterator<Item = &Arc<Subscription>> {
        self.state.topic.iter().flat_map(|topic| topic.subscriptions())
    }

    /// Takes the ids of subscriptions that changed or were deleted since the last call, each once, for the directory.
    pub fn take_changed(&mut self) -> Vec<QueueId> {
        self.state.take_changed()
    }

    /// Links to be notified when their entity is deleted, with that entity.
    #[must_use]
    pub fn watchers(&self) -> Vec<(ReceiverId, Watched)> {
        self.state.watchers.iter().map(|(watcher, watched)| (*watcher, *watched)).collect()
    }

    /// The queue or subscription that an open receiver reads from.
    #[must_use]
    pub fn source_of(&self, receiver: ReceiverId) -> Option<QueueId> {
        self.state.receiver_queues.get(&receiver).copied()
    }

    /// Whether the messages of a queue or subscription are received by session, in order within each session.
    #[must_use]
    pub fn has_sessions(&self, queue: QueueId) -> bool {
        self.state.queue(queue).is_some_and(|queue| queue.sessions.is_some())
    }

    /// Whether a queue or subscription has a message with this number.
    #[must_use]
    pub fn has_message(&self, queue: QueueId, number: SequenceNumber) -> bool {
        let queue = self.state.queue(queue);
        queue.is_some_and(|queue| queue.messages.each().iter().any(|messages| messages.get(number).is_some()))
    }

    /// Enqueued time of the first available message of a queue or subscription.
    #[must_use]
    pub fn oldest_available(&self, queue: QueueId) -> Option<Timestamp> {
        let messages = self.state.queue(queue)?.messages.get(SubQueue::Main);
        messages.first_available().map(|(_, record)| record.enqueued_at())
    }

    /// Present client activity on a queue or subscription.
    #[must_use]
    pub fn activity(&self, queue: QueueId) -> Activity {
        self.state.queue(queue).map(Queue::activity).unwrap_or_default()
    }

    /// Number of messages in the entity and in all subscriptions, with quarantined ones.
    pub(crate) fn message_count(&self) -> usize {
        let queues = self.state.subscriptions.values().chain([&self.state.entity]);
        queues.map(Queue::message_count).fold(0, usize::saturating_add)
    }

    /// Number of subscriptions.
    #[must_use]
    pub fn subscription_count(&self) -> usize {
        self.state.subscriptions.len()
    }

    /// One subscription of a topic.
    #[must_use]
    pub fn subscription(&self, id: QueueId) -> Option<&Arc<Subscription>> {
        self.state.topic.as_ref()?.subscription(id)
    }

    /// Present counts of a subscription; its `size_bytes` is 0, because the bodies belong to its topic.
    #[must_use]
    pub fn subscription_counts(&self, id: QueueId) -> Option<Counts> {
        Some(self.state.subscriptions.get(&id)?.counts())
    }
}
