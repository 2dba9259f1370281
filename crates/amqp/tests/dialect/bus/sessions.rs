//! Sessions of the model, by their ids in lower case.

use super::queue::{Message, Place, Queue};
use super::{Bus, LinkKey, Note, Path};
use crate::message::Token;
use crate::outcome::{BUSY, DISABLED, NO_SESSION, NOT_ALLOWED, NOT_FOUND, Outcome, Refused, SESSION_LOST};

#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    /// The holder, and the end of its lock.
    pub(crate) holder: Option<(LinkKey, u64)>,
    /// The token by which it can be taken over; known when the attach is answered.
    pub(crate) token: Option<Token>,
    /// The state, and when it was set.
    pub(crate) state: Option<(Vec<u8>, u64)>,
}

#[derive(Debug, Clone)]
pub(super) struct Waiter {
    link: LinkKey,
    until_ms: u64,
}

/// How a session is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Exclusive,
    Shared,
    TakeOver(Token),
}

/// A receiver that wants a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) id: Option<&'static str>,
    pub(crate) hold: Hold,
    pub(crate) wait_ms: u32,
}

impl Bus {
    /// Attaches a receiver; no answer if it waits for a session.
    pub(crate) fn receive(
        &mut self,
        path: Path,
        link: LinkKey,
        (place, deletes): (Place, bool),
        wanted: Option<Wanted>,
    ) -> Option<Outcome> {
        let now_ms = self.now_ms;
        let is_topic = self.topics.contains_key(path);
        let Some(queue) = self.source(path).filter(|_| !is_topic || place == Place::Transfer) else {
            // A topic has no dead letters.
            let refused = if is_topic && place == Place::Main { NOT_ALLOWED } else { NOT_FOUND };
            return Some(Outcome::Refused(refused));
        };
        let in_session = queue.shape.sessions && place == Place::Main;
        if (wanted.is_none() || in_session)
            && let Err(refused) = self.enter(link.0, path, true)
        {
            return Some(Outcome::Refused(refused));
        }
        let topic = self.topics.get_mut(path).map(|topic| &mut topic.own);
        let queue = topic.or_else(|| self.queues.get_mut(path)).expect("found");
        let is_forwarded = queue.target(place).is_some();
        let answer = match wanted {
            Some(_) if !in_session => Some(Err(NOT_ALLOWED)),
            _ if !queue.receives => Some(Err(DISABLED)),
            _ if is_forwarded || wanted.is_some() != in_session => Some(Err(NOT_ALLOWED)),
            None => {
                queue.open(link, place, deletes);
                Some(Ok(Outcome::Attached(None)))
            }
            Some(wanted) => queue.accept(now_ms, link, deletes, wanted, &mut self.notes),
        };
        self.look_after();
        answer.map(Into::into)
    }
}

impl Queue {
    fn accept(
        &mut self,
        now_ms: u64,
        link: LinkKey,
        deletes: bool,
        wanted: Wanted,
        notes: &mut Vec<Note>,
    ) -> Option<Result<Outcome, Refused>> {
        let Some(id) = wanted.id.map(str::to_ascii_lowercase) else {
            return self.accept_next(now_ms, link, deletes, wanted);
        };
        let holder = self.sessions.get(&id).and_then(|session| session.holder).map(|(holder, _)| holder);
        if let Hold::TakeOver(token) = wanted.hold {
            let Some(holder) = holder else { return Some(Err(SESSION_LOST)) };
            if self.sessions[&id].token != Some(token) {
                return Some(Err(BUSY));
            }
            self.receivers.remove(&holder);
            notes.push(Note::Ended(holder, SESSION_LOST));
        } else if holder.is_some() {
            return Some(Err(BUSY));
        }
        self.open(link, Place::Main, deletes);
        if !matches!(wanted.hold, Hold::TakeOver(_)) {
            self.sessions.entry(id.clone()).or_default().token = None;
        }
        Some(Ok(self.grant(now_ms, link, &id)))
    }

