//! Newtypes for numbers and ids.

use peeklock_storage::Epoch;

/// A point in time: milliseconds since the Unix epoch, from the broker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Never: later than every point in time.
    pub const NEVER: Self = Self(u64::MAX);

    /// This time plus a duration in milliseconds, saturating at [`Self::NEVER`].
    #[must_use]
    pub const fn plus_ms(self, duration_ms: u64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }
}

/// Position of a message in its entity: from 1, gap-free, assigned on acceptance. In commands and answers it is the number
/// that clients see, which in a partitioned entity contains the partition: [`crate::KeyPartition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(pub u64);

/// Identifies one lock of one message: 128 random bits, never reused. Required for settling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken(pub u128);

/// Identifies a receiver or watcher of a partition: unique in the process, and bound to the epoch in which the partition's
/// host owns its shard, so that an id issued by an earlier owner is never valid for a later one. Created by
/// [`crate::runtime::Namespace::next_receiver_id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverId(pub u64);

impl ReceiverId {
    /// The number is in the low bits, the epoch above: neither wraps within the lifetime of a store.
    const NUMBER_BITS: u32 = 40;

    /// The id with this number in an epoch.
    #[must_use]
    pub const fn new(epoch: Epoch, number: u64) -> Self {
        Self(epoch.0 << Self::NUMBER_BITS | number & ((1 << Self::NUMBER_BITS) - 1))
    }

    /// Whether it was created in this epoch.
    #[must_use]
    pub const fn is_of(self, epoch: Epoch) -> bool {
        self.0 >> Self::NUMBER_BITS == (epoch.0 << Self::NUMBER_BITS) >> Self::NUMBER_BITS
    }
}

/// Identifies a command that awaits a reply; opaque to the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The queues inside an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SubQueue {
    /// The entity itself.
    #[default]
    Main,
    /// `$DeadLetterQueue`.
    DeadLetter,
    /// `$Transfer/$DeadLetterQueue`.
    TransferDeadLetter,
}

impl SubQueue {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Main, Self::DeadLetter, Self::TransferDeadLetter];
}

/// Identifies a queue, or one subscription of a topic. It is the number of its storage partition, so it is unique in the
/// broker and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueId(pub u64);

/// A queue or subscription, and one of its sub-queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueuePath {
    /// The queue or subscription.
    pub queue: QueueId,
    /// The queue inside it.
    pub sub_queue: SubQueue,
}

impl QueuePath {
    /// The main queue of a queue or subscription.
    #[must_use]
    pub const fn main(queue: QueueId) -> Self {
        Self { queue, sub_queue: SubQueue::Main }
    }
}

/// How a receiver receives messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReceiveMode {
    /// Locked on delivery, removed when settled.
    #[default]
    PeekLock,
    /// Deleted on delivery: the message is locked like in peek-lock mode, the front end completes it when it is about to send
    /// it, and sends it once the removal is durable. If the lock expires before that, this is no failed delivery. Deferred
    /// messages received by number are removed before the answer.
    ReceiveAndDelete,
    /// Locked until the receiver settles it: only for forwarders. A forwarder is the only receiver of its queue; it receives
    /// messages in order, regardless of sessions.
    Forward,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_belongs_to_one_epoch() {
        let id = ReceiverId::new(Epoch(7), 3);
        assert!(id.is_of(Epoch(7)) && !id.is_of(Epoch(6)) && !id.is_of(Epoch(8)) && !id.is_of(Epoch(0)));
        assert_ne!(id, ReceiverId::new(Epoch(8), 3));
        assert_ne!(id, ReceiverId::new(Epoch(7), 4));
        assert_eq!(ReceiverId::new(Epoch(0), 3), ReceiverId(3));
        assert!(ReceiverId::new(Epoch(u64::MAX), u64::MAX).is_of(Epoch(u64::MAX)));
    }
}
