//! Keys of stored values.

/// Identifies a partition (a queue, or a topic with its subscriptions) inside a shard; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u64);

/// Key spaces, distinguished by when they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// Entities, rules, counters: few and small values.
    Meta = 0,
    /// One small record per message, scanned at start.
    Head = 1,
    /// Message bodies, not read at start.
    Body = 2,
}

impl Space {
    /// All spaces in key order.
    pub const ALL: [Self; 3] = [Self::Meta, Self::Head, Self::Body];
}

/// A key. Keys order by space, then partition, then number; numbers are dense within a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The key space.
    pub space: Space,
    /// The partition that owns the value.
    pub partition: PartitionId,
    /// Position within the partition, usually a sequence number.
    pub number: u64,
}

impl Key {
    /// A key from its three parts.
    #[must_use]
    pub const fn new(space: Space, partition: PartitionId, number: u64) -> Self {
        Self { space, partition, number }
    }
}
