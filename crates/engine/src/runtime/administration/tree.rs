//! Queues, topics and subscriptions as one list, and sums over all of them.

use super::{EntityDescription, EntityKind, SubscriptionDescription};
use crate::metrics::EntityMetrics;
use crate::names::name_key;
use crate::partition::{Activity, Counts};
use crate::runtime::growth::Growth;
use crate::runtime::{Namespace, Shortage};
use crate::{Timestamp, Totals};

/// A row of the list of all queues, topics and subscriptions.
#[derive(Debug, Clone)]
pub enum TreeNode {
    /// A queue or topic.
    Entity(EntityDescription),
    /// A subscription.
    Subscription {
        /// The name of its topic.
        topic: String,
        /// Its description.
        description: SubscriptionDescription,
    },
}

/// Sums over a whole namespace, as of the last turn of each entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Number of queues.
    pub queues: u64,
    /// Number of topics.
    pub topics: u64,
    /// Number of subscriptions.
    pub subscriptions: u64,
    /// Message counts of all of them.
    pub counts: Counts,
    /// Client activity on all of them.
    pub activity: Activity,
    /// Enqueued time of the oldest message that is available to receivers; `None` if there is none.
    pub oldest: Option<Timestamp>,
    /// Totals of all existing entities. A message accepted by a topic is not counted again for its copies.
    pub totals: Totals,
}

impl Sums {
    fn add(&mut self, (counts, activity): (Counts, Activity), metrics: &EntityMetrics) {
        self.counts.add(counts);
        self.activity.add(activity);
        self.oldest = [self.oldest, metrics.oldest()].into_iter().flatten().min();
    }
}

impl Namespace {
    /// Queues, topics and subscriptions in case-insensitive order of their names, the subscriptions of a topic following
    /// it: the first `top` after `after`, which is the name of a queue or topic and optionally of a subscription.
    #[must_use]
    pub fn tree(&self, after: Option<(&str, Option<&str>)>, top: usize) -> Vec<TreeNode> {
        let mut rows = Vec::new();
        let mut key = after.map(|(name, _)| name_key(name));
        if let Some((topic, subscription)) = after {
            self.add_subscriptions(topic, subscription, top, &mut rows);
        }
        while rows.len() < top {
            let entities = self.inner.directory.after(key.as_deref(), top - rows.len());
            let Some(last) = entities.last() else { break };
            key = Some(name_key(&last.name));
            for entity in entities {
                if rows.len() >= top {
                    return rows;
                }
                rows.push(TreeNode::Entity(entity.describe()));
                if entity.kind == EntityKind::Topic {
                    self.add_subscriptions(&entity.name, None, top, &mut rows);
                }
            }
        }
        rows
    }

    /// Adds subscriptions of a topic until there are `top` rows.
    fn add_subscriptions(&self, topic: &str, after: Option<&str>, top: usize, rows: &mut Vec<TreeNode>) {
        let Ok(entity) = self.topic(topic) else { return };
        let after = after.map(name_key);
        let found = entity.subscriptions.after(after.as_deref(), top.saturating_sub(rows.len()));
        rows.extend(found.iter().map(|found| TreeNode::Subscription {
            topic: entity.name.clone(),
            description: found.describe(),
        }));
    }

    /// The first `top` subscriptions of a topic after `after`, in the order of their names; none if there is no such topic.
    #[must_use]
    pub fn subscriptions_after(
        &self,
        topic: &str,
        after: Option<&str>,
        top: usize,
    ) -> Vec<SubscriptionDescription> {
        let Ok(entity) = self.topic(topic) else { return Vec::new() };
        let found = entity.subscriptions.after(after.map(name_key).as_deref(), top);
        found.iter().map(|found| found.describe()).collect()
    }

    /// The shortage that makes the broker refuse new messages, if there is one.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        Growth::of(&*self.inner.host.spawner.shared.shard, self.budget()).shortage()
    }

    /// Sums over all entities; visits each of them.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for entity in self.inner.directory.all() {
            match entity.kind {
                EntityKind::Queue => sums.queues += 1,
                EntityKind::Topic => sums.topics += 1,
            }
            sums.add(entity.counts_and_activity(), &entity.metrics);
            sums.totals += entity.metrics.totals();
            entity.subscriptions.each(|found| {
                sums.subscriptions += 1;
                sums.add(found.counts_and_activity(), &found.metrics);
                sums.totals += Totals { accepted: 0, accepted_bytes: 0, ..found.metrics.totals() };
            });
        }
        sums
    }
}
