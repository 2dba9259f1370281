//! Receivers that wait for an available session: first come, first served, each with a timeout.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ReceiverId, RequestId, Timestamp};

/// A waiting receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition) struct Waiter {
    /// The receiver.
    pub(in crate::partition) receiver: ReceiverId,
    /// The request to be answered.
    pub(in crate::partition) request: Option<RequestId>,
    /// The end of its timeout.
    pub(in crate::partition) until: Timestamp,
    /// Whether it gets a lock token with the session.
    pub(in crate::partition) with_token: bool,
}

/// All waiting receivers.
#[derive(Debug, Default)]
pub(in crate::partition) struct Waiters {
    /// In the order of arrival.
    queue: BTreeMap<u64, Waiter>,
    places: BTreeMap<ReceiverId, u64>,
    ends: BTreeSet<(Timestamp, u64)>,
    next_place: u64,
}

impl Waiters {
    /// The receiver whose turn it is.
    pub(in crate::partition) fn first(&self) -> Option<Waiter> {
        self.queue.first_key_value().map(|(_, waiter)| *waiter)
    }

    /// The receiver whose timeout ends first.
    pub(in crate::partition) fn first_end(&self) -> Option<Waiter> {
        let (_, place) = self.ends.first()?;
        self.queue.get(place).copied()
    }

    /// A receiver, if it is waiting.
    pub(in crate::partition) fn get(&self, receiver: ReceiverId) -> Option<Waiter> {
        self.queue.get(self.places.get(&receiver)?).copied()
    }

    /// Whether no receiver is waiting.
    pub(in crate::partition) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a receiver.
    pub(super) fn push(&mut self, waiter: Waiter) {
        self.remove(waiter.receiver);
        let place = self.next_place;
        self.next_place += 1;
        self.queue.insert(place, waiter);
        self.places.insert(waiter.receiver, place);
        self.ends.insert((waiter.until, place));
    }

    /// Removes a receiver.
    pub(super) fn remove(&mut self, receiver: ReceiverId) {
        if let Some(place) = self.places.remove(&receiver)
            && let Some(waiter) = self.queue.remove(&place)
        {
            self.ends.remove(&(waiter.until, place));
        }
    }
}
