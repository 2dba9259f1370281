//! Sessions of the model: holders and states. Ids are in lower case here.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::message::Message;
use super::queue::Queue;
use super::{Rule, Turn};
use crate::{
    AcceptedSession, Effect, LockToken, ReceiverId, ReceiverOptions, Refusal, Reply, RequestId, SessionLock,
    SessionRequest, SubQueue, Timestamp,
};

const ID_CHARACTERS_MAX: usize = 128;

#[derive(Debug, Clone, Default)]
pub(super) struct Session {
    /// The holder, and the end of its lock.
    pub(super) holder: Option<(ReceiverId, u64)>,
    /// The token by which it can be taken over from its holder.
    pub(super) token: Option<LockToken>,
    /// The state, and when it was set.
    pub(super) state: Option<(Bytes, u64)>,
}

#[derive(Debug, Clone)]
pub(super) struct Waiter {
    pub(super) receiver: ReceiverId,
    pub(super) request: RequestId,
    until: u64,
    with_token: bool,
}

impl Queue {
    /// Whether a message is locked together with its session.
    pub(super) fn is_in_session(&self, message: &Message) -> bool {
        self.options.requires_session && message.view.sub_queue == SubQueue::Main
    }

    /// When the lock of a message's session ends.
    pub(super) fn session_end(&self, message: &Message) -> Option<u64> {
        let id = message.session().filter(|_| self.is_in_session(message))?;
        self.sessions.get(&id)?.holder.map(|(_, until)| until)
    }

    /// The session that a receiver holds.
    pub(super) fn held_by(&self, receiver: ReceiverId) -> Option<Arc<str>> {
        let holds = |session: &Session| session.holder.is_some_and(|(holder, _)| holder == receiver);
        self.sessions.iter().find(|(_, session)| holds(session)).map(|(id, _)| Arc::clone(id))
    }

    fn is_held(&self, id: &str) -> bool {
        self.sessions.get(id).is_some_and(|session| session.holder.is_some())
    }

    /// Fires due timers: session locks and timeouts of waiting receivers.
    pub(super) fn end_sessions(&mut self, turn: &mut Turn) {
        let holders = self.sessions.values().filter_map(|session| session.holder);
        let late: Vec<_> =
            holders.filter(|(_, until)| *until <= turn.now).map(|(receiver, _)| receiver).collect();
        let kept = turn.keeps(Rule::WhoAsksForMessagesKeepsTheSession);
        let (keeping, late): (Vec<_>, Vec<_>) =
            late.into_iter().partition(|receiver| kept && self.is_waiting(*receiver));
        for receiver in keeping {
            let id = self.held_by(receiver).unwrap();
            let until = turn.now + self.options.lock_duration_ms;
            self.sessions.get_mut(&id).unwrap().holder = Some((receiver, until));
        }
        for receiver in late {
            self.give_back(turn, receiver, true);
            self.receivers.remove(&receiver.0);
            let refusal = Refusal::SessionLockLost;
            turn.effects.push(Effect::ReceiverClosed { receiver, refusal });
        }
        let grace = u64::from(turn.breaks(Rule::AWaitEndsAtItsInstant));
        let late = self.waiters.iter().filter(|waiter| waiter.until + grace <= turn.now);
        for receiver in late.map(|waiter| waiter.receiver).collect::<Vec<_>>() {
            self.stop_waiting(turn, receiver, Refusal::NoSessionAvailable);
        }
    }

    /// Whether the holder of a session has credit and no locked messages.
    pub(super) fn is_waiting(&self, receiver: ReceiverId) -> bool {
        let Some(id) = self.held_by(receiver) else { return false };
        let in_hand =
            |message: &Message| self.is_in_session(message) && message.is_of(&id) && message.lock.is_some();
        self.receivers[&receiver.0].has_credit() && !self.messages.values().any(in_hand)
    }

