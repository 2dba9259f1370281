//! A queue or subscription of the model.

use std::collections::BTreeMap;

use super::LinkKey;
use super::sessions::{Session, Waiter};
use super::shape::QueueShape;
use crate::message::{Draft, Seen, Token};
use crate::outcome::{ARGUMENT, LOCK_LOST, NO_MESSAGE, NOT_ALLOWED, Outcome, Refused, SESSION_LOST};

/// A part of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Main,
    Dead,
    /// Transfer dead letters.
    Transfer,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lock {
    /// Known as soon as the delivery is seen.
    pub(crate) token: Option<Token>,
    pub(crate) until_ms: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) draft: Draft,
    pub(crate) place: Place,
    pub(crate) is_deferred: bool,
    pub(crate) due_ms: Option<u64>,
    pub(crate) count: u32,
    pub(crate) lock: Option<Lock>,
    pub(crate) enqueued_ms: u64,
    /// The time to live that was asked for.
    pub(super) asked_ms: Option<u64>,
    /// The time to live that it got.
    pub(super) life_ms: Option<u64>,
    pub(crate) expires_ms: u64,
    pub(crate) reason: Option<&'static str>,
    pub(crate) hops: u8,
    /// The rule whose action made it.
    pub(super) rule: Option<&'static str>,
}

/// How a lock is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Complete,
    Abandon,
    Release,
    Defer,
    DeadLetter,
}

#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) place: Place,
    pub(crate) deletes: bool,
    pub(crate) credit: u32,
    /// In lower case.
    pub(crate) session: Option<String>,
    /// Whether it waits for a session.
    pub(crate) waits: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) shape: QueueShape,
    /// Whether its status, and of a subscription that of the topic, allow receiving.
    pub(super) receives: bool,
    /// Distinguishes it from earlier ones of its name.
    pub(super) born: u64,
    pub(super) next: u64,
    pub(crate) messages: BTreeMap<u64, Message>,
    pub(crate) receivers: BTreeMap<LinkKey, Receiver>,
    pub(crate) sessions: BTreeMap<String, Session>,
    pub(super) waiters: Vec<Waiter>,
    /// Ids of accepted messages, with the time and the number.
    remembered: Vec<(String, u64, u64)>,
}

impl Message {
    pub(super) fn new(draft: &Draft) -> Self {
        Self {
            draft: draft.clone(),
            place: Place::Main,
            is_deferred: false,
            due_ms: None,
            count: 0,
            lock: None,
            enqueued_ms: 0,
            asked_ms: draft.life_ms.map(u64::from),
            life_ms: None,
            expires_ms: u64::MAX,
            reason: None,
            hops: 0,
            rule: None,
        }
    }

    /// Starts its life.
    pub(super) fn live(&mut self, now_ms: u64, default_ms: Option<u64>) {
        self.life_ms = [self.asked_ms, default_ms].into_iter().flatten().min();
        self.expires_ms = self.life_ms.map_or(u64::MAX, |life| now_ms + life);
        self.enqueued_ms = now_ms;
        if self.due_ms.is_some() {
            // It starts again when it is due, limited by the default of each time.
            self.asked_ms = self.life_ms;
        }
    }

    pub(crate) fn is_available(&self, place: Place) -> bool {
        self.place == place && !self.is_deferred && self.due_ms.is_none() && self.lock.is_none()
    }

    pub(super) fn session(&self) -> Option<String> {
        self.draft.session.map(str::to_ascii_lowercase)
    }

    pub(super) fn bury(&mut self, reason: &'static str) {
        (self.place, self.is_deferred, self.lock, self.reason) =
            (Place::Dead, false, None, Some(reason).filter(|reason| !reason.is_empty()));
    }

    /// What a client sees of it.
    pub(crate) fn seen(&self, number: u64) -> Seen {
        let state = if self.due_ms.is_some() { 2 } else { i64::from(self.is_deferred) };
        Seen {
            id: self.draft.id,
            number,
            delivery_count: self.count,
            state,
            session: self.draft.session.map(str::to_owned),
            color: self.draft.color,
            rule: self.rule.map(str::to_owned),
            dead_letter_reason: self.reason.map(str::to_owned),
            until_ms: None,
        }
    }
}

impl Queue {
    pub(crate) fn new(shape: QueueShape) -> Self {
        Self { shape, next: 1, receives: true, ..Self::default() }
    }

    pub(super) fn add(&mut self, message: Message) -> u64 {
        let number = self.reserve();
        self.messages.insert(number, message);
        number
    }

