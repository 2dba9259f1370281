//! What events about sessions change; like all of `apply`, total.

use std::sync::Arc;

use bytes::Bytes;

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::state::State;
use super::encoding::read_state;
use super::session::{Holder, StoredState};
use super::{Sessions, Waiter};
use crate::event::Event;
use crate::layout::HeadSubject;
use crate::{QueueId, ReceiverId, SubQueue, Timestamp};

impl State {
    /// Lets an event about sessions have happened; others change nothing.
    pub(in crate::partition) fn apply_to_sessions(&mut self, event: &Event) {
        match event {
            Event::SessionAwaited { queue, receiver, request, until } => {
                let waiter = Waiter { receiver: *receiver, request: *request, until: *until };
                self.in_sessions(*queue, |sessions| sessions.waiters.push(waiter));
            }
            Event::SessionNotAwaited { queue, receiver } => {
                self.in_sessions(*queue, |sessions| sessions.waiters.remove(*receiver));
            }
            Event::SessionLocked { queue, session, receiver, until } => {
                self.in_sessions(*queue, |sessions| sessions.lock(session, *receiver, *until));
                if let Some(queue) = self.queue_mut(*queue) {
                    queue.credit_changed(*receiver);
                    queue.receivers.unpark(*receiver);
                }
            }
            Event::SessionRenewed { queue, session, until } => {
                self.in_sessions(*queue, |sessions| sessions.prolong(session, *until));
            }
            Event::SessionUnlocked { queue, session, lost } => {
                self.in_sessions(*queue, |sessions| sessions.unlock(session, *lost));
            }
            Event::SessionStateSet { queue, session, number, state, at, .. } => {
                let stored =
                    state.clone().map(|bytes| StoredState { number: *number, bytes, updated_at: *at });
                self.set_session_state(*queue, session, stored);
            }
            _ => {}
        }
    }

    /// A state read back from the store under this number.
    pub(in crate::partition) fn restore_session_state(
        &mut self,
        queue: QueueId,
        number: u64,
        value: &Bytes,
    ) -> Result<(), String> {
        let (id, mut stored) = read_state(number, value)?;
        stored.updated_at = self.restored_instant(stored.updated_at);
        let sessions = self.queue(queue).and_then(|queue| queue.sessions.as_ref());
        let sessions = sessions.ok_or("the state of a session where there are none")?;
        if sessions.get(&id).is_some_and(|session| session.state().is_some()) {
            return Err(format!("a second state of session '{id}'"));
        }
        self.set_session_state(queue, &Arc::from(id), Some(stored));
        Ok(())
    }

    fn in_sessions(&mut self, queue: QueueId, change: impl FnOnce(&mut Sessions)) {
        if let Some(sessions) = self.queue_mut(queue).and_then(|queue| queue.sessions.as_mut()) {
            change(sessions);
        }
    }

    fn set_session_state(&mut self, queue: QueueId, session: &Arc<str>, stored: Option<StoredState>) {
        let Some(sessions) = self.queue_mut(queue).and_then(|queue| queue.sessions.as_mut()) else { return };
        let before = sessions.state_bytes;
        sessions.set_state(session, stored);
        let after = sessions.state_bytes;
        self.size_bytes = self.size_bytes.saturating_sub(before).saturating_add(after);
    }
}

impl Queue {
    /// What a receiver may get changed.
    pub(in crate::partition) fn credit_changed(&mut self, receiver: ReceiverId) {
        if let Some(sessions) = &mut self.sessions
            && let Some(receiving) = self.receivers.get(receiver)
        {
            sessions.credit_changed(receiver, receiving);
        }
    }

    /// A record about to be restored to the main queue.
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
    /// Forgets a receiver that was closed; what it held is unlocked before.
    pub(in crate::partition) fn receiver_closed(&mut self, receiver: ReceiverId) {
        self.waiters.remove(receiver);
        if let Some(id) = self.held.get(&receiver).cloned() {
            self.unlock(&id, false);
        }
    }

    fn lock(&mut self, id: &Arc<str>, receiver: ReceiverId, until: Timestamp) {
        self.waiters.remove(receiver);
        self.unlock(id, false);
        self.create(id, None);
        self.held.insert(receiver, Arc::clone(id));
        self.change(id, |session| {
            session.holder = Some(Holder { receiver, until, listens: false, can_be_served: false });
        });
    }

    fn prolong(&mut self, id: &str, until: Timestamp) {
        self.change(id, |session| {
            if let Some(holder) = &mut session.holder {
                holder.until = until;
            }
        });
    }

    /// An index of a session's state is in use, whatever is stored there.
    pub(in crate::partition) const fn index_taken(&mut self, index: u64) {
        if self.next_state <= index {
            self.next_state = index + 1;
        }
    }

    fn unlock(&mut self, id: &str, lost: bool) {
        if let Some(holder) = self.get(id).and_then(|session| session.holder) {
            self.held.remove(&holder.receiver);
            self.change(id, |session| session.unlock(lost));
        }
    }

    fn set_state(&mut self, id: &Arc<str>, stored: Option<StoredState>) {
        if let Some(stored) = &stored {
            self.create(id, None);
            if let HeadSubject::SessionState(index) = HeadSubject::of(stored.number) {
                self.index_taken(index);
            }
        }
        let length = |state: Option<&StoredState>| state.map_or(0, |state| state.bytes.len() as u64);
        let before = length(self.get(id).and_then(|session| session.state()));
        self.state_bytes = self.state_bytes - before + length(stored.as_ref());
        self.change(id, |session| session.state = stored.map(Box::new));
    }
}
