//! The sessions of a queue or subscription, indexed so that only listing iterates over them: a message, a lock or a receiver
//! belongs to one session, found by id, and the next or due session is the first element of an ordered set.
//!
//! - `session` is one session, `waiters` are receivers that wait for the next available one.
//! - `apply` updates the indexes, `serve` processes sessions (expiry, grants, deliveries), `lock` ends locks.

mod apply;
mod lock;
mod serve;
mod session;
#[cfg(test)]
pub(super) mod tests;
mod waiters;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

pub(super) use self::session::Session;
use self::session::{Holder, Summary, is_plain};
pub(super) use self::waiters::{Waiter, Waiters};
use super::receivers::Receiver;
use super::record::{Extra, Record};
use crate::layout::HeadSubject;
use crate::{LockToken, ReceiverId, SequenceNumber, SessionId, Timestamp, session_key};

/// All sessions that have messages, a holder or a state.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By session key. The indexes below refer to sessions by key or by holder.
    by_id: BTreeMap<Arc<str>, Session>,
    /// Free sessions with available messages, by their first message.
    ready: BTreeMap<SequenceNumber, Arc<str>>,
    /// The session of each holder.
    held: BTreeMap<ReceiverId, Arc<str>>,
    lock_ends: BTreeSet<(Timestamp, ReceiverId)>,
    /// Earliest expiries of sessions whose holder listens.
    expiries: BTreeSet<(Timestamp, ReceiverId)>,
    /// Holders that can be served and have an available message, by the earliest expiry of their sessions.
    served: BTreeSet<(Timestamp, ReceiverId)>,
    /// Sessions whose lock ended while some message locks have not.
    returning: BTreeSet<Arc<str>>,
    /// Receivers that wait for a session.
    pub(super) waiters: Waiters,
    /// Total size of all states, in bytes.
    state_bytes: u64,
    /// Number of sessions with a state.
    with_state: u64,
    /// Numbers of stored states that were superseded by a later one of the same session in another spelling: stores of earlier
    /// versions may hold one for each spelling. They are deleted when the state of the session is next set.
    superseded: BTreeMap<u64, Arc<str>>,
    /// Index of the next new state.
    next_state: u64,
}

impl Sessions {
    /// One session.
    pub(super) fn get(&self, id: &SessionId) -> Option<&Session> {
        self.by_key(id.key())
    }

    /// Sessions in the order of their keys, from `key` on.
    pub(super) fn from(&self, key: Option<&str>) -> impl Iterator<Item = &Session> {
        self.range(key.map_or(Bound::Unbounded, Bound::Included))
    }

    /// Sessions in the order of their keys, behind `key`.
    pub(super) fn after(&self, key: Option<&str>) -> impl Iterator<Item = &Session> {
        self.range(key.map_or(Bound::Unbounded, Bound::Excluded))
    }

    fn range(&self, from: Bound<&str>) -> impl Iterator<Item = &Session> {
        self.by_id.range::<str, _>((from, Bound::Unbounded)).map(|(_, session)| session)
    }

    fn by_key(&self, key: &str) -> Option<&Session> {
        self.by_id.get(key)
    }

    /// The session of a message.
    pub(super) fn of(&self, record: &Record) -> Option<&Session> {
        self.get(record.session_id()?)
    }

    /// The session that a receiver holds, and its lock, which may have expired already.
    pub(super) fn held_by(&self, receiver: ReceiverId) -> Option<(&Session, Holder)> {
        let session = self.by_key(self.held.get(&receiver)?)?;
        Some((session, session.holder?))
    }

    /// The free session with the lowest available message.
    pub(super) fn first_ready(&self) -> Option<&Session> {
        self.by_key(self.ready.first_key_value()?.1)
    }

    /// The available messages of all free sessions, in order. A session is opened only when its first message is next, so the
    /// cost depends on the number of messages requested.
    pub(super) fn all_available(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        let mut unopened = self.ready.iter().peekable();
        let mut open = BTreeMap::new();
        std::iter::from_fn(move || {
            let next = open.first_key_value().map(|(number, _)| *number);
            let (number, mut rest) = match unopened.next_if(|(head, _)| next.is_none_or(|next| **head < next))
            {
                Some((head, key)) => {
                    let mut messages = self.by_key(key)?.available.iter();
                    messages.next();
                    (*head, messages)
                }
                None => open.pop_first()?,
            };
            if let Some(following) = rest.next() {
                open.insert(*following, rest);
            }
            Some(number)
        })
    }

    /// The session lock that ends first.
    pub(super) fn first_lock_end(&self) -> Option<(Timestamp, ReceiverId)> {
        self.lock_ends.first().copied()
    }

    /// A session with a listening holder and an expired message.
    pub(super) fn first_overdue(&self, now: Timestamp) -> Option<&Session> {
        let (_, receiver) = *self.expiries.first().filter(|(expiry, _)| *expiry <= now)?;
        self.held_by(receiver).map(|(session, _)| session)
    }

    /// A message lock under an ended session lock, and whether it counts as a failed delivery.
    pub(super) fn next_return(&self) -> Option<(SequenceNumber, LockToken, bool)> {
        self.by_key(self.returning.first()?)?.next_return()
    }

    /// A holder that can be served, and its next message. Sessions with an expired message are skipped until that is removed:
    /// an expired message is never delivered (S-4).
    pub(super) fn next_served(&self, now: Timestamp) -> Option<(ReceiverId, SequenceNumber)> {
        let overdue = Bound::Excluded((now, ReceiverId(u64::MAX)));
        let (_, receiver) = *self.served.range((overdue, Bound::Unbounded)).next()?;
        Some((receiver, self.held_by(receiver)?.0.first_available()?))
    }

