//! Facts: what happened to a partition. Only these change its state, and only these are stored.

use bytes::Bytes;

use crate::partition::Record;
use crate::{
    BodyRef, CreditLimit, LockToken, ReceiverId, ReceiverOptions, SequenceNumber, SubQueue, Timestamp,
};

/// A fact. Lock tokens and absolute times are inside: applying one needs nothing else.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message was stored, active or scheduled.
    Accepted {
        /// Its number, the next one.
        number: SequenceNumber,
        /// The facts about it.
        record: Record,
        /// The content, stored under the same number.
        content: Bytes,
    },
    /// A scheduled message became available: under a new number, its old one is dead.
    Activated {
        /// The number it had.
        scheduled: SequenceNumber,
        /// Its number from now on, the next one.
        number: SequenceNumber,
        /// The facts about it.
        record: Record,
    },
    /// The facts about a message changed, and a lock on it, if there was one, ended.
    Changed {
        /// Which.
        number: SequenceNumber,
        /// Where it rested.
        from: SubQueue,
        /// The facts from now on.
        record: Record,
        /// The lock that ended.
        lock: Option<LockToken>,
        /// What changed.
        change: Change,
    },
    /// A message left the partition for good.
    Removed {
        /// Which.
        number: SequenceNumber,
        /// Where it rested.
        sub_queue: SubQueue,
        /// Its content, if nothing else refers to it.
        body: Option<BodyRef>,
        /// How.
        removal: Removal,
    },
    /// A message was locked.
    Locked {
        /// Which.
        number: SequenceNumber,
        /// Where it rests.
        sub_queue: SubQueue,
        /// The name of the lock.
        token: LockToken,
        /// When the lock ends unless renewed.
        until: Timestamp,
        /// To whom it was delivered; `None` when it was taken by number.
        receiver: Option<ReceiverId>,
    },
    /// A lock was prolonged.
    Renewed {
        /// Which.
        token: LockToken,
        /// When it ends unless renewed again.
        until: Timestamp,
    },
    /// A lock ended without a trace.
    Released {
        /// Which.
        token: LockToken,
    },
    /// A receiver was opened, without credit.
    ReceiverOpened {
        /// Which.
        receiver: ReceiverId,
        /// What it reads and how.
        options: ReceiverOptions,
    },
    /// A receiver's credit was set.
    CreditSet {
        /// Whose.
        receiver: ReceiverId,
        /// Up to where it may be served.
        limit: CreditLimit,
        /// Whether what it can't use is given back.
        drain: bool,
    },
    /// A receiver's unused credit was given back.
    CreditDrained {
        /// Whose.
        receiver: ReceiverId,
    },
    /// A receiver was closed.
    ReceiverClosed {
        /// Which.
        receiver: ReceiverId,
    },
}

/// What [`Event::Changed`] changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Back in its queue or among the deferred, one more failed delivery counted.
    Returned,
    /// The same, and properties changed.
    ReturnedModified,
    /// Set aside.
    Deferred,
    /// Moved to the dead-letter queue.
    DeadLettered,
}

/// How a message left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Completed by the holder of this lock.
    Completed(LockToken),
    /// Received and deleted: by a receiver, or by number.
    Received(Option<ReceiverId>),
    /// Dropped because its time-to-live was over, at the latest when this lock ended.
    Expired(Option<LockToken>),
    /// Cancelled while it was scheduled.
    Cancelled,
}

/// How much an event weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Gone after a restart: locks, credit.
    Volatile,
    /// Written, not waited for: delivery counts.
    Lazy,
    /// Effects wait until it is durable.
    Sync,
}

impl Event {
    /// The content this event stored, for the cache of recent contents.
    #[must_use]
    pub const fn stored_body(&self) -> Option<(BodyRef, &Bytes)> {
        match self {
            Self::Accepted { number, content, .. } => Some((BodyRef(number.0), content)),
            _ => None,
        }
    }

    /// The content this event made unreachable.
    #[must_use]
    pub const fn removed_body(&self) -> Option<BodyRef> {
        match self {
            Self::Removed { body, .. } => *body,
            _ => None,
        }
    }

    /// How much it weighs.
    #[must_use]
    pub const fn durability(&self) -> Durability {
        match self {
            Self::Accepted { .. } | Self::Activated { .. } | Self::Removed { .. } => Durability::Sync,
            Self::Changed { change: Change::Returned, .. } => Durability::Lazy,
            Self::Changed { .. } => Durability::Sync,
            Self::Locked { .. }
            | Self::Renewed { .. }
            | Self::Released { .. }
            | Self::ReceiverOpened { .. }
            | Self::CreditSet { .. }
            | Self::CreditDrained { .. }
            | Self::ReceiverClosed { .. } => Durability::Volatile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stays_small_because_each_delivery_moves_one() {
        assert!(size_of::<Event>() <= 96, "{} bytes", size_of::<Event>());
    }
}
