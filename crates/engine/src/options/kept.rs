//! Properties that are kept and given back.

/// What Service Bus lets clients say about an entity and what changes nothing in this broker, since everything is batched,
/// durable and ordered here; and whether it is partitioned, which shows in its messages ([`crate::KeyPartition`]). Each kind of
/// entity uses some of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The owner's own words, at most 1024 characters.
    pub user_metadata: Option<Box<str>>,
    /// Whether the store may batch; default true.
    pub enable_batched_operations: bool,
    /// Whether the entity is partitioned, the one property here with an effect; never changes.
    pub enable_partitioning: bool,
    /// Whether messages may rest in memory first.
    pub enable_express: bool,
    /// Of a topic: whether order is kept; default true.
    pub support_ordering: bool,
    /// Of a topic: whether rules are asked before a message is accepted.
    pub filtering_messages_before_publishing: bool,
    /// Of a topic: whether its subscriptions are partitioned.
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
