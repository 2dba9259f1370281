//! Application of events about sessions; total, like all of `apply`.

use std::sync::Arc;

use bytes::Bytes;

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::state::State;
use super::session::{Holder, StoredState};
use super::{Session, Sessions, Waiter};
use crate::event::Event;
use crate::layout::HeadSubject;
use crate::stored::read_session_state;
use crate::{LockToken, QueueId, ReceiverId, SessionId, SubQueue, Timestamp};

impl State {
    /// Applies an event about sessions; other events change nothing.
    pub(in crate::partition) fn apply_to_sessions(&mut self, event: &Event) {
        match event {
            Event::SessionAwaited { queue, receiver, request, until, with_token } => {
                let (receiver, request, until) = (*receiver, *request, *until);
                let waiter = Waiter { receiver, request, until, with_token: *with_token };
                self.in_sessions(*queue, |sessions| sessions.waiters.push(waiter));
            }
            Event::SessionNotAwaited { queue, receiver } => {
                self.in_sessions(*queue, |sessions| sessions.waiters.remove(*receiver));
            }
            Event::SessionLocked { queue, session, receiver, until } => {
                self.in_sessions(*queue, |sessions| sessions.lock(session, *receiver, *until));
                self.session_granted(*queue, *receiver);
            }
            Event::SessionTaken { queue, session, receiver, until, token } => {
                let (receiver, until) = (*receiver, *until);
                self.in_sessions(*queue, |sessions| sessions.take(session, receiver, until, *token));
                self.session_granted(*queue, receiver);
            }
            Event::SessionRenewed { queue, session, until } => {
                self.in_sessions(*queue, |sessions| sessions.prolong(session.key(), *until));
            }
            Event::SessionUnlocked { queue, session, lost } => {
                self.in_sessions(*queue, |sessions| sessions.unlock(session.key(), *lost));
            }
            Event::SessionStateSet { queue, session, number, state, at, .. } => {
                let mut was_superseded = false;
                self.in_sessions(*queue, |sessions| {
                    was_superseded = sessions.superseded.remove(number).is_some();
                });
                if !was_superseded {
                    let spelling = Arc::clone(session.text());
                    // A copy: the state is a slice of the buffer in which it arrived.
                    let bytes = state.as_deref().map(Bytes::copy_from_slice);
                    let stored =
                        bytes.map(|bytes| StoredState { number: *number, spelling, bytes, updated_at: *at });
                    self.set_session_state(*queue, session, stored);
                }
            }
            _ => {}
        }
    }

    /// Restores a state that was stored under this number.
    pub(in crate::partition) fn restore_session_state(
        &mut self,
        queue: QueueId,
        number: u64,
        value: &Bytes,
    ) -> Result<(), String> {
        let record = read_session_state(value)?;
        let id = record.session;
        let stored = StoredState {
            number,
            spelling: Arc::clone(id.text()),
            bytes: record.state,
            updated_at: self.restored_instant(record.updated_at),
        };
        let sessions = self.queue_mut(queue).and_then(|queue| queue.sessions.as_mut());
        let sessions = sessions.ok_or("the state of a session where there are none")?;
        if sessions.supersede(&id, &stored)? {
            self.set_session_state(queue, &id, Some(stored));
        }
        Ok(())
    }

    fn in_sessions(&mut self, queue: QueueId, change: impl FnOnce(&mut Sessions)) {
        if let Some(sessions) = self.queue_mut(queue).and_then(|queue| queue.sessions.as_mut()) {
            change(sessions);
        }
    }

    /// Updates a receiver after it was granted a session.
    fn session_granted(&mut self, queue: QueueId, receiver: ReceiverId) {
        if let Some(queue) = self.queue_mut(queue) {
            queue.credit_changed(receiver);
            queue.receivers.unpark(receiver);
        }
    }

    fn set_session_state(&mut self, queue: QueueId, session: &SessionId, stored: Option<StoredState>) {
        let Some(sessions) = self.queue_mut(queue).and_then(|queue| queue.sessions.as_mut()) else { return };
        let before = sessions.state_bytes;
        sessions.set_state(session, stored);
        let after = sessions.state_bytes;
        self.size_bytes = self.size_bytes.saturating_sub(before).saturating_add(after);
    }
}

