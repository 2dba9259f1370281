//! Helpers for tests of sessions.

use std::sync::Arc;

use bytes::Bytes;

use super::rig::{QUEUE, Rig, deliveries, message, options, path};
use crate::{
    AcceptedSession, Command, Effect, Lock, LockToken, MessageView, NewMessage, QueueOptions, ReceiveMode,
    ReceiverId, ReceiverOptions, Refusal, Reply, RequestId, SequenceNumber, SessionLock, SessionRequest,
    SubQueue, Timestamp,
};

/// A message of a session.
pub(super) fn of(session: &str, content: &'static str) -> NewMessage {
    NewMessage { session_id: Some(session.into()), ..message(content) }
}

pub(super) fn of_with_ttl(session: &str, content: &'static str, time_to_live_ms: u64) -> NewMessage {
    NewMessage { time_to_live_ms: Some(time_to_live_ms), ..of(session, content) }
}

pub(super) fn with_sessions() -> QueueOptions {
    QueueOptions { requires_session: true, ..options() }
}

/// The numbers of the messages delivered to one receiver.
pub(super) fn numbers_for(receiver: ReceiverId, effects: Vec<Effect>) -> Vec<u64> {
    let of = |(to, view, _): (ReceiverId, MessageView, _)| (to == receiver).then_some(view.sequence_number.0);
    deliveries(effects).into_iter().filter_map(of).collect()
}

/// The receivers that effects close, with the reason.
pub(super) fn closed(effects: &[Effect]) -> Vec<(ReceiverId, Refusal)> {
    let closed = effects.iter().filter_map(|effect| match effect {
        Effect::ReceiverClosed { receiver, refusal } => Some((*receiver, refusal.clone())),
        _ => None,
    });
    closed.collect()
}

/// The answers to requests for a session.
pub(super) fn opened(effects: &[Effect]) -> Vec<(u64, Result<String, Refusal>)> {
    let opened = effects.iter().filter_map(|effect| match effect {
        Effect::Reply { request, reply: Reply::Opened(opened) } => {
            Some((request.0, opened.clone().map(|session| session.unwrap().id.to_string())))
        }
        _ => None,
    });
    opened.collect()
}

impl Rig {
    pub(super) fn new_receiver(&mut self) -> ReceiverId {
        let receiver = ReceiverId(self.next_receiver);
        self.next_receiver += 1;
        receiver
    }

    fn open_command(
        receiver: ReceiverId,
        sub_queue: SubQueue,
        mode: ReceiveMode,
        session: Option<SessionRequest>,
    ) -> Command {
        Command::OpenReceiver {
            receiver,
            options: ReceiverOptions { source: path(sub_queue), mode },
            session,
        }
    }

    /// Opens a receiver, with or without a session.
    pub(super) fn try_open(
        &mut self,
        sub_queue: SubQueue,
        session: Option<&str>,
    ) -> Result<(ReceiverId, Option<AcceptedSession>), Refusal> {
        self.try_open_in(ReceiveMode::PeekLock, sub_queue, session)
    }

