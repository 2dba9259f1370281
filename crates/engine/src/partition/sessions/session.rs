//! One session: its messages by what may happen to them, who holds it, its state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::super::record::{Extra, Record};
use crate::{LockToken, MessageState, ReceiverId, SequenceNumber, SessionId, Timestamp};

/// Who holds a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition) struct Holder {
    /// The receiver.
    pub(in crate::partition) receiver: ReceiverId,
    /// When the lock ends unless renewed.
    pub(in crate::partition) until: Timestamp,
    /// What has to be presented to take the session over; `None` if nobody may.
    pub(in crate::partition) token: Option<LockToken>,
    /// Whether it has message credit: then it makes the time-to-live effective (S-24).
    pub(super) listens: bool,
    /// Whether it may get a message now.
    pub(super) can_be_served: bool,
}

impl Holder {
    /// One without credit.
    pub(super) const fn new(receiver: ReceiverId, until: Timestamp, token: Option<LockToken>) -> Self {
        Self { receiver, until, token, listens: false, can_be_served: false }
    }
}

/// What a session's holder stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::partition) struct StoredState {
    /// Its number in the `Head` space.
    pub(in crate::partition) number: u64,
    /// The session's id as it was spelled when the state was set.
    pub(in crate::partition) spelling: Arc<str>,
    /// Opaque.
    pub(in crate::partition) bytes: Bytes,
    /// When it was set last.
    pub(in crate::partition) updated_at: Timestamp,
}

/// A session that has messages, a holder or a state.
#[derive(Debug)]
pub(in crate::partition) struct Session {
    /// Its id as the first message, holder or state spelled it; may be empty.
    pub(in crate::partition) id: SessionId,
    /// The rare facts of messages that have no others than this session's id, as the latest of them spells it: one value
    /// for all that spell it so.
    pub(in crate::partition) extra: Arc<Extra>,
    /// Messages that the holder may get.
    pub(super) available: BTreeSet<SequenceNumber>,
    /// Those of them that expire.
    pub(super) expiries: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Messages locked under the session's lock, deferred ones included.
    pub(super) in_flight: BTreeMap<SequenceNumber, LockToken>,
    /// Deferred and scheduled messages, and those held back.
    pub(super) aside: BTreeSet<SequenceNumber>,
    /// Those of them that are held back until a time: what is behind them waits, so that the order holds.
    pub(super) held_back: BTreeSet<SequenceNumber>,
    /// How many messages are active, in flight or not.
    pub(super) active: u64,
    pub(super) holder: Option<Holder>,
    /// The lock ended, and not all of what was in flight is back yet: whether that counts as failed.
    pub(super) returning: Option<bool>,
    pub(super) state: Option<Box<StoredState>>,
}

/// What the indexes over all sessions know of one.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Summary {
    /// Its first available message, if anybody may have it.
    pub(super) head: Option<SequenceNumber>,
    pub(super) lock_end: Option<(Timestamp, ReceiverId)>,
    /// Its earliest expiry, if the holder listens.
    pub(super) expiry: Option<(Timestamp, ReceiverId)>,
    /// The holder, if it may get a message and there is one, under the earliest expiry.
    pub(super) served: Option<(Timestamp, ReceiverId)>,
    pub(super) is_returning: bool,
}

impl Session {
    /// One without anything. `extra` may be the rare facts of its first message.
    pub(super) fn new(id: SessionId, extra: Option<&Arc<Extra>>) -> Self {
        let shared = extra.filter(|extra| is_plain(extra)).cloned();
        let session_id = Some(id.clone());
        Self {
            id,
            extra: shared.unwrap_or_else(|| Arc::new(Extra { session_id, ..Extra::default() })),
            available: BTreeSet::new(),
            expiries: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            aside: BTreeSet::new(),
            held_back: BTreeSet::new(),
            active: 0,
            holder: None,
            returning: None,
            state: None,
        }
    }

    /// Lets the messages that follow share the rare facts of this one.
    pub(super) fn share(&mut self, extra: Option<&Arc<Extra>>) {
        if let Some(extra) = extra.filter(|extra| !Arc::ptr_eq(extra, &self.extra) && is_plain(extra)) {
            self.extra = Arc::clone(extra);
        }
    }

    /// Who holds it, if the lock has not ended by `now`: its timer may not have fired yet.
    pub(in crate::partition) fn holder(&self, now: Timestamp) -> Option<Holder> {
        self.holder.filter(|holder| holder.until > now)
    }

    /// Who held it until the lock ended, if the timer has not fired yet.
    pub(in crate::partition) fn late_holder(&self, now: Timestamp) -> Option<ReceiverId> {
        self.holder.filter(|holder| holder.until <= now).map(|holder| holder.receiver)
    }

    /// Whether a receiver may have it.
    pub(in crate::partition) const fn is_free(&self) -> bool {
        self.holder.is_none() && self.returning.is_none()
    }

    /// Whether its holder asks for messages and has none in hand.
    pub(in crate::partition) fn is_awaited(&self) -> bool {
        self.in_flight.is_empty() && self.holder.is_some_and(|holder| holder.listens)
    }

    /// Its first available message, unless one before it is held back.
    pub(in crate::partition) fn first_available(&self) -> Option<SequenceNumber> {
        let first = self.available.first().copied()?;
        self.held_back.first().is_none_or(|held_back| *held_back > first).then_some(first)
    }

    /// Its available messages in order.
    pub(in crate::partition) fn all_available(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        self.available.iter().copied()
    }