    /// Whether a receiver of the main queue could get no message even with credit.
    pub(super) fn is_dry(&self, receiver: ReceiverId) -> bool {
        match self.held_by(receiver) {
            Some((session, _)) => session.first_available().is_none(),
            None => self.waiters.get(receiver).is_none(),
        }
    }

    /// The earliest due time; in the past while work is left over.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if !self.returning.is_empty() || (!self.waiters.is_empty() && !self.ready.is_empty()) {
            return Some(Timestamp(0));
        }
        let lock_end = self.lock_ends.first().map(|(at, _)| *at);
        let expiry = self.expiries.first().map(|(at, _)| *at);
        let wait = self.waiters.first_end().map(|waiter| waiter.until);
        lock_end.into_iter().chain(expiry).chain(wait).min()
    }

    /// Numbers of free sessions with available messages, of held sessions, and of sessions with a state.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.ready.len() as u64, self.held.len() as u64, self.with_state)
    }

    /// Total size of all states in bytes; they count toward the size of the entity.
    pub(super) const fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// The number under which a session's state is stored, and whether it is a new one.
    pub(super) fn state_number(&self, session: &Session) -> (u64, bool) {
        let new = HeadSubject::SessionState(self.next_state).number();
        session.state().map_or((new, true), |state| (state.number, false))
    }

    /// Numbers of states that were superseded by this session's.
    pub(super) fn superseded_states(&self, id: &SessionId) -> Vec<u64> {
        let of_session = self.superseded.iter().filter(|(_, key)| *key == id.key());
        of_session.map(|(number, _)| *number).collect()
    }

    /// The optional fields of a message that has only a session id.
    pub(super) fn extra(&self, id: &str) -> Arc<Extra> {
        match self.by_key(&session_key(id)).map(|session| &session.extra) {
            Some(shared) if shared.session_id.as_deref() == Some(id) => Arc::clone(shared),
            _ => Arc::new(Extra { session_id: Some(id.into()), ..Extra::default() }),
        }
    }

    /// Makes a message share its session's id with other messages of the session.
    pub(super) fn share(&self, record: &mut Record) {
        let (Some(session), Some(extra)) = (self.of(record), record.extra()) else { return };
        let shared = Arc::clone(&session.extra);
        if shared.session_id != extra.session_id {
            return;
        }
        if is_plain(extra) {
            record.set_extra(Some(shared));
        } else {
            record.edit_extra(|extra| extra.session_id.clone_from(&shared.session_id));
        }
    }

    /// Adds a message of the main queue.
    pub(super) fn added(&mut self, number: SequenceNumber, record: &Record) {
        let Some(id) = record.session_id() else { return };
        self.create(id, record.extra());
        self.change(id.key(), |session| {
            session.share(record.extra());
            session.insert(number, record, None);
        });
    }

    /// Removes a message of the main queue.
    pub(super) fn removed(&mut self, number: SequenceNumber, record: &Record) {
        let Some(id) = record.session_id() else { return };
        self.change(id.key(), |session| {
            session.remove(number, record);
        });
    }

    /// Updates a message of the main queue; its lock is unchanged.
    pub(super) fn changed(&mut self, number: SequenceNumber, before: &Record, after: &Record) {
        let Some(id) = before.session_id() else { return };
        self.change(id.key(), |session| {
            let lock = session.remove(number, before);
            session.insert(number, after, lock);
        });
    }

    /// Locks or unlocks a message of the main queue.
    pub(super) fn set_lock(&mut self, number: SequenceNumber, record: &Record, lock: Option<LockToken>) {
        let Some(id) = record.session_id() else { return };
        self.change(id.key(), |session| {
            session.remove(number, record);
            session.insert(number, record, lock);
        });
    }

    /// Updates the session of a receiver whose credit changed.
    pub(super) fn credit_changed(&mut self, receiver: ReceiverId, now_has: &Receiver) {
        let Some(key) = self.held.get(&receiver).cloned() else { return };
        self.change(&key, |session| {
            if let Some(holder) = &mut session.holder {
                holder.listens = now_has.has_credit();
                holder.can_be_served = now_has.can_be_served();
            }
        });
    }

    /// Adds a session if it does not exist.
    fn create(&mut self, id: &SessionId, extra: Option<&Arc<Extra>>) {
        if !self.by_id.contains_key(id.key()) {
            self.by_id.insert(Arc::clone(id.key()), Session::new(id.clone(), extra));
        }
    }

    /// Changes a session and updates the indexes; an empty session is removed.
    fn change(&mut self, key: &str, change: impl FnOnce(&mut Session)) {
        let Some(session) = self.by_id.get_mut(key) else { return };
        let before = session.summary();
        change(session);
        let (after, key) = (session.summary(), Arc::clone(session.id.key()));
        if session.is_vacant() {
            self.by_id.remove(&key);
        }
        if before != after {
            self.reindex(&key, before, after);
        }
    }

    fn reindex(&mut self, key: &Arc<str>, before: Summary, after: Summary) {
        if before.head != after.head {
            before.head.map(|head| self.ready.remove(&head));
            after.head.map(|head| self.ready.insert(head, Arc::clone(key)));
        }
        replace(&mut self.lock_ends, before.lock_end, after.lock_end);
        replace(&mut self.expiries, before.expiry, after.expiry);
        replace(&mut self.served, before.served, after.served);
        let is_returning = |is: bool| is.then(|| Arc::clone(key));
        if before.is_returning != after.is_returning {
            replace(&mut self.returning, is_returning(before.is_returning), is_returning(after.is_returning));
        }
    }
}

/// Replaces a member of a set.
fn replace<T: Ord>(set: &mut BTreeSet<T>, before: Option<T>, after: Option<T>) {
    if before == after {
        return;
    }
    before.map(|before| set.remove(&before));
    after.map(|after| set.insert(after));
}
