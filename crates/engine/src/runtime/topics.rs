//! Queries of front ends about subscriptions. Rules are changed by commands to the topic's partition.

use std::sync::Arc;

use super::entity::{Entity, SubscriptionRef};
use super::{EntityKind, Namespace, StartError};
use crate::QueueId;
use crate::names::name_key;
use crate::partition::Counts;

impl Namespace {
    /// Finds a subscription of a topic; both names match case-insensitively. The topic's actor starts if it is not
    /// running.
    #[must_use]
    pub fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef> {
        let entity = self.inner.directory.get(&name_key(topic))?;
        if entity.is_damaged() && entity.kind == EntityKind::Topic {
            // The subscriptions of a damaged topic are unknown: every request is answered that the topic is damaged.
            return Some(SubscriptionRef {
                partition: entity.handle(),
                queue: QueueId(entity.id.0),
                options: Arc::default(),
                topic: entity.options(),
            });
        }
        let found = entity.subscriptions.get(name)?;
        Some(SubscriptionRef {
            partition: entity.handle(),
            queue: found.subscription.queue,
            options: found.options,
            topic: entity.options(),
        })
    }

    /// The counts of a subscription as of the last turn of its topic; they may be ahead of what is durable. `size_bytes` is
    /// 0, because the bodies belong to the topic.
    #[must_use]
    pub fn subscription_counts(&self, topic: &str, name: &str) -> Option<Counts> {
        Some(self.inner.directory.get(&name_key(topic))?.subscriptions.get(name)?.counts())
    }

    /// Names of all subscriptions of a topic, sorted, as they were first given; `None` if there is no such topic.
    #[must_use]
    pub fn subscription_names(&self, topic: &str) -> Option<Vec<String>> {
        Some(self.topic(topic).ok()?.subscriptions.names())
    }

    pub(super) fn topic(&self, name: &str) -> Result<Arc<Entity>, StartError> {
        let entity = self.inner.directory.get(&name_key(name));
        let topic = entity.filter(|entity| entity.kind == EntityKind::Topic);
        topic.ok_or_else(|| StartError::NoSuchTopic { name: name.to_owned() })
    }
}