    pub(super) fn try_open_in(
        &mut self,
        mode: ReceiveMode,
        sub_queue: SubQueue,
        session: Option<&str>,
    ) -> Result<(ReceiverId, Option<AcceptedSession>), Refusal> {
        let receiver = self.new_receiver();
        let requested = session.map(|id| SessionRequest {
            id: Some(id.into()),
            wait_until: Timestamp(0),
            ..SessionRequest::default()
        });
        match self.ask(Self::open_command(receiver, sub_queue, mode, requested)) {
            Reply::Opened(opened) => opened.map(|session| (receiver, session)),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn accept(&mut self, session: &str) -> ReceiverId {
        let (receiver, accepted) = self.try_open(SubQueue::Main, Some(session)).unwrap();
        let locked_until = self.now.plus_ms(super::rig::LOCK_MS);
        assert_eq!(accepted, Some(AcceptedSession { id: session.into(), locked_until, token: None }));
        receiver
    }

    /// Accepts a session non-exclusively, or takes it over.
    pub(super) fn accept_with(
        &mut self,
        id: Option<&str>,
        lock: SessionLock,
    ) -> Result<(ReceiverId, LockToken), Refusal> {
        let receiver = self.new_receiver();
        let (id, wait_until) = (id.map(Into::into), Timestamp(0));
        let requested = SessionRequest { id, wait_until, lock };
        let open = Self::open_command(receiver, SubQueue::Main, ReceiveMode::PeekLock, Some(requested));
        let request = RequestId(98);
        self.effects = self.handle(Some(request), open);
        let answer = self.effects.iter().find_map(|effect| match effect {
            Effect::Reply { request: of, reply: Reply::Opened(opened) } if *of == request => {
                Some(opened.clone())
            }
            _ => None,
        });
        let accepted = answer.expect("an answer")?.expect("a session");
        Ok((receiver, accepted.token.expect("a token")))
    }

    /// Accepts a session and receives up to `count` of its messages, which stay locked.
    pub(super) fn accept_and_take(&mut self, session: &str, count: u64) -> (ReceiverId, Vec<LockToken>) {
        let receiver = self.accept(session);
        (receiver, self.take_in_session(receiver, count).into_iter().map(|(_, lock)| lock.token).collect())
    }

    /// Raises a new receiver's credit; returns the messages it gets at once.
    pub(super) fn take_in_session(&mut self, receiver: ReceiverId, up_to: u64) -> Vec<(MessageView, Lock)> {
        let delivered = deliveries(self.credit(receiver, up_to, false));
        delivered.into_iter().map(|(_, view, lock)| (view, lock.unwrap())).collect()
    }

    /// Requests the next available session; the outcome is in the effects.
    pub(super) fn ask_next(&mut self, request: u64, wait_ms: u64) -> (ReceiverId, Vec<Effect>) {
        let receiver = self.new_receiver();
        let requested =
            SessionRequest { id: None, wait_until: self.now.plus_ms(wait_ms), ..SessionRequest::default() };
        let command = Self::open_command(receiver, SubQueue::Main, ReceiveMode::PeekLock, Some(requested));
        (receiver, self.handle(Some(RequestId(request)), command))
    }

    /// The next available session, at once or not at all.
    pub(super) fn next_available(&mut self) -> Result<(ReceiverId, String), Refusal> {
        let (receiver, effects) = self.ask_next(50, 0);
        let (_, session) = opened(&effects).pop().unwrap();
        session.map(|id| (receiver, id))
    }

    /// Waits for any session with this kind of lock.
    pub(super) fn wait_for_a_session(&mut self, lock: SessionLock) -> ReceiverId {
        let receiver = self.new_receiver();
        let requested = SessionRequest { id: None, wait_until: self.now.plus_ms(1000), lock };
        let open = Self::open_command(receiver, SubQueue::Main, ReceiveMode::PeekLock, Some(requested));
        assert_eq!(self.handle(Some(RequestId(97)), open), [], "it waits");
        receiver
    }

    /// The token by which a receiver's session can be taken over.
    pub(super) fn token_of(&self, receiver: ReceiverId) -> Option<LockToken> {
        let sessions = self.partition.state.entity.sessions.as_ref()?;
        sessions.held_by(receiver).and_then(|(_, holder)| holder.token)
    }

    pub(super) fn close(&mut self, receiver: ReceiverId) -> Vec<Effect> {
        self.handle(None, Command::CloseReceiver { receiver })
    }

    pub(super) fn set_state(
        &mut self,
        receiver: ReceiverId,
        state: Option<&'static str>,
    ) -> Result<(), Refusal> {
        let state = state.map(|state| Bytes::from_static(state.as_bytes()));
        match self.ask(Command::SetSessionState { receiver, state }) {
            Reply::Done(done) => done,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn state(&mut self, receiver: ReceiverId) -> Result<Option<Bytes>, Refusal> {
        match self.ask(Command::GetSessionState { receiver }) {
            Reply::SessionState(state) => state,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn renew_session(&mut self, receiver: ReceiverId) -> Result<Timestamp, Refusal> {
        match self.ask(Command::RenewSessionLock { receiver }) {
            Reply::SessionRenewed(until) => until,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn list(&mut self, updated_since: Option<Timestamp>) -> Vec<String> {
        self.try_list(updated_since, 0, 1000).unwrap().iter().map(ToString::to_string).collect()
    }

    pub(super) fn try_list(
        &mut self,
        updated_since: Option<Timestamp>,
        skip: u32,
        top: u32,
    ) -> Result<Vec<Arc<str>>, Refusal> {
        match self.ask(Command::ListSessions { queue: QUEUE, updated_since, skip, top }) {
            Reply::Sessions(sessions) => sessions,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn peek_session(&mut self, session: &str, from: u64, count_max: u32) -> Vec<u64> {
        self.peek_session_of(SubQueue::Main, session, from, count_max)
    }

    pub(super) fn peek_session_of(
        &mut self,
        sub_queue: SubQueue,
        session: &str,
        from: u64,
        count_max: u32,
    ) -> Vec<u64> {
        let (from, bytes_max) = (SequenceNumber(from), usize::MAX);
        let (source, session) = (path(sub_queue), Some(session.into()));
        match self.ask(Command::Peek { from, count_max, bytes_max, source, session }) {
            Reply::Received(Ok(shown)) => shown.iter().map(|(view, _)| view.sequence_number.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn receive_deferred_for(
        &mut self,
        receiver: Option<ReceiverId>,
        numbers: &[u64],
    ) -> Result<Vec<(MessageView, Option<Lock>)>, Refusal> {
        let numbers = numbers.iter().copied().map(SequenceNumber).collect();
        let (source, mode) = (path(SubQueue::Main), ReceiveMode::PeekLock);
        match self.ask(Command::ReceiveDeferred { numbers, source, mode, receiver, bytes_max: usize::MAX }) {
            Reply::Received(received) => received,
            other => panic!("{other:?}"),
        }
    }

    /// Delivery counts of all messages in a sub-queue, by number.
    pub(super) fn delivery_counts(&mut self, sub_queue: SubQueue) -> Vec<(u64, u32)> {
        self.peek(sub_queue).iter().map(|view| (view.sequence_number.0, view.delivery_count)).collect()
    }
}
