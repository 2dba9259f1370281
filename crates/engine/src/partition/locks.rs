//! Locks: looked up by token, ended in order of time.

use std::collections::HashMap;
use std::ops::Bound;

use rustc_hash::FxBuildHasher;

use self::ends::{End, Ends};
use crate::{LockToken, QueueId, ReceiverId, SequenceNumber, SubQueue, Timestamp};

mod ends;

/// Capacity that the table of locks keeps.
const CAPACITY_KEPT: usize = 4096;
/// A larger table is shrunk when fewer than one in this many of its places are used.
const SPARSE_RATIO: usize = 8;

/// A locked message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockedMessage {
    /// The queue or subscription.
    pub(super) queue: QueueId,
    /// The sub-queue of the message.
    pub(super) sub_queue: SubQueue,
    /// The message.
    pub(super) number: SequenceNumber,
    /// The receiver that got the message, if any; it may be closed by now.
    pub(super) receiver: Option<ReceiverId>,
    /// When the lock ends unless renewed.
    pub(super) until: Timestamp,
    /// Whether it ends with its session's lock instead, without a timer of its own.
    pub(super) in_session: bool,
    /// Whether the expiry of the lock counts as a failed delivery.
    pub(super) counts: bool,
}

/// Used for lookups only; no iteration order is visible. Tokens are drawn here at random, so a peer can't choose colliding
/// ones.
type Held = HashMap<LockToken, LockedMessage, FxBuildHasher>;

/// All locks of a partition.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: Held,
    ends: Ends,
    /// Number of scans by [`Self::remove_of`].
    #[cfg(test)]
    pub(super) scans: usize,
}

/// Whether an entry of [`Ends`] is valid: the lock exists and still ends at that time.
fn counts(held: &Held, (until, _, token): &End) -> bool {
    held.get(token).is_some_and(|held| held.until == *until)
}

impl Locks {
    /// The lock with this token, if it has not expired by `now`; its timer may not have fired yet. Session locks are not
    /// checked here.
    pub(super) fn get(&self, token: LockToken, now: Timestamp) -> Option<LockedMessage> {
        self.held.get(&token).copied().filter(|held| held.in_session || held.until > now)
    }

    /// The lock with this token, even if it has expired and its timer has not fired yet.
    pub(super) fn find(&self, token: LockToken) -> Option<LockedMessage> {
        self.held.get(&token).copied()
    }

    /// The lock that ends first.
    pub(super) fn first_end(&self) -> Option<(LockToken, LockedMessage)> {
        let (_, _, token) = *self.ends.first()?;
        Some((token, *self.held.get(&token)?))
    }

    /// Locks that never expire, by number.
    pub(super) fn endless(&self) -> impl Iterator<Item = (LockToken, &LockedMessage)> {
        let from = (Timestamp::NEVER, SequenceNumber(0), LockToken(0));
        let ends = self.ends.from(Bound::Included(from), |end| counts(&self.held, end));
        ends.filter_map(|(_, _, token)| Some((*token, self.held.get(token)?)))
    }

    /// Locks that expire by themselves, in order of their ends, after a given one.
    pub(super) fn after(
        &self,
        after: Option<(Timestamp, SequenceNumber, LockToken)>,
    ) -> impl Iterator<Item = ((Timestamp, SequenceNumber, LockToken), &LockedMessage)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let ends = self.ends.from(from, |end| counts(&self.held, end));
        ends.filter_map(|at| Some((*at, self.held.get(&at.2)?)))
    }

    /// Adds a lock.
    pub(super) fn insert(&mut self, token: LockToken, held: LockedMessage) {
        self.held.insert(token, held);
        if !held.in_session {
            self.ends.insert(held.until, held.number, token);
        }
    }

    /// Changes the end of a lock.
    pub(super) fn prolong(&mut self, token: LockToken, until: Timestamp) {
        if let Some(held) = self.held.get_mut(&token).filter(|held| !held.in_session) {
            let (earlier, number) = (held.until, held.number);
            if earlier != until {
                held.until = until;
                self.ends.remove((earlier, number, token), |end| counts(&self.held, end));
                self.ends.insert(until, number, token);
            }
        }
    }

    /// Ends a lock.
    pub(super) fn remove(&mut self, token: LockToken) -> Option<LockedMessage> {
        let held = self.held.remove(&token)?;
        if !held.in_session {
            self.ends.remove((held.until, held.number, token), |end| counts(&self.held, end));
        }
        if self.held.capacity() > CAPACITY_KEPT.max(self.held.len() * SPARSE_RATIO) {
            self.held.shrink_to(self.held.len() * 2);
        }
        Some(held)
    }

    /// Removes all locks of a queue that is deleted. Scans all locks, also those of others: only for a queue that has some.
    /// Their order does not matter.
    pub(super) fn remove_of(&mut self, queue: QueueId) {
        #[cfg(test)]
        {
            self.scans += 1;
        }
        self.held.retain(|_, held| held.queue != queue);
        self.ends.tidy(|end| counts(&self.held, end));
    }

    /// Number of locks.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}
