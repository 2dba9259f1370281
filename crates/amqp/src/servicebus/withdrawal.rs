//! Deliveries that wait too long to be sent: the peer's window is closed, or it reads slowly.
//!
//! A lock runs from the time at which the engine delivers a message. A delivery that has not begun to be sent after
//! half of its lock is withdrawn and released to the engine, uncounted: so the peer has the other half for the messages
//! it gets, and a delivery that was never sent is never a failed one. The link then starts again with a window of one
//! message.

use peeklock_engine::{Lock, ReceiverId, Timestamp};

use super::ConnectionHandler;
use crate::endpoint::{Connection, NowMs, Withdrawn};

impl ConnectionHandler {
    /// When a message under this lock is withdrawn unless it is being sent.
    pub(super) fn withdraw_at(&mut self, lock: Lock) -> NowMs {
        let now = self.entities_now();
        let half_ms = lock.locked_until.0.saturating_sub(now.0) / 2;
        let at = self.now.saturating_add(half_ms);
        self.withdrawal_due = Some(self.withdrawal_due.map_or(at, |due| due.min(at)));
        at
    }

    fn entities_now(&mut self) -> Timestamp {
        match self.reading {
            Some((at, now)) if at == self.now => now,
            _ => {
                let now = self.entities.now();
                self.reading = Some((self.now, now));
                now
            }
        }
    }

    /// Withdraws the deliveries that have waited too long, on all links.
    pub(super) fn withdraw_late(&mut self, connection: &mut Connection, now: NowMs) {
        if self.withdrawal_due.is_none_or(|due| due > now) {
            return;
        }
        let mut due = None;
        for id in self.busy.clone() {
            let Some(receiver) = self.receivers.get(&id) else { continue };
            let next = receiver.withdraw_at(connection.leaving(receiver.link));
            if next.is_some_and(|at| at <= now) {
                self.withdraw(id, connection);
            } else {
                due = due.into_iter().chain(next).min();
            }
        }
        self.withdrawal_due = due;
    }

    /// Withdraws all deliveries of a link that are not leaving, later ones too, so that the order is kept.
    fn withdraw(&mut self, id: ReceiverId, connection: &mut Connection) {
        let window = self.window();
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let link = receiver.link;
        let Withdrawn { messages, drained } = connection.withdraw(link);
        if messages == 0 {
            return;
        }
        let tokens = receiver.withdrawn(messages, drained);
        let (stop, entity) = (receiver.stop(), receiver.entity.clone());
        let begin = receiver.transmitted(connection.transmitted(link).0, window);
        let deletes = receiver.deletes;
        if !deletes {
            self.unsettled = self.unsettled.saturating_sub(messages);
        }
        tracing::debug!(messages, "deliveries that could not leave are given back");
        // No message may return to this link before other receivers had their chance.
        self.grant(id, stop);
        self.release(&entity, tokens);
        if let Some(begin) = begin {
            self.grant(id, begin);
        }
    }
}