    fn accept_next(
        &mut self,
        now_ms: u64,
        link: LinkKey,
        deletes: bool,
        wanted: Wanted,
    ) -> Option<Result<Outcome, Refused>> {
        if matches!(wanted.hold, Hold::TakeOver(_)) {
            return Some(Err(crate::outcome::ARGUMENT));
        }
        let next = if self.waiters.is_empty() { self.next_session(now_ms) } else { None };
        if let Some(id) = next {
            self.open(link, Place::Main, deletes);
            self.sessions.entry(id.clone()).or_default().token = None;
            return Some(Ok(self.grant(now_ms, link, &id)));
        }
        if wanted.wait_ms == 0 {
            return Some(Err(NO_SESSION));
        }
        self.open(link, Place::Main, deletes);
        self.receivers.get_mut(&link).expect("opened").waits = true;
        self.waiters.push(Waiter { link, until_ms: now_ms + u64::from(wanted.wait_ms) });
        None
    }

    fn grant(&mut self, now_ms: u64, link: LinkKey, id: &str) -> Outcome {
        let until_ms = now_ms + self.shape.lock_ms;
        self.sessions.entry(id.to_owned()).or_default().holder = Some((link, until_ms));
        let receiver = self.receivers.get_mut(&link).expect("opened");
        (receiver.session, receiver.waits) = (Some(id.to_owned()), false);
        Outcome::Attached(Some((id.to_owned(), until_ms)))
    }

    /// The next message of a session.
    pub(super) fn first_of(&self, id: &str) -> Option<u64> {
        let is_next = |one: &Message| one.is_available(Place::Main) && one.session().as_deref() == Some(id);
        self.numbers_where(is_next).first().copied()
    }

    /// Of the sessions without a holder, the one with the first available message. The messages of an overdue one
    /// expire.
    fn next_session(&mut self, now_ms: u64) -> Option<String> {
        loop {
            let is_held = |id: &String| self.sessions.get(id).is_some_and(|one| one.holder.is_some());
            let mut available = self.messages.values().filter(|one| one.is_available(Place::Main));
            let id = available.find_map(|one| one.session().filter(|id| !is_held(id)))?;
            if !self.expire_session(now_ms, &id) {
                return Some(id);
            }
        }
    }

    /// One expired message expires all available ones of its session.
    fn expire_session(&mut self, now_ms: u64, id: &str) -> bool {
        let all =
            self.numbers_where(|one| one.is_available(Place::Main) && one.session().as_deref() == Some(id));
        let is_over = all.iter().any(|number| self.messages[number].expires_ms <= now_ms);
        if is_over {
            all.into_iter().for_each(|number| self.expire(number));
        }
        is_over
    }

    pub(super) fn look_after_sessions(&mut self, now_ms: u64, notes: &mut Vec<Note>) {
        let listening = self.receivers.values().filter(|one| one.credit > 0 && !one.waits);
        let ids: Vec<String> = listening.filter_map(|one| one.session.clone()).collect();
        for id in ids {
            self.expire_session(now_ms, &id);
        }
        while !self.waiters.is_empty() {
            let Some(id) = self.next_session(now_ms) else { return };
            let link = self.waiters.remove(0).link;
            self.sessions.entry(id.clone()).or_default().token = None;
            let granted = self.grant(now_ms, link, &id);
            notes.push(Note::Attached(link, granted));
        }
    }

    /// A link ends: its session is given back, and its messages are available again.
    pub(super) fn close(&mut self, now_ms: u64, link: LinkKey) {
        self.waiters.retain(|waiter| waiter.link != link);
        let Some(receiver) = self.receivers.remove(&link) else { return };
        if let Some(id) = receiver.session {
            self.give_back(now_ms, &id, false);
        }
    }