    /// A number that no other message gets.
    pub(super) fn reserve(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn send(&mut self, now_ms: u64, draft: &Draft) -> u64 {
        if let Some(number) = self.original_of(draft) {
            return number;
        }
        let mut message = Message::new(draft);
        message.due_ms = draft.due_ms.filter(|due| *due > now_ms);
        message.live(now_ms, self.shape.life_in_effect_ms());
        let number = self.add(message);
        self.remember(now_ms, draft, number);
        number
    }

    pub(super) fn original_of(&self, draft: &Draft) -> Option<u64> {
        self.shape.window_ms?;
        let id = draft.message_id();
        self.remembered.iter().find(|(known, ..)| *known == id).map(|(_, _, number)| *number)
    }

    pub(super) fn remember(&mut self, now_ms: u64, draft: &Draft, number: u64) {
        if self.shape.window_ms.is_some() {
            self.remembered.push((draft.message_id(), now_ms, number));
        }
    }

    pub(super) fn forget_ids(&mut self, now_ms: u64) {
        let window_ms = self.shape.window_ms.unwrap_or_default();
        self.remembered.retain(|(_, at, _)| at + window_ms > now_ms);
    }

    pub(super) fn numbers_where(&self, test: impl Fn(&Message) -> bool) -> Vec<u64> {
        self.messages.iter().filter(|(_, message)| test(message)).map(|(number, _)| *number).collect()
    }

    pub(super) fn open(&mut self, link: LinkKey, place: Place, deletes: bool) {
        let receiver = Receiver { place, deletes, credit: 0, session: None, waits: false };
        self.receivers.insert(link, receiver);
    }

    /// Whether a message is locked together with its session.
    pub(super) fn is_in_session(&self, message: &Message) -> bool {
        self.shape.sessions && message.place == Place::Main
    }

    fn lost(&self, place: Place) -> Refused {
        if self.shape.sessions && place == Place::Main { SESSION_LOST } else { LOCK_LOST }
    }

    fn locked_by(&self, token: Token) -> Option<u64> {
        self.numbers_where(|message| message.lock.is_some_and(|lock| lock.token == Some(token))).pop()
    }

    pub(crate) fn is_locked_by(&self, token: Token) -> bool {
        self.locked_by(token).is_some()
    }

    /// Settles a lock; `place` is where the client thinks that the message is.
    pub(crate) fn settle(
        &mut self,
        now_ms: u64,
        (token, place): (Token, Place),
        verdict: Verdict,
    ) -> Result<(), Refused> {
        self.check_settles(verdict)?;
        let number = self.locked_by(token).ok_or(self.lost(place))?;
        let message = self.messages.get_mut(&number).expect("found");
        match verdict {
            Verdict::DeadLetter if message.place != Place::Main => return Err(NOT_ALLOWED),
            Verdict::Complete => {
                self.messages.remove(&number);
            }
            Verdict::Abandon => self.unlock(now_ms, number, true),
            Verdict::Release => self.unlock(now_ms, number, false),
            Verdict::DeadLetter => message.bury(""),
            Verdict::Defer => {
                let deliveries_max = self.shape.deliveries_max;
                (message.lock, message.is_deferred) = (None, true);
                message.count += u32::from(message.place == Place::Main);
                if message.place == Place::Main && message.count >= deliveries_max {
                    message.bury("MaxDeliveryCountExceeded");
                }
            }
        }
        Ok(())
    }

    /// Ends a lock, by a failed delivery or not.
    pub(super) fn unlock(&mut self, now_ms: u64, number: u64, has_failed: bool) {
        let QueueShape { keeps_expired, deliveries_max, .. } = self.shape;
        let message = self.messages.get_mut(&number).expect("a message");
        message.lock = None;
        let is_main = message.place == Place::Main;
        message.count += u32::from(has_failed && is_main);
        if is_main && !message.is_deferred && message.expires_ms <= now_ms {
            if keeps_expired {
                message.bury("TTLExpiredException");
            } else {
                self.messages.remove(&number);
            }
        } else if has_failed && is_main && message.count >= deliveries_max {
            message.bury("MaxDeliveryCountExceeded");
        }
    }

    pub(super) fn expire(&mut self, number: u64) {
        if self.shape.keeps_expired {
            self.messages.get_mut(&number).expect("a message").bury("TTLExpiredException");
        } else {
            self.messages.remove(&number);
        }
    }

    /// Renews locks, all or none.
    pub(crate) fn renew(&mut self, now_ms: u64, place: Place, tokens: &[Token]) -> Result<Outcome, Refused> {
        if self.shape.sessions && place == Place::Main {
            return Err(NOT_ALLOWED);
        }
        self.check_receives()?;
        let mut numbers = Vec::new();
        for token in tokens {
            let number = self.locked_by(*token).ok_or(LOCK_LOST)?;
            if self.is_in_session(&self.messages[&number]) {
                return Err(ARGUMENT);
            }
            numbers.push(number);
        }
        let until_ms = now_ms + self.shape.lock_ms;
        for number in &numbers {
            let lock = self.messages.get_mut(number).and_then(|message| message.lock.as_mut());
            lock.expect("a lock").until_ms = until_ms;
        }
        Ok(Outcome::Until(vec![until_ms; numbers.len()]))
    }

    pub(crate) fn peek(&self, place: Place, from: u64, count: u32, session: Option<&str>) -> Outcome {
        let wanted = self.messages.range(from..).filter(|(_, message)| {
            let key = session.map(str::to_ascii_lowercase);
            message.place == place && (key.is_none() || message.session() == key)
        });
        let seen: Vec<Seen> =
            wanted.take(count as usize).map(|(number, message)| message.seen(*number)).collect();
        if seen.is_empty() { Outcome::Nothing } else { Outcome::Messages(seen) }
    }

    /// Receives deferred messages, all or none; `session` is that of the asking receiver.
    pub(crate) fn receive_deferred(
        &mut self,
        now_ms: u64,
        (place, deletes): (Place, bool),
        numbers: &[u64],
        session: Option<&str>,
    ) -> Result<Outcome, Refused> {
        check_distinct(numbers)?;
        self.check_receives()?;
        let in_session = self.shape.sessions && place == Place::Main;
        if in_session && session.is_none() {
            return Err(SESSION_LOST);
        }
        let is_there = |message: &Message| {
            message.is_deferred
                && message.place == place
                && message.lock.is_none()
                && (!in_session || message.session().as_deref() == session)
        };
        let there: Vec<u64> =
            numbers.iter().copied().filter(|one| self.messages.get(one).is_some_and(is_there)).collect();
        let is_over = |number: &u64| place == Place::Main && self.messages[number].expires_ms <= now_ms;
        let (over, found): (Vec<u64>, Vec<u64>) = there.into_iter().partition(is_over);
        over.into_iter().for_each(|number| self.expire(number));
        if found.len() < numbers.len() {
            return Err(NO_MESSAGE);
        }
        let held_until = session.and_then(|id| self.sessions.get(id)?.holder).map(|(_, until)| until);
        let until_ms = held_until.filter(|_| in_session).unwrap_or(now_ms + self.shape.lock_ms);
        let mut seen = Vec::new();
        for number in found {
            let message = self.messages.get_mut(&number).expect("found");
            let shown = message.seen(number);
            if deletes {
                self.messages.remove(&number);
                seen.push(shown);
                continue;
            }
            message.lock = Some(Lock { token: None, until_ms });
            seen.push(Seen { until_ms: Some(until_ms), ..shown });
        }
        Ok(Outcome::Messages(seen))
    }

    /// Deletes the oldest available messages; `session` is that of the asking receiver.
    pub(crate) fn delete_messages(
        &mut self,
        place: Place,
        count: u32,
        session: Option<&str>,
    ) -> Result<Outcome, Refused> {
        self.check_receives()?;
        let in_session = self.shape.sessions && place == Place::Main;
        let mut numbers = self.numbers_where(|message| {
            message.is_available(place) && (!in_session || message.session().as_deref() == session)
        });
        numbers.truncate(count as usize);
        for number in &numbers {
            self.messages.remove(number);
        }
        if numbers.is_empty() {
            return Ok(Outcome::Nothing);
        }
        Ok(Outcome::Deleted(u32::try_from(numbers.len()).expect("few messages")))
    }

    /// The token of a message received by number is known.
    pub(crate) fn learn(&mut self, number: u64, token: Token) {
        let lock = self.messages.get_mut(&number).and_then(|message| message.lock.as_mut());
        if let Some(lock) = lock.filter(|lock| lock.token.is_none()) {
            lock.token = Some(token);
        }
    }
}

/// Refuses a list that is empty or names a number twice.
pub(super) fn check_distinct(numbers: &[u64]) -> Result<(), Refused> {
    let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
    if numbers.is_empty() || distinct.len() < numbers.len() { Err(ARGUMENT) } else { Ok(()) }
}
