//! Administration of a namespace: entities are created, changed, deleted and described by name.
//!
//! [`super::Namespace::declare`] creates or updates as needed; here, creating an existing entity and changing a missing one
//! are errors.
//!
//! - `declarations`: checks of declarations that consist of several changes, before the first of them.
//! - `entities`: queues and topics.
//! - `subscriptions`, `rules`: those of topics, changed by the topic's partition.

mod declarations;
mod entities;
mod rules;
mod subscriptions;
mod tree;

use std::sync::Arc;

use super::{ChangeError, PartitionHandle, Response};
use crate::partition::Counts;
use crate::{Command, EntityOptions, EntityTimes, QueueId, Refusal, Subscription, Timestamp, Totals};

pub use tree::{Sums, TreeNode};

/// A queue or topic as administrators see it.
#[derive(Debug, Clone)]
pub struct EntityDescription {
    /// Its name as first given.
    pub name: String,
    /// Its id.
    pub queue: QueueId,
    /// Its present options.
    pub options: Arc<EntityOptions>,
    /// When it was created and last changed.
    pub times: EntityTimes,
    /// When a client last sent, received, browsed or settled since the broker started, or when a subscription was last
    /// created. Use of a subscription counts for the subscription only.
    pub accessed_at: Option<Timestamp>,
    /// Its message counts; for a topic, the messages scheduled on it, its transfer dead letters, and the size of all bodies.
    pub counts: Counts,
    /// Counters of its messages since the broker started.
    pub totals: Totals,
    /// Whether its stored state is damaged, so that it refuses every command.
    pub is_damaged: bool,
    /// Number of subscriptions of a topic.
    pub subscriptions: usize,
    /// Number of their rules with an SQL condition; includes true and false filters, because Service Bus counts the default
    /// rule.
    pub sql_filters: usize,
    /// Number of their rules with a correlation filter.
    pub correlation_filters: usize,
}

/// A subscription as administrators see it.
#[derive(Debug, Clone)]
pub struct SubscriptionDescription {
    /// Its name, options, times and rules.
    pub subscription: Arc<Subscription>,
    /// When a client last used it since the broker started, or when it was created.
    pub accessed_at: Option<Timestamp>,
    /// Its message counts; `size_bytes` is 0, because the bodies belong to the topic.
    pub counts: Counts,
    /// Counters of its messages since the broker started.
    pub totals: Totals,
}

/// Kind of entity to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityKind {
    /// Queues.
    Queue,
    /// Topics.
    Topic,
}

impl From<&EntityOptions> for EntityKind {
    fn from(options: &EntityOptions) -> Self {
        match options {
            EntityOptions::Queue(_) => Self::Queue,
            EntityOptions::Topic(_) => Self::Topic,
        }
    }
}

fn not_found(name: &str) -> ChangeError {
    ChangeError::NotFound { name: name.to_owned() }
}

/// Sends a command that is answered by [`Response::Done`] to a partition and waits for the answer.
async fn carry_out(handle: &PartitionHandle, command: Command) -> Result<(), Refusal> {
    match handle.ask(command).await {
        Some(Response::Done(result)) => result,
        _ => Err(Refusal::Unavailable),
    }
}
