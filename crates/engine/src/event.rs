//! Events: the changes of a partition. Only events change its state, and only events are stored.

mod details;

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;

pub use self::details::{Deletion, Publication, SubscriptionCopy};
use crate::partition::{Record, SelectionChange};
use crate::{
    BodyRef, CreditLimit, EntityOptions, EntityTimes, LockToken, MessageKey, QueueId, ReceiverId,
    ReceiverOptions, RequestId, Rule, SequenceNumber, SessionId, SubQueue, SubscriptionOptions, Timestamp,
};

/// A change of the state. Contains lock tokens and absolute times, so applying it needs no other input.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message was stored in the entity itself: active in a queue, scheduled in a queue or topic.
    Accepted {
        /// Its number: the next one of the entity, or a reserved one.
        number: SequenceNumber,
        /// Whether the number was reserved: then later numbers may have been used already.
        is_reserved: bool,
        /// Its record.
        record: Record,
        /// Its body, stored with the same number.
        content: Bytes,
    },
    /// A message was published on a topic: copies in its subscriptions share one body. Without copies nothing is stored.
    Published(Box<Publication>),
    /// A scheduled message of a queue became available with a new number; its old one is invalid.
    Activated {
        /// Its number until now.
        scheduled: SequenceNumber,
        /// Its new number, the next one.
        number: SequenceNumber,
        /// Its record.
        record: Record,
    },
    /// The record of a message changed; its lock, if it had one, ended.
    Changed {
        /// Its queue.
        queue: QueueId,
        /// Its number.
        number: SequenceNumber,
        /// Its sub-queue before.
        from: SubQueue,
        /// The new record.
        record: Record,
        /// Its lock that ended.
        lock: Option<LockToken>,
        /// The kind of change.
        change: Change,
    },
    /// A message was removed.
    Removed {
        /// Its queue.
        queue: QueueId,
        /// Its number.
        number: SequenceNumber,
        /// Its sub-queue.
        sub_queue: SubQueue,
        /// Its body, if nothing else refers to it.
        body: Option<BodyRef>,
        /// The kind of removal.
        removal: Removal,
    },
    /// Messages without locks were deleted together.
    Deleted(Box<Deletion>),
    /// A message was locked.
    Locked {
        /// Its queue.
        queue: QueueId,
        /// Its number.
        number: SequenceNumber,
        /// Its sub-queue.
        sub_queue: SubQueue,
        /// The token of the lock.
        token: LockToken,
        /// When the lock expires unless renewed; the lock of a session's message ends with the session's lock.
        until: Timestamp,
        /// The receiver to which it was delivered; `None` if it was received by number.
        receiver: Option<ReceiverId>,
        /// Whether it is locked under its session's lock.
        in_session: bool,
        /// Whether the expiry of the lock counts as a failed delivery, see [`crate::ReceiveMode`].
        counts: bool,
    },
    /// A lock was renewed.
    Renewed {
        /// The lock.
        token: LockToken,
        /// When it expires unless renewed again.
        until: Timestamp,
    },
    /// A lock ended without a change of the message.
    Released {
        /// The lock.
        token: LockToken,
    },
    /// A receiver was opened, without credit.
    ReceiverOpened {
        /// The receiver.
        receiver: ReceiverId,
        /// Its source and mode.
        options: ReceiverOptions,
    },
    /// The selection of a receiver with a selector changed.
    Selection {
        /// The receiver.
        receiver: ReceiverId,
        /// The change.
        change: SelectionChange,
    },
    /// A receiver's credit was set.
    CreditSet {
        /// The receiver.
        receiver: ReceiverId,
        /// The new limits.
        limit: CreditLimit,
        /// Whether unused credit is returned.
        drain: bool,
    },
    /// A receiver's unused credit was voided by a drain.
    CreditDrained {
        /// The receiver.
        receiver: ReceiverId,
    },
    /// A receiver was closed, or a watcher removed.
    ReceiverClosed {
        /// The receiver or watcher.
        receiver: ReceiverId,
    },
    /// A link was registered to be notified when its entity is deleted.
    Watched {
        /// The link.
        watcher: ReceiverId,
        /// The entity or subscription it is attached to.
        queue: QueueId,
        /// Whether it sends messages.
        sends: bool,
    },
    /// A receiver waits for an available session.
    SessionAwaited {
        /// The queue or subscription.
        queue: QueueId,
        /// The receiver.
        receiver: ReceiverId,
        /// The request to be answered.
        request: Option<RequestId>,
        /// The end of its timeout.
        until: Timestamp,
        /// Whether it gets a lock token with the session.
        with_token: bool,
    },
    /// A receiver stopped waiting: it was closed, or timed out.
    SessionNotAwaited {
        /// The queue or subscription.
        queue: QueueId,
        /// The receiver.
        receiver: ReceiverId,
    },
    /// A receiver acquired a session; if it was waiting, it is no longer.
    SessionLocked {
        /// The queue or subscription.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// The receiver.
        receiver: ReceiverId,
        /// When the lock expires unless renewed.
        until: Timestamp,
    },
    /// A receiver acquired a session with a token that another receiver may present. A previous holder loses the session;
    /// locked messages stay locked.
    SessionTaken {
        /// The queue or subscription.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// The receiver.
        receiver: ReceiverId,
        /// When the lock expires unless renewed.
        until: Timestamp,
        /// The token by which it can be taken over.
        token: LockToken,
    },
    /// A session's lock was renewed.
    SessionRenewed {
        /// The queue or subscription.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// When the lock expires unless renewed again.
        until: Timestamp,
    },
    /// A session's lock ended. The locks of its messages end next; until then no receiver can acquire it.
    SessionUnlocked {
        /// The queue or subscription.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// Whether the locked messages count as failed: the lock expired, instead of being released.
        lost: bool,
    },
    /// A session's state was set or cleared.
    SessionStateSet {
        /// The queue or subscription.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// The `Head` number of the stored state.
        number: u64,
        /// The state, `None` if cleared.
        state: Option<Bytes>,
        /// The time of the change.
        at: Timestamp,
        /// Whether nothing was stored at that number before.
        created: bool,
    },
    /// A subscription was created, or its options or rules changed.
    SubscriptionSet(Box<Subscription>),
    /// A subscription was deleted with all its messages.
    SubscriptionRemoved {
        /// The subscription.
        queue: QueueId,
        /// Bodies without remaining references.
        bodies: Box<[BodyRef]>,
        /// Numbers of bodies that no record refers to. Bodies of its unreadable messages may have them.
        unnamed: Box<[RangeInclusive<u64>]>,
    },
    /// An entity or subscription was used: [`crate::QueueOptions::auto_delete_on_idle_ms`] counts from here.
    Used {
        /// The entity or subscription.
        queue: QueueId,
        /// The time of the use.
        at: Timestamp,
        /// Whether it is stored: only at intervals, so that not every use costs a write.
        stored: bool,
    },
    /// The id of an accepted message is remembered for duplicate detection.
    Remembered {
        /// The number under which it is remembered; these numbers are ascending.
        number: SequenceNumber,
        /// The number of the message, if it has an earlier one.
        original: Option<SequenceNumber>,
        /// Its id.
        key: MessageKey,
        /// When it was accepted.
        at: Timestamp,
    },
    /// Remembered ids were removed: those of all messages from `first` to `last`, both included.
    Forgotten {
        /// The first of the remembered ids.
        first: SequenceNumber,
        /// The last id that is removed.
        last: SequenceNumber,
    },
    /// The options of the entity changed, which counts as use. Nothing is written: the catalogue has stored them.
    OptionsChanged {
        /// The new options, complete.
        options: Arc<EntityOptions>,
    },
    /// The entity is about to be deleted: it accepts no commands any more.
    Ended,
    /// Numbers of the entity were reserved for messages scheduled in a transaction.
    NumbersReserved {
        /// The next number that is not reserved.
        next: SequenceNumber,
    },
    /// A topic's body that no readable copy refers to is kept, because an unreadable record may refer to it: a tombstone is
    /// stored.
    BodyKept {
        /// The body; its number is that of the tombstone.
        body: BodyRef,
        /// Its length in bytes.
        content_bytes: u32,
    },
    /// A tombstone is removed: of a body that is needed no longer, or of a message forwarded by an earlier version.
    TombstoneRemoved {
        /// The queue of the tombstone.
        queue: QueueId,
        /// The number of the tombstone.
        number: SequenceNumber,
        /// Its body, if nothing else refers to it.
        body: Option<BodyRef>,
    },
    /// A message was taken out of delivery because its stored data is damaged. It stays in the store, and the next start reads
    /// it again.
    Quarantined {
        /// Its queue.
        queue: QueueId,
        /// Its number.
        number: SequenceNumber,
        /// Its sub-queue; `None` if it was removed from memory already.
        sub_queue: Option<SubQueue>,
        /// Its lock, which ends.
        lock: Option<LockToken>,
    },
    /// A message counted against a receiver's credit did not reach the receiver.
    NotDelivered {
        /// The receiver.
        receiver: ReceiverId,
        /// Size of its body in bytes.
        content_bytes: u64,
    },
}