    /// Whether one of its available messages is past its expiry: then all of them are (S-23).
    pub(in crate::partition) fn is_overdue(&self, now: Timestamp) -> bool {
        self.expiries.first().is_some_and(|(expiry, _)| *expiry <= now)
    }

    /// The message to expire next when the session is overdue. The one by which it is goes last, so that the rest
    /// follows even if the work is interrupted.
    pub(in crate::partition) fn next_to_expire(&self, now: Timestamp) -> Option<SequenceNumber> {
        let (_, cause) = *self.expiries.first().filter(|(expiry, _)| *expiry <= now)?;
        Some(self.available.iter().copied().find(|number| *number != cause).unwrap_or(cause))
    }

    /// Something that was in flight when the lock ended, and whether that counts as failed.
    pub(super) fn next_return(&self) -> Option<(SequenceNumber, LockToken, bool)> {
        let lost = self.returning?;
        self.in_flight.first_key_value().map(|(number, token)| (*number, *token, lost))
    }

    /// What its holder stored.
    pub(in crate::partition) fn state(&self) -> Option<&StoredState> {
        self.state.as_deref()
    }

    /// Whether it is among the sessions that exist for whoever lists them.
    pub(super) const fn is_listed(&self) -> bool {
        self.active > 0 || self.state.is_some()
    }

    /// Whether nothing is left to remember.
    pub(super) fn is_vacant(&self) -> bool {
        !self.is_listed() && self.holder.is_none() && self.in_flight.is_empty() && self.aside.is_empty()
    }

    /// How many of its messages are active, in flight or not.
    pub(in crate::partition) const fn active(&self) -> u64 {
        self.active
    }

    /// Its messages in flight behind a number, with their locks.
    pub(in crate::partition) fn in_flight_after(
        &self,
        number: Option<SequenceNumber>,
    ) -> impl Iterator<Item = (SequenceNumber, LockToken)> {
        let from = number.map_or(Bound::Unbounded, Bound::Excluded);
        self.in_flight.range((from, Bound::Unbounded)).map(|(number, token)| (*number, *token))
    }

    /// Its messages from a number on, in order, whatever their state.
    pub(in crate::partition) fn numbers(
        &self,
        from: SequenceNumber,
    ) -> impl Iterator<Item = SequenceNumber> + '_ {
        let mut available = self.available.range(from..).copied().peekable();
        let mut in_flight = self.in_flight.range(from..).map(|(number, _)| *number).peekable();
        let mut aside = self.aside.range(from..).copied().peekable();
        std::iter::from_fn(move || {
            let heads = [available.peek(), in_flight.peek(), aside.peek()];
            let next = heads.into_iter().flatten().min().copied()?;
            available.next_if_eq(&next).or_else(|| in_flight.next_if_eq(&next)).or_else(|| aside.next())
        })
    }

    /// A message arrives, or returns, or is locked.
    pub(super) fn insert(&mut self, number: SequenceNumber, record: &Record, lock: Option<LockToken>) {
        let is_active = record.state() == MessageState::Active;
        self.active += u64::from(is_active);
        if let Some(token) = lock {
            self.in_flight.insert(number, token);
        } else if !record.is_aside() {
            self.available.insert(number);
            if record.expiry() != Timestamp::NEVER {
                self.expiries.insert((record.expiry(), number));
            }
        } else {
            self.aside.insert(number);
            if record.held_until().is_some() {
                self.held_back.insert(number);
            }
        }
    }

    /// A message goes or is about to change; returns its lock. `record` is what it was inserted with.
    pub(super) fn remove(&mut self, number: SequenceNumber, record: &Record) -> Option<LockToken> {
        let lock = self.in_flight.remove(&number);
        if self.in_flight.is_empty() {
            self.returning = None;
        }
        self.held_back.remove(&number);
        let is_available = self.available.remove(&number);
        if is_available {
            self.expiries.remove(&(record.expiry(), number));
        }
        let was_here = lock.is_some() || is_available || self.aside.remove(&number);
        self.active -= u64::from(was_here && record.state() == MessageState::Active);
        lock
    }

    /// The lock ends; what is in flight returns next.
    pub(super) fn unlock(&mut self, lost: bool) {
        self.holder = None;
        self.returning = (!self.in_flight.is_empty()).then_some(lost);
    }

    pub(super) fn summary(&self) -> Summary {
        let head = self.first_available();
        let expiry = self.expiries.first().map(|(expiry, _)| *expiry);
        let holder = self.holder.as_ref();
        let listener = holder.filter(|holder| holder.listens);
        let served = holder.filter(|holder| holder.can_be_served && head.is_some());
        Summary {
            head: head.filter(|_| self.is_free()),
            lock_end: holder.map(|holder| (holder.until, holder.receiver)),
            expiry: listener.and_then(|holder| Some((expiry?, holder.receiver))),
            served: served.map(|holder| (expiry.unwrap_or(Timestamp::NEVER), holder.receiver)),
            is_returning: self.returning.is_some(),
        }
    }
}

/// Whether these rare facts are a session id and nothing else.
pub(super) fn is_plain(extra: &Extra) -> bool {
    let Extra {
        modified,
        dead_letter,
        scheduled_enqueue_time,
        session_id,
        body,
        header_bytes,
        rule_properties,
        forwarded,
        changes,
        held_until,
    } = extra;
    session_id.is_some()
        && modified.is_none()
        && dead_letter.is_none()
        && scheduled_enqueue_time.is_none()
        && body.is_none()
        && *header_bytes == 0
        && rule_properties.is_none()
        && forwarded.is_none()
        && changes.is_none()
        && held_until.is_none()
}
