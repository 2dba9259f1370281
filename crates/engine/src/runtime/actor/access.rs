//! Which queues and subscriptions clients used, noted once for each turn.

use super::Actor;
use crate::{Command, QueueId, Timestamp};

impl Actor {
    /// What a client is about to use: sending, receiving, browsing, settling; attaching alone is nothing.
    pub(super) fn note_access(&mut self, command: &Command) {
        let used = match command {
            Command::Send { .. } | Command::CancelScheduled { .. } => Some(QueueId(self.owned.id.0)),
            Command::Settle { queue, .. } | Command::RenewLocks { queue, .. } => Some(*queue),
            Command::ReceiveDeferred { source, .. }
            | Command::Peek { source, .. }
            | Command::DeleteMessages { source, .. } => Some(source.queue),
            Command::Credit { receiver, .. }
            | Command::RenewSessionLock { receiver }
            | Command::GetSessionState { receiver }
            | Command::SetSessionState { receiver, .. } => self.owned.partition.home(*receiver),
            _ => None,
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
