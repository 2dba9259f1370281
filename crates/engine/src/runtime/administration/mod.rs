//! What administrators ask a namespace: entities created, changed, deleted and described, each by name.
//!
//! [`super::Namespace::declare`] makes things so, whatever they were; here creating what exists and changing what does not are
//! errors.
//!
//! - `entities`: queues and topics. - `subscriptions`, `rules`: what topics have, changed by their partitions.

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
    /// Its options as of now.
    pub options: Arc<EntityOptions>,
    /// When it was created and changed.
    pub times: EntityTimes,
    /// When a client last sent, received, browsed or settled since the broker started, or when a subscription was last created.
    /// What clients do with a subscription is noted there, not here.
    pub accessed_at: Option<Timestamp>,
    /// Its messages; of a topic, those scheduled on it, and the size of all contents.
    pub counts: Counts,
    /// What happened to its messages since the broker started.
    pub totals: Totals,
    /// Whether what is stored about it is damaged, so that it refuses everything.
    pub is_damaged: bool,
    /// How many subscriptions a topic has.
    pub subscriptions: usize,
    /// How many of their rules have a condition in SQL, true and false filters among them: Service Bus counts the default rule.
    pub sql_filters: usize,
    /// How many of their rules have a correlation filter.
    pub correlation_filters: usize,
}

/// A subscription as administrators see it.
#[derive(Debug, Clone)]
pub struct SubscriptionDescription {
    /// Its name, options, times and rules.
    pub subscription: Arc<Subscription>,
    /// When a client last did something with it since the broker started, or when it was created.
    pub accessed_at: Option<Timestamp>,
    /// Its messages; `size_bytes` is 0, because contents are the topic's.
    pub counts: Counts,
    /// What happened to its messages since the broker started.
    pub totals: Totals,
}

/// Which entities are asked for.
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

/// Hands a command that is answered with [`Response::Done`] to a partition and waits for the answer.
async fn carry_out(handle: &PartitionHandle, command: Command) -> Result<(), Refusal> {
    match handle.ask(command).await {
        Some(Response::Done(result)) => result,
        _ => Err(Refusal::Unavailable),
    }
}
