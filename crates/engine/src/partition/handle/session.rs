//! `OpenReceiver` where sessions are required: by id, or the next available.

use super::super::step::Step;
use crate::event::Event;
use crate::{
    AcceptedSession, QueueId, ReceiverId, ReceiverOptions, Refusal, Reply, RequestId, SessionId,
    SessionRequest, SubQueue, Timestamp,
};

/// Longest session id in characters: Service Bus's limit.
const SESSION_ID_CHARACTERS_MAX: usize = 128;

impl Step<'_> {
    /// Whether a receiver asks for a session where it must, and only there.
    pub(super) fn check_session_wish(
        &self,
        options: ReceiverOptions,
        requested: Option<&SessionRequest>,
    ) -> Result<(), Refusal> {
        let has_sessions = self.sessions(options.source.queue).is_some();
        match (has_sessions && options.source.sub_queue == SubQueue::Main, requested) {
            (true, None) => Err(Refusal::SessionRequired),
            (false, Some(_)) => Err(Refusal::SessionNotSupported),
            (true, Some(SessionRequest { id: Some(id), .. })) => check_session_id(id),
            _ => Ok(()),
        }
    }

    /// Opens a receiver together with the session it wants.
    pub(super) fn accept_session(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        options: ReceiverOptions,
        requested: SessionRequest,
    ) {
        let queue = options.source.queue;
        let session = match requested.id {
            Some(id) => self.free_session(queue, &id),
            None => match self.next_for_newcomer(queue) {
                Some(id) => Ok(id),
                None if requested.wait_until <= self.now => Err(Refusal::NoSessionAvailable),
                None => return self.await_session(request, receiver, options, requested.wait_until),
            },
        };
        let opened = session.map(|id| Some(self.open_with(receiver, options, id)));
        self.reply(request, Reply::Opened(opened));
    }

    /// The session of this id, there or not, unless another receiver holds it. The answer spells it as it was asked for:
    /// clients for Go and JavaScript accept no other spelling.
    fn free_session(&mut self, queue: QueueId, id: &str) -> Result<SessionId, Refusal> {
        let id = SessionId::from(id);
        let session = self.sessions(queue).and_then(|sessions| sessions.get(&id));
        if let Some(holder) = session.and_then(|session| session.late_holder(self.now)) {
            self.end_session_lock(queue, holder);
            self.return_in_flight(queue);
        }
        match self.sessions(queue).and_then(|sessions| sessions.get(&id)) {
            Some(session) if !session.is_free() => Err(Refusal::SessionCannotBeLocked((*id).into())),
            _ => Ok(id),
        }
    }

    /// The next available session, unless others wait already.
    fn next_for_newcomer(&mut self, queue: QueueId) -> Option<SessionId> {
        let nobody_waits = self.sessions(queue).is_some_and(|sessions| sessions.waiters.is_empty());
        if nobody_waits { self.next_session(queue) } else { None }
    }

    fn open_with(
        &mut self,
        receiver: ReceiverId,
        options: ReceiverOptions,
        session: SessionId,
    ) -> AcceptedSession {
        self.emit(Event::ReceiverOpened { receiver, options });
        self.grant(options.source.queue, receiver, session)
    }

    /// The answer comes when a session is available, or when the time is over.
    fn await_session(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        options: ReceiverOptions,
        until: Timestamp,
    ) {
        self.emit(Event::ReceiverOpened { receiver, options });
        self.emit(Event::SessionAwaited { queue: options.source.queue, receiver, request, until });
    }
}

fn check_session_id(id: &str) -> Result<(), Refusal> {
    let characters = id.chars().count();
    if characters > SESSION_ID_CHARACTERS_MAX {
        return Err(Refusal::InvalidArgument(format!(
            "The session id has {characters} characters, at most {SESSION_ID_CHARACTERS_MAX} are allowed."
        )));
    }
    Ok(())
}