    fn give_back(&mut self, now_ms: u64, id: &str, has_failed: bool) {
        self.sessions.entry(id.to_owned()).or_default().holder = None;
        let in_flight = self.numbers_where(|one| {
            one.place == Place::Main && one.lock.is_some() && one.session().as_deref() == Some(id)
        });
        in_flight.into_iter().for_each(|number| self.unlock(now_ms, number, has_failed));
    }

    /// Locks of sessions end, except those of receivers that ask for messages and have none; waits end.
    pub(super) fn end_sessions(&mut self, now_ms: u64, notes: &mut Vec<Note>) {
        let held = self.sessions.iter().filter_map(|(id, one)| Some((id.clone(), one.holder?)));
        let late: Vec<_> = held.filter(|(_, (_, until))| *until <= now_ms).collect();
        for (id, (link, _)) in late {
            let in_hand = |one: &Message| {
                one.place == Place::Main && one.lock.is_some() && one.session() == Some(id.clone())
            };
            if self.receivers[&link].credit > 0 && !self.messages.values().any(in_hand) {
                self.sessions.get_mut(&id).expect("held").holder = Some((link, now_ms + self.shape.lock_ms));
                continue;
            }
            self.give_back(now_ms, &id, true);
            self.receivers.remove(&link);
            notes.push(Note::Ended(link, SESSION_LOST));
        }
        let (late, left) =
            std::mem::take(&mut self.waiters).into_iter().partition(|one| one.until_ms <= now_ms);
        self.waiters = left;
        let late: Vec<Waiter> = late;
        for waiter in late {
            self.receivers.remove(&waiter.link);
            notes.push(Note::Attached(waiter.link, Outcome::Refused(NO_SESSION)));
        }
    }

    /// The receiver of a client that holds a session.
    pub(crate) fn holder(&self, peer: usize, id: &str) -> Result<LinkKey, Refused> {
        let session = self.sessions.get(&id.to_ascii_lowercase());
        let holder = session.and_then(|one| one.holder).map(|(link, _)| link);
        holder.filter(|(of, _)| *of == peer).ok_or(SESSION_LOST)
    }

    /// Whether receivers wait for a session.
    pub(crate) const fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Renews the lock of a session and those of its messages.
    pub(crate) fn renew_session(&mut self, now_ms: u64, id: &str) -> Outcome {
        let until_ms = now_ms + self.shape.lock_ms;
        let key = id.to_ascii_lowercase();
        let session = self.sessions.get_mut(&key).expect("held");
        if let Some((_, until)) = &mut session.holder {
            *until = until_ms;
        }
        Outcome::Until(vec![until_ms])
    }

    /// Sessions with active messages or a state, or those whose state changed after a time.
    pub(crate) fn list_sessions(&self, after_ms: Option<u64>, skip: usize, top: usize) -> Outcome {
        let mut ids = std::collections::BTreeSet::new();
        for (id, session) in &self.sessions {
            if session.state.as_ref().is_some_and(|(_, at)| after_ms.is_none_or(|after| *at > after)) {
                ids.insert(id.clone());
            }
        }
        if after_ms.is_none() {
            let is_active =
                |one: &&Message| one.place == Place::Main && !one.is_deferred && one.due_ms.is_none();
            ids.extend(self.messages.values().filter(is_active).filter_map(Message::session));
        }
        let page: Vec<String> = ids.into_iter().skip(skip).take(top).collect();
        if page.is_empty() { Outcome::Nothing } else { Outcome::Sessions(page) }
    }
}

impl Queue {
    /// Sessions without a holder that have available messages.
    pub(crate) fn sessions_waiting(&self) -> u64 {
        if !self.shape.sessions {
            return 0;
        }
        let available = self.messages.values().filter(|one| one.is_available(Place::Main));
        let ids: std::collections::BTreeSet<String> = available.filter_map(Message::session).collect();
        let is_held = |id: &&String| self.sessions.get(*id).is_some_and(|one| one.holder.is_some());
        ids.iter().filter(|id| !is_held(id)).count() as u64
    }
}
