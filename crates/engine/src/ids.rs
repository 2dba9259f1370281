//! Numbers with a meaning.

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

/// Position of a message in its entity: from 1, gap-free, assigned on acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(pub u64);

/// Names one lock of one message: 128 random bits, never reused. Settling needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken(pub u128);

/// Names a receiver for the life of the process; handed out by [`crate::runtime::Mailbox`] owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverId(pub u64);

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
