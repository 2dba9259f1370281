//! One session: its messages by their availability, its holder, its state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::super::record::{Extra, Record};
use crate::{LockToken, MessageState, ReceiverId, SequenceNumber, SessionId, Timestamp};

/// The holder of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition) struct Holder {
    /// The receiver.
    pub(in crate::partition) receiver: ReceiverId,
    /// When the lock ends unless renewed.
    pub(in crate::partition) until: Timestamp,
    /// The token that another receiver must present to take the session over; `None` if that is not possible.
    pub(in crate::partition) token: Option<LockToken>,
    /// Whether it has message credit: then it makes the time to live effective (S-24).
    pub(super) listens: bool,
    /// Whether it may get a message now.
    pub(super) can_be_served: bool,
}

impl Holder {
    /// A holder without credit.
    pub(super) const fn new(receiver: ReceiverId, until: Timestamp, token: Option<LockToken>) -> Self {
        Self { receiver, until, token, listens: false, can_be_served: false }
    }
}

/// The state that a holder stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::partition) struct StoredState {
    /// Its number in the `Head` space.
    pub(in crate::partition) number: u64,
    /// The session's id as it was spelled when the state was set.
    pub(in crate::partition) spelling: Arc<str>,
    /// The opaque content.
    pub(in crate::partition) bytes: Bytes,
    /// When it was last set.
    pub(in crate::partition) updated_at: Timestamp,
}

/// A session that has messages, a holder or a state.
#[derive(Debug)]
pub(in crate::partition) struct Session {
    /// Its id in the spelling of the first message, holder or state; may be empty.
    pub(in crate::partition) id: SessionId,
    /// The optional fields of messages that have only this session's id, in the spelling of the latest message: shared by all
    /// messages with that spelling.
    pub(in crate::partition) extra: Arc<Extra>,
    /// Available messages.
    pub(super) available: BTreeSet<SequenceNumber>,
    /// Those of them that expire.
    pub(super) expiries: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Messages locked under the session's lock, deferred ones included.
    pub(super) in_flight: BTreeMap<SequenceNumber, LockToken>,
    /// Deferred, scheduled and held-back messages.
    pub(super) aside: BTreeSet<SequenceNumber>,
    /// Messages held back until a time: later messages wait, so that the order holds.
    pub(super) held_back: BTreeSet<SequenceNumber>,
    /// Number of active messages, in flight or not.
    pub(super) active: u64,
    pub(super) holder: Option<Holder>,
    /// Set while messages are in flight although the lock ended: whether that counts as a failed delivery.
    pub(super) returning: Option<bool>,
    pub(super) state: Option<Box<StoredState>>,
}

/// The indexed properties of a session.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Summary {
    /// Its first available message, if it is free.
    pub(super) head: Option<SequenceNumber>,
    pub(super) lock_end: Option<(Timestamp, ReceiverId)>,
    /// Its earliest expiry, if its holder listens.
    pub(super) expiry: Option<(Timestamp, ReceiverId)>,
    /// The holder, if it can be served and a message is available, with the earliest expiry.
    pub(super) served: Option<(Timestamp, ReceiverId)>,
    pub(super) is_returning: bool,
}

impl Session {
    /// An empty session. `extra` are the optional fields of its first message.
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

    /// Lets later messages share the optional fields of this one.
    pub(super) fn share(&mut self, extra: Option<&Arc<Extra>>) {
        if let Some(extra) = extra.filter(|extra| !Arc::ptr_eq(extra, &self.extra) && is_plain(extra)) {
            self.extra = Arc::clone(extra);
        }
    }

    /// The holder, if the lock has not expired by `now`; its timer may not have fired yet.
    pub(in crate::partition) fn holder(&self, now: Timestamp) -> Option<Holder> {
        self.holder.filter(|holder| holder.until > now)
    }

    /// The former holder, if the lock has expired but its timer has not fired yet.
    pub(in crate::partition) fn late_holder(&self, now: Timestamp) -> Option<ReceiverId> {
        self.holder.filter(|holder| holder.until <= now).map(|holder| holder.receiver)
    }

    /// Whether a receiver can acquire it.
    pub(in crate::partition) const fn is_free(&self) -> bool {
        self.holder.is_none() && self.returning.is_none()
    }

    /// Whether its holder has credit and no locked messages.
    pub(in crate::partition) fn is_awaited(&self) -> bool {
        self.in_flight.is_empty() && self.holder.is_some_and(|holder| holder.listens)
    }

    /// Its first available message, unless an earlier one is held back.
    pub(in crate::partition) fn first_available(&self) -> Option<SequenceNumber> {
        let first = self.available.first().copied()?;
        self.held_back.first().is_none_or(|held_back| *held_back > first).then_some(first)
    }

    /// Its available messages in order.
    pub(in crate::partition) fn all_available(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        self.available.iter().copied()
    }

    /// Whether one of its available messages has expired: then all of them expire (S-23).
    pub(in crate::partition) fn is_overdue(&self, now: Timestamp) -> bool {
        self.expiries.first().is_some_and(|(expiry, _)| *expiry <= now)
    }

    /// The next message to expire when the session is overdue. The message that makes it overdue is the last one, so that the
    /// others follow even if the work is interrupted.
    pub(in crate::partition) fn next_to_expire(&self, now: Timestamp) -> Option<SequenceNumber> {
        let (_, cause) = *self.expiries.first().filter(|(expiry, _)| *expiry <= now)?;
        Some(self.available.iter().copied().find(|number| *number != cause).unwrap_or(cause))
    }

    /// A message in flight under an ended lock, and whether that counts as a failed delivery.
    pub(super) fn next_return(&self) -> Option<(SequenceNumber, LockToken, bool)> {
        let lost = self.returning?;
        self.in_flight.first_key_value().map(|(number, token)| (*number, *token, lost))
    }

    /// The state, if one is set.
    pub(in crate::partition) fn state(&self) -> Option<&StoredState> {
        self.state.as_deref()
    }

    /// Whether it is included in lists of sessions.
    pub(in crate::partition) const fn is_listed(&self) -> bool {
        self.active > 0 || self.state.is_some()
    }

    /// Whether it can be removed from memory.
    pub(super) fn is_vacant(&self) -> bool {
        !self.is_listed() && self.holder.is_none() && self.in_flight.is_empty() && self.aside.is_empty()
    }

    /// Number of its active messages, in flight or not.
    pub(in crate::partition) const fn active(&self) -> u64 {
        self.active
    }

    /// Its messages in flight after a number, with their lock tokens.
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

    /// Adds a message, or puts it back after a change of its lock or record.
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

    /// Removes a message, or takes it out before a change; returns its lock. `record` is the one it was inserted with.
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

    /// Ends the session lock; messages in flight are returned next.
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

/// Whether these optional fields are a session id and nothing else.
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