    /// Releases a receiver's session; its locked messages are returned.
    fn give_back(&mut self, turn: &Turn, receiver: ReceiverId, lost: bool) {
        let Some(id) = self.held_by(receiver) else { return };
        self.sessions.get_mut(&id).unwrap().holder = None;
        let in_flight = self.numbers_where(|message| {
            self.is_in_session(message) && message.is_of(&id) && message.lock.is_some()
        });
        for number in in_flight {
            if lost {
                self.lose(turn, number, turn.keeps(Rule::ALostSessionCounts));
            } else {
                self.unlock(turn, number, turn.breaks(Rule::AClosedSessionDoesNotCount), false);
            }
        }
    }

    fn stop_waiting(&mut self, turn: &mut Turn, receiver: ReceiverId, refusal: Refusal) {
        let position = self.waiters.iter().position(|waiter| waiter.receiver == receiver);
        let waiter = self.waiters.remove(position.unwrap());
        self.receivers.remove(&receiver.0);
        turn.reply_to(waiter.request, Reply::Opened(Err(refusal)));
    }

    /// Refuses all waiting receivers, because the queue is deleted or may not be received from any more.
    pub(super) fn refuse_waiters(&mut self, turn: &mut Turn, refusal: &Refusal) {
        while let Some(waiter) = self.waiters.first() {
            self.stop_waiting(turn, waiter.receiver, refusal.clone());
        }
    }

    pub(super) fn close(&mut self, turn: &mut Turn, receiver: ReceiverId) {
        if self.waiters.iter().any(|waiter| waiter.receiver == receiver) {
            self.stop_waiting(turn, receiver, Refusal::ReceiverNotFound);
        }
        self.give_back(turn, receiver, false);
        self.receivers.remove(&receiver.0);
    }

    /// Checks that a receiver requests a session if and only if one is required.
    pub(super) fn check_requested(
        &self,
        turn: &Turn,
        sub_queue: SubQueue,
        requested: Option<&SessionRequest>,
    ) -> Result<(), Refusal> {
        let is_main = sub_queue == SubQueue::Main || turn.breaks(Rule::DeadLettersHaveNoSessions);
        match (self.options.requires_session && is_main, requested) {
            (true, None) => Err(Refusal::SessionRequired),
            (false, Some(_)) => Err(Refusal::SessionNotSupported),
            (true, Some(SessionRequest { id: Some(id), .. })) if id.chars().count() > ID_CHARACTERS_MAX => {
                Err(Refusal::InvalidArgument(String::new()))
            }
            _ => Ok(()),
        }
    }

    /// Opens a receiver with its requested session; no answer if it must wait.
    pub(super) fn accept(
        &mut self,
        turn: &mut Turn,
        receiver: ReceiverId,
        options: ReceiverOptions,
        requested: &SessionRequest,
    ) -> Option<Result<AcceptedSession, Refusal>> {
        if let SessionLock::TakeOver(token) = requested.lock {
            return Some(self.take_over(turn, receiver, options, requested.id.as_deref(), token));
        }
        let with_token = requested.lock == SessionLock::NonExclusive;
        let token = turn.session_tokens.get(&turn.request).copied().filter(|_| with_token);
        if let Some(id) = &requested.id {
            let ignores_case = turn.keeps(Rule::SessionIdsIgnoreCase);
            let session: Arc<str> =
                if ignores_case { id.to_ascii_lowercase().into() } else { (&**id).into() };
            if self.is_held(&session) && turn.keeps(Rule::ASessionHasOneHolder) {
                return Some(Err(Refusal::SessionCannotBeLocked(id.clone())));
            }
            self.open(receiver, options);
            return Some(Ok(self.grant(turn, receiver, session, token)));
        }
        let is_first = self.waiters.is_empty() || turn.breaks(Rule::WaitersComeFirst);
        let next = if is_first { self.next_session(turn) } else { None };
        if let Some(id) = next {
            self.open(receiver, options);
            return Some(Ok(self.grant(turn, receiver, id, token)));
        }
        let until = requested.wait_until.0;
        if until <= turn.now {
            return Some(Err(Refusal::NoSessionAvailable));
        }
        self.open(receiver, options);
        self.waiters.push(Waiter { receiver, request: turn.request, until, with_token });
        None
    }

