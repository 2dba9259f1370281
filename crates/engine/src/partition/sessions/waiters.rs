//! Receivers that wait for an available session: first come, first served, none longer than it wants.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ReceiverId, RequestId, Timestamp};

/// One that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition) struct Waiter {
    /// Who.
    pub(in crate::partition) receiver: ReceiverId,
    /// To be answered.
    pub(in crate::partition) request: Option<RequestId>,
    /// How long.
    pub(in crate::partition) until: Timestamp,
    /// Whether it gets a token with the session.
    pub(in crate::partition) with_token: bool,
}

/// All that wait.
#[derive(Debug, Default)]
pub(in crate::partition) struct Waiters {
    /// By the order in which they came.
    queue: BTreeMap<u64, Waiter>,
    places: BTreeMap<ReceiverId, u64>,
    ends: BTreeSet<(Timestamp, u64)>,
    next_place: u64,
}

impl Waiters {
    /// Whose turn it is.
    pub(in crate::partition) fn first(&self) -> Option<Waiter> {
        self.queue.first_key_value().map(|(_, waiter)| *waiter)
    }

    /// Whoever gives up first.
    pub(in crate::partition) fn first_end(&self) -> Option<Waiter> {
        let (_, place) = self.ends.first()?;
        self.queue.get(place).copied()
    }

    /// This one, if it waits.
    pub(in crate::partition) fn get(&self, receiver: ReceiverId) -> Option<Waiter> {
        self.queue.get(self.places.get(&receiver)?).copied()
    }

    /// Whether nobody waits.
    pub(in crate::partition) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// One more.
    pub(super) fn push(&mut self, waiter: Waiter) {
        self.remove(waiter.receiver);
        let place = self.next_place;
        self.next_place += 1;
        self.queue.insert(place, waiter);
        self.places.insert(waiter.receiver, place);
        self.ends.insert((waiter.until, place));
    }

    /// One waits no longer.
    pub(super) fn remove(&mut self, receiver: ReceiverId) {
        if let Some(place) = self.places.remove(&receiver)
            && let Some(waiter) = self.queue.remove(&place)
        {
            self.ends.remove(&(waiter.until, place));
        }
    }
}
