//! Session locks: one lock covers all messages of a session. It ends by expiry (deliveries under it have failed), or because
//! its holder closes (they have not).

use super::super::locks::LockedMessage;
use super::super::step::{Step, TIMERS_PER_CALL_MAX};
use crate::event::{Change, Event};
use crate::{Effect, QueueId, ReceiverId, Refusal, Reply, SequenceNumber, SessionId, SubQueue, Timestamp};

impl Step<'_> {
    /// Fires the due timers of a queue's sessions: expired session locks, and timeouts of waiting receivers.
    pub(in crate::partition) fn fire_session_timers(&mut self, queue: QueueId) {
        for _ in 0..TIMERS_PER_CALL_MAX {
            match self.sessions(queue).and_then(|sessions| sessions.first_lock_end()) {
                Some((at, receiver)) if at <= self.now => self.end_session_lock(queue, receiver),
                _ => break,
            }
        }
        self.return_in_flight(queue);
        for _ in 0..TIMERS_PER_CALL_MAX {
            match self.sessions(queue).and_then(|sessions| sessions.waiters.first_end()) {
                Some(waiter) if waiter.until <= self.now => {
                    self.stop_waiting(queue, waiter.receiver, Refusal::NoSessionAvailable);
                }
                _ => break,
            }
        }
    }

    /// Ends an expired session lock. A holder with credit and without locked messages keeps the session for another lock
    /// duration; any other loses it.
    pub(in crate::partition) fn end_session_lock(&mut self, queue: QueueId, receiver: ReceiverId) {
        let held = self.sessions(queue).and_then(|sessions| sessions.held_by(receiver));
        match held.filter(|(session, _)| session.is_awaited()).map(|(session, _)| session.id.clone()) {
            Some(session) => {
                let until = self.now.plus_ms(self.policy(queue).lock_duration_ms);
                self.emit(Event::SessionRenewed { queue, session, until });
            }
            None => self.lose_session(queue, receiver),
        }
    }

    /// Ends the session lock of a receiver if it has expired and its timer has not fired yet: the receiver keeps the session or
    /// loses it before its command is carried out.
    pub(in crate::partition) fn end_late_lock_of(&mut self, receiver: ReceiverId) {
        let Some(queue) = self.state().source_of(receiver).map(|queue| queue.id) else { return };
        let held = self.sessions(queue).and_then(|sessions| sessions.held_by(receiver));
        if held.is_some_and(|(_, holder)| holder.until <= self.now) {
            self.end_session_lock(queue, receiver);
            self.return_in_flight(queue);
        }
    }

    /// Closes a receiver whose session lock expired.
    fn lose_session(&mut self, queue: QueueId, receiver: ReceiverId) {
        self.unlock_session(queue, receiver, true);
        self.emit(Event::ReceiverClosed { receiver });
        self.effect(Effect::ReceiverClosed { receiver, refusal: Refusal::SessionLockLost });
    }

    /// Releases the session of a receiver that is about to be closed. A receiver waiting for a session is closed by this.
    pub(in crate::partition) fn leave_session(&mut self, receiver: ReceiverId) {
        let Some(queue) = self.state().source_of(receiver).map(|queue| queue.id) else { return };
        let Some(sessions) = self.sessions(queue) else { return };
        if sessions.waiters.get(receiver).is_some() {
            self.stop_waiting(queue, receiver, Refusal::ReceiverNotFound);
        } else if let Some((_, holder)) = sessions.held_by(receiver) {
            self.unlock_session(queue, receiver, holder.until <= self.now);
        }
    }

    /// Refuses all receivers that wait for a session of this queue.
    pub(in crate::partition) fn refuse_session_waiters(&mut self, queue: QueueId, refusal: &Refusal) {
        while let Some(waiter) = self.sessions(queue).and_then(|sessions| sessions.waiters.first()) {
            self.stop_waiting(queue, waiter.receiver, refusal.clone());
        }
    }

    /// Refuses a waiting receiver and closes it; no close is reported, because it was never opened for its client.
    fn stop_waiting(&mut self, queue: QueueId, receiver: ReceiverId, refusal: Refusal) {
        let waiter = self.sessions(queue).and_then(|sessions| sessions.waiters.get(receiver));
        self.emit(Event::SessionNotAwaited { queue, receiver });
        self.emit(Event::ReceiverClosed { receiver });
        self.reply(waiter.and_then(|waiter| waiter.request), Reply::Opened(Err(refusal)));
    }

    fn unlock_session(&mut self, queue: QueueId, receiver: ReceiverId, lost: bool) {
        let held = self.sessions(queue).and_then(|sessions| sessions.held_by(receiver));
        if let Some(session) = held.map(|(session, _)| session.id.clone()) {
            self.emit(Event::SessionUnlocked { queue, session, lost });
        }
    }

    /// Ends the locks of messages whose session lock has ended, a bounded number in each call.
    pub(in crate::partition) fn return_in_flight(&mut self, queue: QueueId) {
        while self.returns_left > 0
            && self.timer_bytes_left > 0
            && let Some((number, token, lost)) =
                self.sessions(queue).and_then(|sessions| sessions.next_return())
        {
            self.returns_left -= 1;
            let counts = lost && self.state().locks.find(token).is_some_and(|held| held.counts);
            let (sub_queue, until) = (SubQueue::Main, self.now);
            let held =
                LockedMessage { queue, sub_queue, number, receiver: None, until, in_session: true, counts };
            let record = self.state().record(queue, SubQueue::Main, number).cloned();
            if let Some(record) = &record {
                self.count_timer_bytes(record);
            }
            match record {
                Some(record) if counts => self.fail_delivery(token, held, record, Change::Returned),
                Some(record) => self.release(token, held, record),
                None => self.emit(Event::Released { token }),
            }
        }
    }

    /// When the session lock of a message in the main queue ends; `None` without sessions.
    pub(in crate::partition) fn session_lock_end(
        &self,
        queue: QueueId,
        sub_queue: SubQueue,
        number: SequenceNumber,
    ) -> Option<Timestamp> {
        if sub_queue != SubQueue::Main {
            return None;
        }
        self.session_of(queue, number)?.holder(self.now).map(|holder| holder.until)
    }

    /// Checks a message lock against its session's lock. In a queue with sessions, a missing or ended lock is reported as the
    /// loss of the session.
    pub(in crate::partition) fn held_in_session(
        &self,
        queue: QueueId,
        held: Option<LockedMessage>,
    ) -> Result<LockedMessage, Refusal> {
        match held {
            Some(held) if self.session_lock_end(queue, held.sub_queue, held.number).is_some() => Ok(held),
            None if self.sessions(queue).is_none() => Err(Refusal::MessageLockLost),
            _ => Err(Refusal::SessionLockLost),
        }
    }

    /// The id of the session that a receiver of this queue holds.
    pub(in crate::partition) fn session_held_by(
        &self,
        queue: QueueId,
        receiver: ReceiverId,
    ) -> Result<SessionId, Refusal> {
        match self.sessions(queue).and_then(|sessions| sessions.held_by(receiver)) {
            Some((session, holder)) if holder.until > self.now => Ok(session.id.clone()),
            _ => Err(Refusal::SessionLockLost),
        }
    }
}
