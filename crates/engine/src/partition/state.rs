//! The state of a partition. Only [`super::apply`] changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Counts;
use super::credible::Credible;
use super::duplicates::Duplicates;
use super::locks::Locks;
use super::policy::Policy;
use super::queue::Queue;
use super::record::Record;
use super::restore::UnreadRecord;
use super::topic::Topic;
use crate::{BodyRef, EntityOptions, LockToken, QueueId, ReceiverId, SequenceNumber, SubQueue, Timestamp};

/// The registration of a link that receives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// The entity or subscription it is attached to.
    pub queue: QueueId,
    /// Whether it sends messages.
    pub sends: bool,
}

/// The state of one entity: a queue, or a topic with its subscriptions.
#[derive(Debug)]
pub(super) struct State {
    /// Options of the queue or topic, as stored by the catalogue.
    pub(super) options: Arc<EntityOptions>,
    /// The queue itself; for a topic, the messages scheduled on it and its transfer dead letters.
    pub(super) entity: Queue,
    /// The subscriptions of a topic.
    pub(super) subscriptions: BTreeMap<QueueId, Queue>,
    /// The additional state of a topic.
    pub(super) topic: Option<Box<Topic>>,
    /// Recently accepted message ids, with duplicate detection.
    pub(super) duplicates: Option<Box<Duplicates>>,
    /// Total size of all bodies and session states, in bytes.
    pub(super) size_bytes: u64,
    /// Locks held.
    pub(super) locks: Locks,
    /// The queue or subscription of each open receiver.
    pub(super) receiver_queues: BTreeMap<ReceiverId, QueueId>,
    /// Links to be notified when their entity is deleted.
    pub(super) watchers: BTreeMap<ReceiverId, Watched>,
    /// Queues to be processed before the command is done.
    touched: Vec<QueueId>,
    /// Subscriptions that changed or were deleted since [`Self::take_changed`].
    changed: Vec<QueueId>,
    /// Deadlines of the subscriptions.
    deadlines: BTreeSet<(Timestamp, QueueId)>,
    /// Tombstones of forwarded messages that a crash of an earlier version left behind, with the number and size of their
    /// bodies.
    pub(super) tombstones: BTreeMap<(QueueId, SequenceNumber), (BodyRef, u32)>,
    /// Lower bound for the next number: smaller ones may be reserved for messages still to come.
    pub(super) numbers_reserved: SequenceNumber,
    /// Whether the forwarding targets may have changed since they were last taken.
    pub(super) forwarding_changed: bool,
    /// Stored records that could not be decoded, until they are taken.
    pub(super) unread: Vec<UnreadRecord>,
    /// Whether the entity is about to be deleted.
    pub(super) ended: bool,
    /// Whether messages scheduled on a topic are held although they are due.
    pub(super) holds_publications: bool,
    /// Which stored timestamps are valid, while the state is restored.
    pub(super) credible: Credible,
    /// The latest time of an event in the restored data.
    pub(super) latest_restored: Timestamp,
    /// Number of times that a queue was processed.
    #[cfg(test)]
    pub(super) times_processed: usize,
}

impl State {
    /// The state of an empty entity.
    pub(super) fn new(id: QueueId, options: Arc<EntityOptions>) -> Self {
        Self {
            entity: Queue::new(id, Policy::from(&*options)),
            subscriptions: BTreeMap::new(),
            topic: matches!(*options, EntityOptions::Topic(_)).then(Box::default),
            duplicates: options.requires_duplicate_detection().then(Box::default),
            options,
            size_bytes: 0,
            locks: Locks::default(),
            receiver_queues: BTreeMap::new(),
            watchers: BTreeMap::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            deadlines: BTreeSet::new(),
            tombstones: BTreeMap::new(),
            numbers_reserved: SequenceNumber(0),
            forwarding_changed: true,
            unread: Vec::new(),
            ended: false,
            holds_publications: false,
            credible: Credible::ALL,
            latest_restored: Timestamp::default(),
            #[cfg(test)]
            times_processed: 0,
        }
    }

    /// A queue or subscription.
    pub(super) fn queue(&self, id: QueueId) -> Option<&Queue> {
        if id == self.entity.id { Some(&self.entity) } else { self.subscriptions.get(&id) }
    }

