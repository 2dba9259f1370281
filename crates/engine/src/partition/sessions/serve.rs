//! Processing of a queue with sessions: returned messages, expiry, grants, deliveries.

use std::sync::Arc;

use super::super::record::Record;
use super::super::step::{Step, TIMERS_PER_CALL_MAX};
use super::{Session, Sessions};
use crate::event::Event;
use crate::{AcceptedSession, LockToken, QueueId, ReceiverId, Reply, SequenceNumber, SessionId, SubQueue};

impl Step<'_> {
    /// The sessions of a queue, if it has any.
    pub(in crate::partition) fn sessions(&self, queue: QueueId) -> Option<&Sessions> {
        self.state().queue(queue)?.sessions.as_deref()
    }

    /// Processes the sessions of a main queue after a change.
    pub(in crate::partition) fn process_sessions(&mut self, queue: QueueId) {
        self.return_in_flight(queue);
        self.sweep_sessions(queue);
        // Locks beyond this number end in the next call, which is due at once.
        for _ in 0..TIMERS_PER_CALL_MAX {
            self.grant_to_waiters(queue);
            let Some(late) = self.dispatch_sessions(queue) else { return };
            self.end_session_lock(queue, late);
            self.return_in_flight(queue);
        }
    }

    /// The next session for a receiver that accepts any: unlocked, with an available message, lowest number first. The
    /// messages of an overdue session expire now, because a receiver would get them.
    pub(in crate::partition) fn next_session(&mut self, queue: QueueId) -> Option<SessionId> {
        loop {
            let session = self.sessions(queue)?.first_ready()?;
            let id = session.id.clone();
            if !session.is_overdue(self.now) {
                return Some(id);
            }
            while self.expire_one_of(queue, &id) {}
            if self.is_overdue(queue, &id) {
                return None;
            }
        }
    }

    /// Locks a session for a receiver from now on; with a token, another receiver may take it over.
    pub(in crate::partition) fn grant(
        &mut self,
        queue: QueueId,
        receiver: ReceiverId,
        session: SessionId,
        token: Option<LockToken>,
    ) -> AcceptedSession {
        let until = self.now.plus_ms(self.policy(queue).lock_duration_ms);
        let id = Arc::clone(session.text());
        self.emit(match token {
            None => Event::SessionLocked { queue, session, receiver, until },
            Some(token) => Event::SessionTaken { queue, session, receiver, until, token },
        });
        AcceptedSession { id, locked_until: until, token }
    }

    fn grant_to_waiters(&mut self, queue: QueueId) {
        while let Some(waiter) = self.sessions(queue).and_then(|sessions| sessions.waiters.first())
            && let Some(id) = self.next_session(queue)
        {
            let token = waiter.with_token.then(|| self.new_token());
            let accepted = self.grant(queue, waiter.receiver, id, token);
            self.reply(waiter.request, Reply::Opened(Ok(Some(accepted))));
        }
    }

    /// Expires sessions with an expired message whose holder listens (S-23, S-24).
    fn sweep_sessions(&mut self, queue: QueueId) {
        while let Some(session) = self.sessions(queue).and_then(|sessions| sessions.first_overdue(self.now)) {
            let id = session.id.clone();
            if !self.expire_one_of(queue, &id) {
                return;
            }
        }
    }

    /// Expires one message of an overdue session; false if it is not overdue, or the limit of this call is reached.
    fn expire_one_of(&mut self, queue: QueueId, id: &SessionId) -> bool {
        let session = self.sessions(queue).and_then(|sessions| sessions.get(id));
        let Some(number) = session.and_then(|session| session.next_to_expire(self.now)) else { return false };
        let record = self.state().record(queue, SubQueue::Main, number).cloned();
        let Some(record) = record.filter(|_| self.may_expire()) else { return false };
        self.count_expiry(&record);
        self.expire(queue, number, record, None);
        true
    }

    fn is_overdue(&self, queue: QueueId, id: &SessionId) -> bool {
        let session = self.sessions(queue).and_then(|sessions| sessions.get(id));
        session.is_some_and(|session| session.is_overdue(self.now))
    }

    /// Delivers available messages to session holders, as far as their credit allows. It stops at a holder whose lock has
    /// ended and whose timer has not fired yet, and returns it: a message would be delivered under no lock of the session.
    fn dispatch_sessions(&mut self, queue: QueueId) -> Option<ReceiverId> {
        while let Some(from) = self.state().queue(queue)
            && let Some((receiver, number)) =
                from.sessions.as_ref().and_then(|sessions| sessions.next_served(self.now))
            && let Some(mode) = from.receivers.get(receiver).map(|receiver| receiver.options.mode)
            && let Some(record) = from.messages.get(SubQueue::Main).get(number)
        {
            if self.session_held_by(queue, receiver).is_err() {
                return Some(receiver);
            }
            let record = record.clone();
            self.deliver(receiver, mode, queue, number, &record);
        }
        None
    }

    /// Sets the session of a message; in a queue with sessions, messages with the same spelling share the allocation.
    pub(in crate::partition) fn set_session(&self, queue: QueueId, record: &mut Record, id: &str) {
        let extra = self.sessions(queue).map(|sessions| sessions.extra(id));
        match (record.extra(), extra) {
            (None, Some(extra)) => record.set_extra(Some(extra)),
            (_, extra) => {
                let shared = extra.and_then(|extra| extra.session_id.clone());
                record.edit_extra(|extra| extra.session_id = Some(shared.unwrap_or_else(|| id.into())));
            }
        }
    }

    /// The session of a message in the main queue of a queue with sessions.
    pub(in crate::partition) fn session_of(
        &self,
        queue: QueueId,
        number: SequenceNumber,
    ) -> Option<&Session> {
        let queue = self.state().queue(queue)?;
        queue.sessions.as_ref()?.of(queue.messages.get(SubQueue::Main).get(number)?)
    }
}
