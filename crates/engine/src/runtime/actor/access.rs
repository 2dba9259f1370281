//! Which queues and subscriptions clients used, noted once for each turn.

use super::Actor;
use crate::command::{Descriptor, Uses};
use crate::{QueueId, Timestamp};

impl Actor {
    /// What a client is about to use: sending, receiving, browsing, settling; attaching alone is nothing.
    pub(super) fn note_access(&mut self, command: &Descriptor<'_>) {
        if !command.is_access {
            return;
        }
        let used = match command.uses {
            Uses::Entity => Some(QueueId(self.owned.id.0)),
            Uses::Queue(queue) | Uses::Browsed(queue) | Uses::Subscription { queue, .. } => Some(queue),
            Uses::SourceOf(receiver) => self.owned.partition.home(receiver),
            Uses::Nothing => None,
        };
        // Neighbours in a turn mostly use the same.
        if let Some(queue) = used.filter(|queue| self.accessed.last() != Some(queue)) {
            self.accessed.push(queue);
        }
    }

    /// At the end of a turn: lets everybody see it.
    pub(super) fn show_access(&mut self, now: Timestamp) {
        for queue in self.accessed.drain(..) {
            if queue.0 == self.owned.id.0 {
                self.owned.accessed.set(now);
            } else {
                self.owned.subscriptions.set_accessed(queue, now);
            }
        }
    }
}