    /// Transfers a session from its holder to the receiver, which presents the token.
    fn take_over(
        &mut self,
        turn: &mut Turn,
        receiver: ReceiverId,
        options: ReceiverOptions,
        id: Option<&str>,
        token: LockToken,
    ) -> Result<AcceptedSession, Refusal> {
        let id = id.ok_or(Refusal::InvalidArgument(String::new()))?;
        let session: Arc<str> = id.to_ascii_lowercase().into();
        let held = self.sessions.get(&session).and_then(|held| Some((held.holder?.0, held.token)));
        let (holder, known) = held.ok_or(Refusal::SessionLockLost)?;
        let fits =
            known == Some(token) || (known.is_some() && turn.breaks(Rule::OnlyItsTokenTakesASessionOver));
        if !fits || turn.breaks(Rule::ATokenTakesASessionOver) {
            return Err(Refusal::SessionCannotBeLocked(id.into()));
        }
        self.open(receiver, options);
        if turn.breaks(Rule::WhatIsInFlightStaysLocked) {
            self.give_back(turn, holder, false);
        }
        self.receivers.remove(&holder.0);
        turn.effects.push(Effect::ReceiverClosed { receiver: holder, refusal: Refusal::SessionLockLost });
        Ok(self.grant(turn, receiver, session, Some(token)))
    }

    fn grant(
        &mut self,
        turn: &Turn,
        receiver: ReceiverId,
        id: Arc<str>,
        token: Option<LockToken>,
    ) -> AcceptedSession {
        let until = turn.now + self.options.lock_duration_ms;
        let session = self.sessions.entry(Arc::clone(&id)).or_default();
        (session.holder, session.token) = (Some((receiver, until)), token);
        AcceptedSession { id, locked_until: Timestamp(until), token }
    }

    /// Of the sessions without a holder, the one with the first available message. The messages of an overdue session expire,
    /// because a receiver would get them.
    fn next_session(&mut self, turn: &Turn) -> Option<Arc<str>> {
        loop {
            let available = self.messages.values().filter(|one| one.is_available_in(SubQueue::Main));
            let ids = available.filter_map(Message::session);
            let mut ids: Vec<_> = ids.filter(|id| !self.is_held(id) && self.first_in(id).is_some()).collect();
            if turn.breaks(Rule::TheOldestSessionComesNext) {
                ids.sort();
            }
            let id = ids.first()?;
            if !self.is_overdue(turn, id) {
                return Some(Arc::clone(id));
            }
            self.expire_session(turn, id);
        }
    }

    fn available_in(&self, id: &str) -> Vec<u64> {
        self.numbers_where(|message| message.is_available_in(SubQueue::Main) && message.is_of(id))
    }

    /// The next message for a session's holder: none while an earlier one is held back.
    pub(super) fn first_in(&self, id: &str) -> Option<u64> {
        let first = self.available_in(id).first().copied()?;
        let is_before =
            |message: &Message| message.view.sequence_number.0 < first && message.held_until.is_some();
        let of_session = |message: &Message| message.view.sub_queue == SubQueue::Main && message.is_of(id);
        let mut before = self.messages.values().filter(|message| of_session(message) && is_before(message));
        before.next().is_none().then_some(first)
    }

    fn is_overdue(&self, turn: &Turn, id: &str) -> bool {
        self.available_in(id).iter().any(|number| self.messages[number].is_over(turn.now))
    }

    /// One expired message expires all available ones (S-23).
    fn expire_session(&mut self, turn: &Turn, id: &str) {
        for number in self.available_in(id) {
            if turn.keeps(Rule::OneExpiresAll) || self.messages[&number].is_over(turn.now) {
                self.expire(number);
            }
        }
    }

