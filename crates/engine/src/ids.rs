//! Numbers with a meaning.

use peeklock_storage::Epoch;

/// An instant: milliseconds since the Unix epoch, from the broker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Never: later than every instant.
    pub const NEVER: Self = Self(u64::MAX);

    /// This instant plus a duration in milliseconds, saturating at [`Self::NEVER`].
    #[must_use]
    pub const fn plus_ms(self, duration_ms: u64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }
}

/// Position of a message in its entity: from 1, gap-free, assigned on acceptance. In commands and answers it is the number that
/// clients see, which in a partitioned entity names the partition as well: [`crate::KeyPartition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(pub u64);

/// Names one lock of one message: 128 random bits, never reused. Settling needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken(pub u128);

/// Names a receiver or watcher of a partition: unique in the process, and bound to the epoch in which the partition's host
/// owns its shard, so that an id that somebody kept from an earlier owner names nothing of a later one. Given out by
/// [`crate::runtime::Namespace::next_receiver_id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverId(pub u64);

impl ReceiverId {
    /// The number is in the low bits, the epoch above: either wraps around only after far more than a store lives to see.
    const NUMBER_BITS: u32 = 40;

    /// The id with this number in an epoch.
    #[must_use]
    pub const fn new(epoch: Epoch, number: u64) -> Self {
        Self(epoch.0 << Self::NUMBER_BITS | number & ((1 << Self::NUMBER_BITS) - 1))
    }

    /// Whether it was given out in this epoch.
    #[must_use]
    pub const fn is_of(self, epoch: Epoch) -> bool {
        self.0 >> Self::NUMBER_BITS == (epoch.0 << Self::NUMBER_BITS) >> Self::NUMBER_BITS
    }
}

/// Names a command that awaits a reply; opaque to the partition.
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

/// Names something that holds messages for receivers: a queue, or one subscription of a topic. It is the number of the
/// storage partition where its messages rest, so it is unique in the broker and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueId(pub u64);

/// Where messages rest: a queue or subscription, and which of the queues inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueuePath {
    /// The queue or subscription.
    pub queue: QueueId,
    /// Which queue inside it.
    pub sub_queue: SubQueue,
}

impl QueuePath {
    /// The main queue of a queue or subscription.
    #[must_use]
    pub const fn main(queue: QueueId) -> Self {
        Self { queue, sub_queue: SubQueue::Main }
    }
}

/// How a receiver takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReceiveMode {
    /// Locked on delivery, removed when settled.
    #[default]
    PeekLock,
    /// Removed before it leaves: locked on delivery like the others, and whoever hands messages out completes each when it is
    /// about to leave and sends it once that is durable. A lock that ends without that is no failed delivery. Deferred
    /// messages taken by number come removed.
    ReceiveAndDelete,
    /// Locked until the receiver says what became of it: only for those that forward. There is one such receiver at a
    /// time, and no other beside it; it takes messages in their order, whatever session they belong to.
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
