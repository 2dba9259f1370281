//! Application of events to a topic: parts of [`super::super::apply`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::messages::Messages;
use super::super::policy::Policy;
use super::super::queue::Queue;
use super::super::state::State;
use super::Topic;
use crate::event::Publication;
use crate::{BodyRef, QueueId, ReceiverId, SequenceNumber, SubQueue, Subscription, Timestamp};

impl State {
    /// Adds references to a body; a new body is added to the size.
    pub(in crate::partition) fn refer(&mut self, body: BodyRef, references: usize, content_bytes: u32) {
        let references = u32::try_from(references).unwrap_or(u32::MAX);
        if self.topic.as_mut().is_none_or(|topic| topic.bodies.add(body, references)) {
            self.size_bytes = self.size_bytes.saturating_add(u64::from(content_bytes));
        }
    }

    /// Removes a reference to a body; with the last one, the body is subtracted from the size.
    pub(in crate::partition) fn unrefer(&mut self, body: BodyRef, content_bytes: u32) {
        let is_gone =
            |topic: &mut Box<Topic>| topic.bodies.release(body) && !topic.keep_in_doubt(body, content_bytes);
        if self.topic.as_mut().is_none_or(is_gone) {
            self.size_bytes = self.size_bytes.saturating_sub(u64::from(content_bytes));
        }
    }

    /// Applies the publication of a message and its copies.
    pub(in crate::partition) fn published(&mut self, published: &Publication) {
        let entity = &mut self.entity;
        entity.next_number.0 = entity.next_number.0.max(published.number.0.saturating_add(1));
        self.refer(published.body, published.copies.len(), published.content_bytes);
        if let Some(scheduled) = published.scheduled
            && self.remove(self.entity.id, SubQueue::Main, scheduled).is_some()
        {
            self.unrefer(published.body, published.content_bytes);
        }
        for copy in &published.copies {
            self.insert(copy.queue, copy.number, copy.record.clone());
        }
    }

    /// Adds a subscription, or applies its new options or rules.
    pub(in crate::partition) fn set_subscription(&mut self, subscription: &Subscription) {
        let (Some(topic), id) = (&mut self.topic, subscription.queue) else { return };
        topic.set(Arc::new(subscription.clone()));
        self.forwarding_changed = true;
        let policy = Policy::from(&subscription.options);
        match self.queue_mut(id) {
            Some(queue) => {
                queue.policy = Arc::new(policy);
                // An update and a new rule count as use (S-32): this call records it.
                queue.used_at = Timestamp::default();
            }
            None => {
                // It is listed already if the call also deleted one with this number.
                let queue = Queue { changed: self.is_listed_as_changed(id), ..Queue::new(id, policy) };
                self.subscriptions.insert(id, queue);
                self.queue_mut(id);
            }
        }
    }

    /// Removes a subscription with its messages, their locks, its receivers and watchers.
    pub(in crate::partition) fn remove_subscription(&mut self, id: QueueId) {
        let Some(queue) = self.take_out(id) else { return };
        if let Some(topic) = &mut self.topic {
            topic.unset(id);
            let topic_id = self.entity.id;
            let free = topic.doubt_no_longer(id).into_iter();
            // The timers delete them.
            self.tombstones.extend(free.map(|kept| ((topic_id, SequenceNumber(kept.0.0)), kept)));
        }
        for (number, record) in queue.all_messages() {
            self.unrefer(record.body(number), record.content_bytes());
        }
        let state_bytes = queue.sessions.as_ref().map_or(0, |sessions| sessions.state_bytes());
        self.size_bytes = self.size_bytes.saturating_sub(state_bytes);
        let (gone, others) =
            std::mem::take(&mut self.tombstones).into_iter().partition(|((queue, _), _)| *queue == id);
        self.tombstones = others;
        for (_, (body, content_bytes)) in BTreeMap::into_iter(gone) {
            self.unrefer(body, content_bytes);
        }
        self.forwarding_changed = true;
        if queue.messages.each().into_iter().any(Messages::has_locked) {
            self.locks.remove_of(id);
        }
        self.receiver_queues.retain(|_, home| *home != id);
        self.watchers.retain(|_, watched| watched.queue != id);
    }

    /// Bodies referred to only by messages of this subscription, in order.
    pub(in crate::partition) fn bodies_only_in(&self, id: QueueId) -> Box<[BodyRef]> {
        let (Some(topic), Some(queue)) = (&self.topic, self.queue(id)) else { return Box::default() };
        let mut bodies: Vec<u64> =
            queue.all_messages().map(|(number, record)| record.body(number).0).collect();
        bodies.extend(
            self.tombstones.iter().filter(|((queue, _), _)| *queue == id).map(|(_, (body, _))| body.0),
        );
        alone(topic, bodies, Some(id))
    }

    /// The bodies referred to only by these messages, in order; `messages` has one element for each reference. In a queue each
    /// body has only one reference.
    pub(in crate::partition) fn only_referred_to_by(&self, messages: Vec<BodyRef>) -> Box<[BodyRef]> {
        let mut bodies: Vec<u64> = messages.into_iter().map(|body| body.0).collect();
        match &self.topic {
            Some(topic) => alone(topic, bodies, None),
            None => {
                bodies.sort_unstable();
                bodies.into_iter().map(BodyRef).collect()
            }
        }
    }

    /// The receivers and watchers of a queue.
    pub(in crate::partition) fn attached_to(&self, id: QueueId) -> Vec<ReceiverId> {
        let watchers = self.watchers.iter().map(|(watcher, watched)| (watcher, &watched.queue));
        let attached = self.receiver_queues.iter().chain(watchers).filter(|(_, queue)| **queue == id);
        attached.map(|(receiver, _)| *receiver).collect()
    }
}

/// The bodies whose only references are these, in order; `gone` is a subscription whose unreadable heads are deleted.
fn alone(topic: &Topic, mut references: Vec<u64>, gone: Option<QueueId>) -> Box<[BodyRef]> {
    references.sort_unstable();
    let alone = references.chunk_by(|one, other| one == other).filter_map(|references| {
        let body = BodyRef(*references.first()?);
        let is_alone = topic.bodies.count(body) as usize == references.len();
        (is_alone && !topic.is_in_doubt(body, gone)).then_some(body)
    });
    alone.collect()
}
