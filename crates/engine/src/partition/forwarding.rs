//! The forwarding sources of an entity, for its forwarders.

use super::Partition;
use crate::{EntityOptions, Forwarding, QueueId, QueuePath, SubQueue};

impl Partition {
    /// Whether messages are forwarded from here.
    #[must_use]
    pub fn is_forwarding(&self) -> bool {
        let subscriptions = self.state.subscriptions.values();
        std::iter::once(&self.state.entity).chain(subscriptions).any(|queue| queue.policy.is_forwarding())
    }

    /// The forwarding sources and the names of their targets, if they may have changed since the last call.
    pub fn take_forwarding(&mut self) -> Option<Vec<(QueuePath, Box<str>)>> {
        if !std::mem::take(&mut self.state.forwarding_changed) {
            return None;
        }
        let mut found = Vec::new();
        // An entity whose status forbids receiving forwards nothing.
        if !self.state.options.status().allows_receive() {
            return Some(found);
        }
        if let EntityOptions::Queue(queue) = &*self.state.options {
            note_targets(self.state.entity.id, &queue.forwarding, &mut found);
        }
        for subscription in
            self.subscriptions().filter(|subscription| subscription.options.status.allows_receive())
        {
            note_targets(subscription.queue, &subscription.options.forwarding, &mut found);
        }
        Some(found)
    }
}

/// Adds the forwarding sources of a queue or subscription with their targets.
fn note_targets(queue: QueueId, forwarding: &Forwarding, to: &mut Vec<(QueuePath, Box<str>)>) {
    let targets = [
        (SubQueue::Main, &forwarding.forward_to),
        (SubQueue::DeadLetter, &forwarding.forward_dead_lettered_messages_to),
    ];
    for (sub_queue, target) in targets {
        to.extend(target.as_deref().map(|target| (QueuePath { queue, sub_queue }, target.into())));
    }
}
