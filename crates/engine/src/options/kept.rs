//! Properties that are stored and returned.

/// Properties that Service Bus lets clients set but that have no effect in this broker, where everything is batched, durable
/// and ordered; except `enable_partitioning`, which is visible in messages ([`crate::KeyPartition`]). Each kind of entity uses
/// some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// A text of the owner, at most 1024 characters.
    pub user_metadata: Option<Box<str>>,
    /// Whether the store may batch; default true.
    pub enable_batched_operations: bool,
    /// Whether the entity is partitioned, the one property here with an effect; never changes.
    pub enable_partitioning: bool,
    /// Whether messages may be kept in memory before they are stored.
    pub enable_express: bool,
    /// For a topic: whether order is kept; default true.
    pub support_ordering: bool,
    /// For a topic: whether rules are evaluated before a message is accepted.
    pub filtering_messages_before_publishing: bool,
    /// For a topic: whether its subscriptions are partitioned.
    pub enable_subscription_partitioning: bool,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            user_metadata: None,
            enable_batched_operations: true,
            enable_partitioning: false,
            enable_express: false,
            support_ordering: true,
            filtering_messages_before_publishing: false,
            enable_subscription_partitioning: false,
        }
    }
}