impl Queue {
    /// Updates the session of a receiver whose credit changed.
    pub(in crate::partition) fn credit_changed(&mut self, receiver: ReceiverId) {
        if let Some(sessions) = &mut self.sessions
            && let Some(receiving) = self.receivers.get(receiver)
        {
            sessions.credit_changed(receiver, receiving);
        }
    }

    /// Checks a record about to be restored, and makes it share the session's optional fields.
    pub(in crate::partition) fn admit_restored(&self, record: &mut Record) -> Result<(), &'static str> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        if record.session_id().is_none() && record.sub_queue() == SubQueue::Main {
            return Err("a message without a session where sessions are required");
        }
        sessions.share(record);
        Ok(())
    }
}

impl Sessions {
    /// Removes a closed receiver and unlocks its session.
    pub(in crate::partition) fn receiver_closed(&mut self, receiver: ReceiverId) {
        self.waiters.remove(receiver);
        if let Some(key) = self.held.get(&receiver).cloned() {
            self.unlock(&key, false);
        }
    }

    /// Whether a restored state counts: of several states of one session, only the one that was set last does.
    ///
    /// # Errors
    /// Two states have the same spelling.
    fn supersede(&mut self, id: &SessionId, stored: &StoredState) -> Result<bool, String> {
        let Some(known) = self.get(id).and_then(|session| session.state()) else { return Ok(true) };
        if known.spelling == stored.spelling {
            return Err(format!("a second state of session '{id}'"));
        }
        let (known, new) = ((known.updated_at, known.number), (stored.updated_at, stored.number));
        self.superseded.insert(known.min(new).1, Arc::clone(id.key()));
        self.state_number_taken(stored.number);
        Ok(new > known)
    }

    fn lock(&mut self, id: &SessionId, receiver: ReceiverId, until: Timestamp) {
        self.waiters.remove(receiver);
        self.unlock(id.key(), false);
        self.hold(id, Holder::new(receiver, until, None));
    }

    /// Locks of messages stay, even if another receiver held the session before.
    fn take(&mut self, id: &SessionId, receiver: ReceiverId, until: Timestamp, token: LockToken) {
        self.waiters.remove(receiver);
        if let Some(former) = self.get(id).and_then(|session| session.holder) {
            self.held.remove(&former.receiver);
        }
        self.hold(id, Holder::new(receiver, until, Some(token)));
    }

    fn hold(&mut self, id: &SessionId, holder: Holder) {
        self.create(id, None);
        self.held.insert(holder.receiver, Arc::clone(id.key()));
        self.change(id.key(), |session| session.holder = Some(holder));
    }

    fn prolong(&mut self, key: &str, until: Timestamp) {
        self.change(key, |session| {
            if let Some(holder) = &mut session.holder {
                holder.until = until;
            }
        });
    }

    /// Marks an index of session states as used.
    pub(in crate::partition) const fn index_taken(&mut self, index: u64) {
        if self.next_state <= index {
            self.next_state = index + 1;
        }
    }

    const fn state_number_taken(&mut self, number: u64) {
        if let HeadSubject::SessionState(index) = HeadSubject::of(number) {
            self.index_taken(index);
        }
    }

    fn unlock(&mut self, key: &str, lost: bool) {
        if let Some(holder) = self.by_key(key).and_then(|session| session.holder) {
            self.held.remove(&holder.receiver);
            self.change(key, |session| session.unlock(lost));
        }
    }

    fn set_state(&mut self, id: &SessionId, stored: Option<StoredState>) {
        if let Some(stored) = &stored {
            self.create(id, None);
            self.state_number_taken(stored.number);
        }
        let sizes = |state: Option<&StoredState>| state.map_or((0, 0), |state| (1, state.bytes.len() as u64));
        let (before, after) = (sizes(self.get(id).and_then(Session::state)), sizes(stored.as_ref()));
        self.with_state = self.with_state - before.0 + after.0;
        self.state_bytes = self.state_bytes - before.1 + after.1;
        self.change(id.key(), |session| session.state = stored.map(Box::new));
    }
}