    pub(super) fn process_sessions(&mut self, turn: &mut Turn) {
        let mut held: Vec<_> =
            self.sessions.iter().filter_map(|(id, one)| Some((one.holder?.0, Arc::clone(id)))).collect();
        held.sort();
        for (receiver, id) in &held {
            let listens = self.receivers.get(&receiver.0).is_some_and(|receiver| receiver.has_credit());
            let expires = listens || turn.breaks(Rule::SessionsExpireForAListener);
            if expires && self.is_overdue(turn, id) {
                self.expire_session(turn, id);
            }
        }
        while !self.waiters.is_empty() {
            let Some(id) = self.next_session(turn) else { break };
            let last = turn.breaks(Rule::WaitersAreServedInOrder);
            let waiter = self.waiters.remove(if last { self.waiters.len() - 1 } else { 0 });
            held.push((waiter.receiver, Arc::clone(&id)));
            let token = turn.session_tokens.get(&waiter.request).copied().filter(|_| waiter.with_token);
            let accepted = self.grant(turn, waiter.receiver, id, token);
            turn.reply_to(waiter.request, Reply::Opened(Ok(Some(accepted))));
        }
        for (receiver, id) in held {
            self.serve_session(turn, receiver, &id);
        }
    }

    /// Delivers a session's messages to its holder, in order.
    fn serve_session(&mut self, turn: &mut Turn, receiver: ReceiverId, id: &str) {
        while self.receivers.get(&receiver.0).is_some_and(|receiver| receiver.is_ready()) {
            let next = if turn.breaks(Rule::WhatIsHeldBackHoldsItsSession) {
                self.available_in(id).first().copied()
            } else if turn.breaks(Rule::ASessionIsDeliveredInOrder) {
                self.available_in(id).last().copied()
            } else {
                self.first_in(id)
            };
            let Some(number) = next else { return };
            self.deliver(turn, receiver, number);
        }
    }

    pub(super) fn renew_session(&mut self, turn: &Turn, receiver: ReceiverId) -> Result<Timestamp, Refusal> {
        let id = self.held_by(receiver).ok_or(Refusal::SessionLockLost)?;
        let (_, until) = self.sessions.get_mut(&id).unwrap().holder.as_mut().unwrap();
        let from_now = turn.keeps(Rule::SessionRenewalCountsFromNow);
        *until = if from_now { turn.now } else { *until } + self.options.lock_duration_ms;
        Ok(Timestamp(*until))
    }

    pub(super) fn state_of(&self, receiver: ReceiverId) -> Result<Option<Bytes>, Refusal> {
        let id = self.held_by(receiver).ok_or(Refusal::SessionLockLost)?;
        Ok(self.sessions[&id].state.as_ref().map(|(bytes, _)| bytes.clone()))
    }

    pub(super) fn set_state(&mut self, turn: &Turn, id: &str, state: Option<Bytes>) {
        let session = self.sessions.get_mut(id).unwrap();
        if state.is_some() || turn.keeps(Rule::AStateCanBeCleared) {
            session.state = state.map(|bytes| (bytes, turn.now));
        }
    }

    /// Total size of all states.
    pub(super) fn state_bytes(&self) -> u64 {
        let states = self.sessions.values().filter_map(|session| session.state.as_ref());
        states.map(|(bytes, _)| bytes.len() as u64).sum()
    }

    /// Sessions with active messages or a state, or those whose state changed at a time or later.
    pub(super) fn list_sessions(&self, turn: &Turn, updated_since: Option<Timestamp>) -> Vec<Arc<str>> {
        let deferred = turn.breaks(Rule::OnlyActiveMessagesListASession);
        let stays = self.messages.values().filter(|message| {
            message.is_active_in(SubQueue::Main)
                || (deferred && message.view.sub_queue == SubQueue::Main && message.scheduled_for.is_none())
        });
        let with_messages = stays.filter_map(Message::session);
        let since = |instant: Timestamp, at: u64| {
            if turn.keeps(Rule::UpdatedMeansSince) { at >= instant.0 } else { at > instant.0 }
        };
        let with_state = self.sessions.iter().filter(|(_, session)| {
            session.state.as_ref().is_some_and(|(_, at)| updated_since.is_none_or(|it| since(it, *at)))
        });
        let mut listed: BTreeSet<_> = with_state.map(|(id, _)| Arc::clone(id)).collect();
        if updated_since.is_none() {
            listed.extend(with_messages);
        }
        listed.into_iter().collect()
    }
}
