//! Tracks which queues and subscriptions clients used; published once per turn.

use super::Actor;
use crate::command::{Descriptor, Uses};
use crate::{QueueId, Timestamp};

impl Actor {
    /// Notes the queue that a command uses: sending, receiving, browsing, settling. Attaching alone does not count.
    pub(super) fn note_access(&mut self, command: &Descriptor<'_>) {
        if !command.is_access {
            return;
        }
        let used = match command.uses {
            Uses::Entity => Some(QueueId(self.owned.id.0)),
            Uses::Queue(queue) | Uses::Subscription { queue, .. } => Some(queue),
            Uses::SourceOf(receiver) => self.owned.partition.source_of(receiver),
            Uses::Nothing => None,
        };
        // Consecutive commands of a turn mostly use the same queue.
        if let Some(queue) = used.filter(|queue| self.accessed.last() != Some(queue)) {
            self.accessed.push(queue);
        }
    }

    /// Publishes the accesses of this turn.
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
