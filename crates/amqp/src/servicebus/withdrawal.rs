//! Deliveries that can't be sent: the peer's window is closed, it reads slowly, or it has reduced its credit.
//!
//! A lock runs from the time at which the engine delivers a message. A delivery that has not begun to be sent after
//! half of its lock is withdrawn and released to the engine, uncounted: so the peer has the other half for the messages
//! it gets, and a delivery that was never sent is never a failed one. The link then starts again with a window of one
//! message. Deliveries for which the peer has taken back its credit are withdrawn at once.

use peeklock_engine::{Lock, LockToken, ReceiverId, Timestamp};
use smallvec::SmallVec;

use super::ConnectionHandler;
use super::receiver::Receiver;
use crate::endpoint::{Connection, NowMs, Withdrawn};

impl ConnectionHandler {
    /// When a message under this lock is withdrawn unless it is being sent.
    pub(super) fn withdraw_at(&mut self, lock: Lock) -> NowMs {
        let now = self.entities_now();
        let half_ms = lock.locked_until.0.saturating_sub(now.0) / 2;
        // Not in this turn, at whose end it can be sent: it would be delivered and withdrawn again until the lock ends.
        let at = self.now.saturating_add(half_ms.max(1));
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
        let tokens = self.take_back(id, usize::MAX, connection);
        let Some(receiver) = self.receivers.get_mut(&id).filter(|_| !tokens.is_empty()) else { return };
        let (stop, entity) = (receiver.stop(), receiver.entity.clone());
        let begin = receiver.transmitted(connection.transmitted(receiver.link).0, window);
        tracing::debug!(messages = tokens.len(), "deliveries that could not leave are given back");
        // No message may return to this link before other receivers had their chance.
        self.grant(id, stop);
        self.release(&entity, tokens);
        if let Some(begin) = begin {
            self.grant(id, begin);
        }
    }

    /// Withdraws the deliveries beyond the peer's credit: they were on their way from the engine when it was reduced.
    pub(super) fn withdraw_excess(&mut self, id: ReceiverId, connection: &mut Connection) {
        let excess = self.receivers.get(&id).map_or(0, Receiver::excess);
        if excess == 0 {
            return;
        }
        let tokens = self.take_back(id, excess, connection);
        if let Some(entity) = self.receivers.get(&id).map(|receiver| receiver.entity.clone())
            && !tokens.is_empty()
        {
            self.release(&entity, tokens);
        }
    }

    /// Takes at most this many deliveries back from the end of a link's queue; returns their locks.
    fn take_back(
        &mut self,
        id: ReceiverId,
        messages_max: usize,
        connection: &mut Connection,
    ) -> SmallVec<[LockToken; 1]> {
        let Some(receiver) = self.receivers.get_mut(&id) else { return SmallVec::new() };
        let Withdrawn { messages, drained } = connection.withdraw(receiver.link, messages_max);
        if !receiver.deletes {
            self.unsettled = self.unsettled.saturating_sub(messages);
        }
        receiver.withdrawn(messages, drained)
    }
}
