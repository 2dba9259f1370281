//! `GetSessionState` and `SetSessionState`: opaque bytes that outlive the session's messages; accessible to its holder only.

use bytes::Bytes;

use super::super::step::Step;
use crate::event::Event;
use crate::{QueueId, ReceiverId, Refusal, Reply, RequestId, SessionId};

impl Step<'_> {
    pub(in crate::partition) fn get_session_state(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
    ) {
        let state = self.held_session(receiver).map(|(queue, id)| {
            let session = self.sessions(queue).and_then(|sessions| sessions.get(&id));
            session.and_then(|session| session.state()).map(|state| state.bytes.clone())
        });
        self.reply(request, Reply::SessionState(state));
    }

    pub(in crate::partition) fn set_session_state(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        state: Option<Bytes>,
    ) {
        let done = self.try_set_session_state(receiver, state);
        self.reply(request, Reply::Done(done));
    }

    /// Size of the state of the session that a receiver holds, in bytes.
    pub(in crate::partition) fn held_state_bytes(&self, receiver: ReceiverId) -> Result<u64, Refusal> {
        let (queue, id) = self.held_session(receiver)?;
        let session = self.sessions(queue).and_then(|sessions| sessions.get(&id));
        let session = session.ok_or(Refusal::SessionLockLost)?;
        Ok(session.state().map_or(0, |state| state.bytes.len() as u64))
    }

    fn try_set_session_state(&mut self, receiver: ReceiverId, state: Option<Bytes>) -> Result<(), Refusal> {
        let (queue, id) = self.held_session(receiver)?;
        let size_bytes = state.as_ref().map_or(0, |state| state.len() as u64);
        self.check_state_size(self.held_state_bytes(receiver)?, size_bytes, 0)?;
        let sessions = self.sessions(queue).ok_or(Refusal::SessionLockLost)?;
        let session = sessions.get(&id).ok_or(Refusal::SessionLockLost)?;
        if state.is_none() && session.state().is_none() {
            return Ok(());
        }
        let (number, created) = sessions.state_number(session);
        let at = self.now;
        let superseded = sessions.superseded_states(&id);
        for number in superseded {
            let session = id.clone();
            self.emit(Event::SessionStateSet { queue, session, number, state: None, at, created: false });
        }
        self.emit(Event::SessionStateSet { queue, session: id, number, state, at, created });
        Ok(())
    }

    /// Checks the size of a state: it may be as large as a message, and counts toward the size of the entity, together with
    /// `other_bytes`; a state that shrinks always fits.
    pub(in crate::partition) fn check_state_size(
        &self,
        before_bytes: u64,
        size_bytes: u64,
        other_bytes: u64,
    ) -> Result<(), Refusal> {
        let limit_bytes = self.state().options.max_message_size_bytes();
        if size_bytes > limit_bytes {
            return Err(Refusal::MessageTooLarge { size_bytes, limit_bytes });
        }
        let limit_bytes = self.state().options.max_size_bytes();
        let all_bytes = self.state().size_bytes.saturating_add(other_bytes);
        let total_bytes = all_bytes.saturating_sub(before_bytes).saturating_add(size_bytes);
        if total_bytes > limit_bytes && size_bytes > before_bytes {
            return Err(Refusal::EntityFull { limit_bytes });
        }
        Ok(())
    }

    /// The queue and session that a receiver holds. One that listens without a message in hand keeps its session, although a
    /// transaction may be prepared before the late timer says so.
    fn held_session(&self, receiver: ReceiverId) -> Result<(QueueId, SessionId), Refusal> {
        let queue = self.state().source_of(receiver).ok_or(Refusal::SessionLockLost)?;
        let held = queue.sessions.as_deref().and_then(|sessions| sessions.held_by(receiver));
        match held {
            Some((session, holder)) if holder.until > self.now || session.is_awaited() => {
                Ok((queue.id, session.id.clone()))
            }
            _ => Err(Refusal::SessionLockLost),
        }
    }
}