    /// A queue or subscription that is about to change: it is processed before the command is done.
    pub(super) fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        let queue = if id == self.entity.id { &mut self.entity } else { self.subscriptions.get_mut(&id)? };
        if !queue.touched {
            queue.touched = true;
            self.touched.push(id);
        }
        Some(queue)
    }

    /// One message.
    pub(super) fn record(
        &self,
        queue: QueueId,
        sub_queue: SubQueue,
        number: SequenceNumber,
    ) -> Option<&Record> {
        self.queue(queue)?.messages.get(sub_queue).get(number)
    }

    /// The queue or subscription that an open receiver reads from.
    pub(super) fn source_of(&self, receiver: ReceiverId) -> Option<&Queue> {
        self.queue(*self.receiver_queues.get(&receiver)?)
    }

    /// Whether a receiver is a forwarder.
    pub(super) fn is_forwarder(&self, receiver: ReceiverId) -> bool {
        self.source_of(receiver).is_some_and(|queue| queue.forwarders.each().contains(&&Some(receiver)))
    }

    /// Adds a message.
    pub(super) fn insert(&mut self, queue: QueueId, number: SequenceNumber, record: Record) {
        let Some(queue) = self.queue_mut(queue) else { return };
        queue.next_number = queue.next_number.max(SequenceNumber(number.0.saturating_add(1)));
        if let Some(at) = record.scheduled_enqueue_time() {
            queue.activations.insert((at, number));
        }
        if let Some(until) = record.held_until() {
            queue.held_back.insert((until, number));
        }
        if let (Some(sessions), SubQueue::Main) = (&mut queue.sessions, record.sub_queue()) {
            sessions.added(number, &record);
        }
        let sub_queue = record.sub_queue();
        queue.messages.get_mut(sub_queue).put(number, record);
        queue.receivers.selections.became_available(sub_queue, number);
    }

    /// Removes a message and returns its record.
    pub(super) fn remove(
        &mut self,
        queue: QueueId,
        sub_queue: SubQueue,
        number: SequenceNumber,
    ) -> Option<Record> {
        let queue = self.queue_mut(queue)?;
        if queue.messages.get(sub_queue).is_available(number) {
            queue.receivers.selections.removed(sub_queue);
        }
        let record = queue.messages.get_mut(sub_queue).remove(number)?;
        if let Some(at) = record.scheduled_enqueue_time() {
            queue.activations.remove(&(at, number));
        }
        if let Some(until) = record.held_until() {
            queue.held_back.remove(&(until, number));
        }
        if let (Some(sessions), SubQueue::Main) = (&mut queue.sessions, sub_queue) {
            sessions.removed(number, &record);
        }
        Some(record)
    }

    /// Replaces the record of a message that stays in its sub-queue.
    pub(super) fn replace(&mut self, queue: QueueId, number: SequenceNumber, record: Record) {
        let Some(queue) = self.queue_mut(queue) else { return };
        let messages = queue.messages.get_mut(record.sub_queue());
        if let (Some(sessions), SubQueue::Main) = (&mut queue.sessions, record.sub_queue())
            && let Some(before) = messages.get(number)
        {
            sessions.changed(number, before, &record);
        }
        if let Some(until) = messages.get(number).and_then(Record::held_until) {
            queue.held_back.remove(&(until, number));
        }
        if let Some(until) = record.held_until() {
            queue.held_back.insert((until, number));
        }
        queue.receivers.selections.became_available(record.sub_queue(), number);
        messages.put(number, record);
    }

    /// Locks or unlocks a message.
    pub(super) fn set_lock(
        &mut self,
        queue: QueueId,
        sub_queue: SubQueue,
        number: SequenceNumber,
        lock: Option<LockToken>,
    ) {
        let Some(queue) = self.queue_mut(queue) else { return };
        let messages = queue.messages.get_mut(sub_queue);
        messages.set_locked(number, lock.is_some());
        if let (Some(sessions), SubQueue::Main) = (&mut queue.sessions, sub_queue)
            && let Some(record) = messages.get(number)
        {
            sessions.set_lock(number, record, lock);
        }
        match lock {
            Some(_) => queue.receivers.selections.locked(sub_queue),
            None => queue.receivers.selections.became_available(sub_queue, number),
        }
    }

    /// Takes the receivers with a selector that changes of a queue concern since the last call.
    pub(super) fn take_selections(&mut self, id: QueueId) -> Vec<ReceiverId> {
        self.queue_mut(id).map(|queue| queue.receivers.selections.take_marked()).unwrap_or_default()
    }

    /// The next queue to be processed.
    pub(super) fn next_touched(&self) -> Option<QueueId> {
        self.touched.last().copied()
    }

    /// Marks a queue as processed.
    pub(super) fn mark_processed(&mut self, id: QueueId) {
        #[cfg(test)]
        {
            self.times_processed += 1;
        }
        match self.touched.last() {
            Some(last) if *last == id => drop(self.touched.pop()),
            _ => self.touched.retain(|touched| *touched != id),
        }
        debug_assert!(!self.touched.contains(&id), "a queue that is listed twice is processed for ever");
        if id == self.entity.id {
            self.entity.touched = false;
            self.entity.was_in_use = self.entity.ends_when_idle() && self.entity.is_in_use();
        } else if let Some(queue) = self.subscriptions.get_mut(&id) {
            queue.touched = false;
            let (was_in_use, is_in_use) = (queue.was_in_use, queue.is_in_use());
            queue.was_in_use = is_in_use;
            if !queue.changed {
                queue.changed = true;
                self.changed.push(id);
            }
            let deadline = queue.next_deadline();
            relist(&mut self.deadlines, queue, deadline);
            self.count_subscription_in_use(was_in_use, is_in_use);
        }
    }

    /// Counts a subscription that came into use or went out of use.
    fn count_subscription_in_use(&mut self, before: bool, after: bool) {
        if before == after {
            return;
        }
        if let Some(topic) = self.queue_mut(self.entity.id) {
            let count = topic.subscriptions_in_use;
            topic.subscriptions_in_use = if after { count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// Indexes the deadlines of all subscriptions, after restoring.
    pub(super) fn relist_all(&mut self) {
        for queue in self.subscriptions.values_mut() {
            let deadline = queue.next_deadline();
            relist(&mut self.deadlines, queue, deadline);
        }
    }

    /// Number of subscriptions with a deadline.
    #[cfg(test)]
    pub(super) fn deadlines_listed(&self) -> usize {
        self.deadlines.len()
    }

    /// Removes a subscription.
    pub(super) fn take_out(&mut self, id: QueueId) -> Option<Queue> {
        let mut queue = self.subscriptions.remove(&id)?;
        relist(&mut self.deadlines, &mut queue, None);
        if queue.touched {
            // It may be created again in the same call, and is then listed again.
            self.touched.retain(|touched| *touched != id);
        }
        self.count_subscription_in_use(queue.was_in_use, false);
        if !queue.changed {
            self.changed.push(id);
        }
        Some(queue)
    }

    /// Whether [`Self::take_changed`] will return this subscription, which may be deleted.
    pub(super) fn is_listed_as_changed(&self, id: QueueId) -> bool {
        self.changed.contains(&id)
    }

    /// Subscriptions that changed or were deleted since the last call, each once. Includes queues that are still to be
    /// processed, as after a joint step.
    pub(super) fn take_changed(&mut self) -> Vec<QueueId> {
        let mut changed = std::mem::take(&mut self.changed);
        let is_news = |id: &QueueId| self.subscriptions.get(id).is_some_and(|queue| !queue.changed);
        changed.extend(self.touched.iter().copied().filter(is_news));
        for id in &changed {
            if let Some(queue) = self.subscriptions.get_mut(id) {
                queue.changed = false;
            }
        }
        changed
    }

    /// Queues with a due timer: they are processed like those that changed.
    pub(super) fn touch_due(&mut self, now: Timestamp) -> Vec<QueueId> {
        let mut due = Vec::new();
        if self.next_queue_deadline().is_none_or(|at| at > now) {
            return due;
        }
        if self.entity.next_deadline().is_some_and(|at| at <= now) {
            due.push(self.entity.id);
        }
        due.extend(self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id));
        for id in &due {
            self.queue_mut(*id);
        }
        due
    }

    /// The earliest deadline of any queue.
    pub(super) fn next_queue_deadline(&self) -> Option<Timestamp> {
        let subscription = self.deadlines.first().map(|(at, _)| *at);
        self.entity.next_deadline().into_iter().chain(subscription).min()
    }

    /// Present counts of the entity.
    pub(super) fn counts(&self) -> Counts {
        Counts { size_bytes: self.size_bytes, ..self.entity.counts() }
    }
}

/// Changes the indexed deadline of a subscription.
fn relist(deadlines: &mut BTreeSet<(Timestamp, QueueId)>, queue: &mut Queue, deadline: Option<Timestamp>) {
    if queue.listed_deadline == deadline {
        return;
    }
    if let Some(at) = queue.listed_deadline {
        deadlines.remove(&(at, queue.id));
    }
    if let Some(at) = deadline {
        deadlines.insert((at, queue.id));
    }
    queue.listed_deadline = deadline;
}
