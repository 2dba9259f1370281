//! Events: what happened to a partition. Only these change its state, and only these are stored.

mod details;

use std::sync::Arc;

use bytes::Bytes;

pub use self::details::{Deletion, Publication, SubscriptionCopy};
use crate::partition::{Record, SelectionChange};
use crate::{
    BodyRef, CreditLimit, EntityOptions, EntityTimes, LockToken, MessageKey, QueueId, ReceiverId,
    ReceiverOptions, RequestId, Rule, SequenceNumber, SessionId, SubQueue, SubscriptionOptions, Timestamp,
};

/// A fact. Lock tokens and absolute times are inside: applying one needs nothing else.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message was stored in the entity itself: active in a queue, scheduled in a queue or topic.
    Accepted {
        /// Its number: the next one of the entity, or one reserved for it.
        number: SequenceNumber,
        /// Whether the number was reserved: then later ones may have been given out.
        is_reserved: bool,
        /// The facts about it.
        record: Record,
        /// The content, stored under the same number.
        content: Bytes,
    },
    /// A message was published on a topic: copies in its subscriptions, one content for all. Without copies nothing is
    /// stored.
    Published(Box<Publication>),
    /// A scheduled message of a queue became available: under a new number, its old one is dead.
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
        /// Where it is.
        queue: QueueId,
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
        /// Where it was.
        queue: QueueId,
        /// Which.
        number: SequenceNumber,
        /// Where it rested.
        sub_queue: SubQueue,
        /// Its content, if nothing else refers to it.
        body: Option<BodyRef>,
        /// How.
        removal: Removal,
    },
    /// Messages that nobody held were deleted together.
    Deleted(Box<Deletion>),
    /// A message was locked.
    Locked {
        /// Where it is.
        queue: QueueId,
        /// Which.
        number: SequenceNumber,
        /// Where it rests.
        sub_queue: SubQueue,
        /// The name of the lock.
        token: LockToken,
        /// When the lock ends unless renewed; that of a session's message ends with the session's lock.
        until: Timestamp,
        /// To whom it was delivered; `None` when it was taken by number.
        receiver: Option<ReceiverId>,
        /// Whether it is held under its session's lock.
        in_session: bool,
        /// Whether its end by time counts as a failed delivery, see [`crate::ReceiveMode`].
        counts: bool,
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
    /// What is known for a receiver with a selector changed.
    Selection {
        /// Which.
        receiver: ReceiverId,
        /// How.
        change: SelectionChange,
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
    /// A receiver was closed, or a link is watched no longer.
    ReceiverClosed {
        /// Which.
        receiver: ReceiverId,
    },
    /// A link wants to be told when what it is attached to is deleted.
    Watched {
        /// Which.
        watcher: ReceiverId,
        /// What it is attached to.
        queue: QueueId,
        /// Whether it sends messages.
        sends: bool,
    },
    /// A receiver waits for an available session.
    SessionAwaited {
        /// Of which entity.
        queue: QueueId,
        /// Who.
        receiver: ReceiverId,
        /// To be answered.
        request: Option<RequestId>,
        /// How long.
        until: Timestamp,
        /// Whether it gets a token with the session.
        with_token: bool,
    },
    /// A receiver waits no longer: it was closed, or it took too long.
    SessionNotAwaited {
        /// Of which entity.
        queue: QueueId,
        /// Who.
        receiver: ReceiverId,
    },
    /// A receiver holds a session now; if it waited for one, it does no longer.
    SessionLocked {
        /// Of which entity.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// Who.
        receiver: ReceiverId,
        /// When the lock ends unless renewed.
        until: Timestamp,
    },
    /// A receiver holds a session now under a token, which another may present. Whoever held it so far does no longer; the
    /// messages in flight stay locked.
    SessionTaken {
        /// Of which entity.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// Who.
        receiver: ReceiverId,
        /// When the lock ends unless renewed.
        until: Timestamp,
        /// What has to be presented to take it over.
        token: LockToken,
    },
    /// A session's lock was prolonged.
    SessionRenewed {
        /// Of which entity.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// When the lock ends unless renewed again.
        until: Timestamp,
    },
    /// A session's lock ended. The locks of its messages end next, and nobody can have it until they have.
    SessionUnlocked {
        /// Of which entity.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// Whether the messages in flight count as failed: the lock was lost, not given back.
        lost: bool,
    },
    /// A session's state was set or cleared.
    SessionStateSet {
        /// Of which entity.
        queue: QueueId,
        /// Its id.
        session: SessionId,
        /// Under which number of the session space it is stored.
        number: u64,
        /// The state, `None` if cleared.
        state: Option<Bytes>,
        /// When.
        at: Timestamp,
        /// Whether nothing was stored under that number before.
        created: bool,
    },
    /// A subscription was created, or its options or rules changed.
    SubscriptionSet(Box<Subscription>),
    /// A subscription was deleted with all that rested in it.
    SubscriptionRemoved {
        /// Which.
        queue: QueueId,
        /// Contents that nothing refers to any more.
        bodies: Box<[BodyRef]>,
    },
    /// Something was used: what [`crate::QueueOptions::auto_delete_on_idle_ms`] counts from.
    Used {
        /// The entity or subscription.
        queue: QueueId,
        /// When.
        at: Timestamp,
        /// Whether it is worth writing: coarsely, so that use costs no write each time.
        stored: bool,
    },
    /// The id of a message that was accepted is remembered, so that duplicates are told.
    Remembered {
        /// The number of the message.
        number: SequenceNumber,
        /// Its id.
        key: MessageKey,
        /// When it was accepted.
        at: Timestamp,
    },
    /// Ids are remembered no longer: those of all messages between two, both included.
    Forgotten {
        /// The first that was remembered.
        first: SequenceNumber,
        /// The last to be forgotten.
        last: SequenceNumber,
    },
    /// The options of the entity changed, which counts as a use. Nothing is written: the catalogue has stored them.
    OptionsChanged {
        /// All of them, as they are from now on.
        options: Arc<EntityOptions>,
    },
    /// The entity is about to be deleted: it takes no commands any more.
    Ended,
    /// Numbers of the entity were given out for messages that may follow: scheduled in a transaction.
    NumbersReserved {
        /// The next number that is not given out.
        next: SequenceNumber,
    },
    /// What an earlier version left in the store of a message that went to another entity goes, and its content if nothing
    /// else refers to it.
    TraceErased {
        /// Where it was.
        queue: QueueId,
        /// Which.
        number: SequenceNumber,
        /// Its content, if nothing else refers to it.
        body: Option<BodyRef>,
    },
    /// A message was taken out of delivery because what is stored of it is damaged. It stays in the store, and the next
    /// start reads it again.
    Quarantined {
        /// Where it is.
        queue: QueueId,
        /// Which.
        number: SequenceNumber,
        /// Where it rested; `None` if it was removed from memory already.
        sub_queue: Option<SubQueue>,
        /// The lock on it, which ends.
        lock: Option<LockToken>,
    },
    /// A message counted against a receiver's credit did not reach it.
    NotDelivered {
        /// Whose credit.
        receiver: ReceiverId,
        /// Bytes of its content.
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
    /// When it was declared.
    pub times: EntityTimes,
    /// Its options.
    pub options: SubscriptionOptions,
    /// Its rules, `$Default` first, then by name.
    pub rules: Vec<Arc<Rule>>,
}

/// What [`Event::Changed`] changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Back in its queue or among the deferred, one more failed delivery counted.
    Returned,
    /// The same, and properties changed.
    ReturnedModified,
    /// The time before which it was not to be delivered again is over.
    HeldBackNoLonger,
    /// Set aside.
    Deferred,
    /// Deferred no longer.
    Undeferred,
    /// Moved to the dead-letter queue.
    DeadLettered,
}

/// How a message left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Completed by the holder of this lock.
    Completed(LockToken),
    /// Dropped because its time-to-live was over, at the latest when this lock ended.
    Expired(Option<LockToken>),
    /// Cancelled while it was scheduled.
    Cancelled,
}

impl Event {
    /// The content this event stored, for the cache of recent contents.
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

    /// The contents this event made unreachable.
    #[must_use]
    pub fn removed_bodies(&self) -> &[BodyRef] {
        match self {
            Self::Removed { body, .. } | Self::TraceErased { body, .. } => body.as_slice(),
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
