//! `OpenReceiver` where sessions are required: by id, or the next available.

use super::super::step::Step;
use crate::event::Event;
use crate::{
    AcceptedSession, Effect, LockToken, QueueId, ReceiverId, ReceiverOptions, Refusal, Reply, RequestId,
    SessionId, SessionLock, SessionRequest, SubQueue,
};

/// Longest session id in characters: Service Bus's limit.
const SESSION_ID_CHARACTERS_MAX: usize = 128;

impl Step<'_> {
    /// Checks that a receiver requests a session if and only if the queue requires one.
    pub(super) fn check_session_request(
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

    /// Opens a receiver together with its requested session.
    pub(super) fn accept_session(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        options: ReceiverOptions,
        requested: &SessionRequest,
    ) {
        let queue = options.source.queue;
        let opened = match (requested.lock, requested.id.as_deref()) {
            (SessionLock::TakeOver(token), Some(id)) => self.take_session_over(receiver, options, id, token),
            (SessionLock::TakeOver(_), None) => Err(Refusal::InvalidArgument(
                "The request has a lock token but no session id: taking over a session needs both."
                    .to_owned(),
            )),
            (lock, Some(id)) => {
                self.free_session(queue, id).map(|id| self.open_with(receiver, options, id, lock))
            }
            (lock, None) => match self.next_for_newcomer(queue) {
                Some(id) => Ok(self.open_with(receiver, options, id, lock)),
                None if requested.wait_until <= self.now => Err(Refusal::NoSessionAvailable),
                None => return self.await_session(request, receiver, options, requested),
            },
        };
        self.reply(request, Reply::Opened(opened.map(Some)));
    }

    /// Transfers a session from the holder with this token to the receiver, which may settle the locked messages. The token
    /// stays the same, so that of several receivers that present it each takes over from the previous one.
    fn take_session_over(
        &mut self,
        receiver: ReceiverId,
        options: ReceiverOptions,
        id: &str,
        token: LockToken,
    ) -> Result<AcceptedSession, Refusal> {
        let (queue, session) = (options.source.queue, SessionId::from(id));
        self.end_late_lock(queue, &session);
        let held = self.sessions(queue).and_then(|sessions| sessions.get(&session));
        let holder = held.and_then(|held| held.holder(self.now)).ok_or(Refusal::SessionLockLost)?;
        if holder.token != Some(token) {
            return Err(Refusal::SessionCannotBeLocked(id.into()));
        }
        self.emit(Event::ReceiverOpened { receiver, options });
        let accepted = self.grant(queue, receiver, session, Some(token));
        let (receiver, refusal) = (holder.receiver, Refusal::SessionLockLost);
        self.emit(Event::ReceiverClosed { receiver });
        self.effect(Effect::ReceiverClosed { receiver, refusal });
        Ok(accepted)
    }

    /// The session with this id, existing or not, unless another receiver holds it. The answer has the id in the requested
    /// spelling, because clients for Go and JavaScript accept no other.
    fn free_session(&mut self, queue: QueueId, id: &str) -> Result<SessionId, Refusal> {
        let id = SessionId::from(id);
        self.end_late_lock(queue, &id);
        match self.sessions(queue).and_then(|sessions| sessions.get(&id)) {
            Some(session) if !session.is_free() => Err(Refusal::SessionCannotBeLocked((*id).into())),
            _ => Ok(id),
        }
    }

    /// Ends an expired session lock whose timer has not fired yet.
    fn end_late_lock(&mut self, queue: QueueId, id: &SessionId) {
        let session = self.sessions(queue).and_then(|sessions| sessions.get(id));
        if let Some(holder) = session.and_then(|session| session.late_holder(self.now)) {
            self.end_late_lock_of(holder);
        }
    }

    /// The next available session, unless other receivers are already waiting.
    fn next_for_newcomer(&mut self, queue: QueueId) -> Option<SessionId> {
        let nobody_waits = self.sessions(queue).is_some_and(|sessions| sessions.waiters.is_empty());
        if nobody_waits { self.next_session(queue) } else { None }
    }

    fn open_with(
        &mut self,
        receiver: ReceiverId,
        options: ReceiverOptions,
        session: SessionId,
        lock: SessionLock,
    ) -> AcceptedSession {
        self.emit(Event::ReceiverOpened { receiver, options });
        let token = (lock != SessionLock::Exclusive).then(|| self.new_token());
        self.grant(options.source.queue, receiver, session, token)
    }

    /// Answers when a session is available, or at the timeout.
    fn await_session(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        options: ReceiverOptions,
        requested: &SessionRequest,
    ) {
        self.emit(Event::ReceiverOpened { receiver, options });
        let (queue, until) = (options.source.queue, requested.wait_until);
        let with_token = requested.lock != SessionLock::Exclusive;
        self.emit(Event::SessionAwaited { queue, receiver, request, until, with_token });
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