/// A subscription as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    /// Its id.
    pub queue: QueueId,
    /// Its name.
    pub name: Box<str>,
    /// When it was created and last changed.
    pub times: EntityTimes,
    /// Its options.
    pub options: SubscriptionOptions,
    /// Its rules, `$Default` first, then by name.
    pub rules: Vec<Arc<Rule>>,
}

/// The kind of an [`Event::Changed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Back in its queue or deferred again, with one more failed delivery.
    Returned,
    /// The same, with changed properties.
    ReturnedModified,
    /// Its hold-back time has passed.
    HeldBackNoLonger,
    /// Deferred.
    Deferred,
    /// Made available again from the deferred state.
    Undeferred,
    /// Moved to the dead-letter queue.
    DeadLettered,
    /// Moved there because it was deferred at its last allowed delivery.
    DeferralDeadLettered,
}

/// The kind of an [`Event::Removed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Completed by the holder of this lock.
    Completed(LockToken),
    /// Removed because its time to live was over, at the latest when this lock ended.
    Expired(Option<LockToken>),
    /// Cancelled while it was scheduled.
    Cancelled,
}

impl Event {
    /// The body that this event stored, for the body cache.
    #[must_use]
    pub fn stored_body(&self) -> Option<(BodyRef, &Bytes)> {
        match self {
            Self::Accepted { number, content, .. } => Some((BodyRef(number.0), content)),
            Self::Published(published) if !published.copies.is_empty() => {
                Some((published.body, published.content.as_ref()?))
            }
            _ => None,
        }
    }

    /// The bodies that this event made unreachable.
    #[must_use]
    pub fn removed_bodies(&self) -> &[BodyRef] {
        match self {
            Self::Removed { body, .. } | Self::TombstoneRemoved { body, .. } => body.as_slice(),
            Self::Published(published) if published.copies.is_empty() && published.scheduled.is_some() => {
                std::slice::from_ref(&published.body)
            }
            Self::SubscriptionRemoved { bodies, .. } => bodies,
            Self::Deleted(deletion) => &deletion.bodies,
            _ => &[],
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
