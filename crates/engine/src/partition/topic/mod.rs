//! What a topic has beside its queues: who refers to which content, and the subscriptions with their rules.
//!
//! - `publish` decides who gets a message; `shares` asks the rules.
//! - `change` is how events change a topic, `restore` and `record` how it is read back and stored.
//! - `bodies` counts references, so that a content goes with its last copy.

mod bodies;
mod change;
mod publish;
mod record;
mod restore;
mod shares;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::bodies::Bodies;
pub(super) use self::record::{append_subscription, subscription_number};
use self::restore::SharedExtras;
use super::state::State;
use crate::names::name_key;
use crate::rule::FilterCounts;
use crate::{BodyRef, QueueId, Subscription};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Topic {
    pub(super) bodies: Bodies,
    /// Each has a queue of the same id.
    subscriptions: BTreeMap<QueueId, Arc<Subscription>>,
    /// Ids by name key.
    names: BTreeMap<Box<str>, QueueId>,
    /// Filters of all subscriptions.
    filters: FilterCounts,
    /// Only while the topic is read back.
    restoring: Option<Box<SharedExtras>>,
}

impl Topic {
    /// One subscription.
    pub(super) fn subscription(&self, id: QueueId) -> Option<&Arc<Subscription>> {
        self.subscriptions.get(&id)
    }

    /// All subscriptions in order of id.
    pub(super) fn subscriptions(&self) -> impl ExactSizeIterator<Item = &Arc<Subscription>> {
        self.subscriptions.values()
    }

    /// The subscription of this name.
    pub(super) fn id_of(&self, name: &str) -> Option<QueueId> {
        self.names.get(&name_key(name)).copied()
    }

    /// Filters of all subscriptions.
    pub(super) const fn filters(&self) -> FilterCounts {
        self.filters
    }

    /// Adds a subscription, or replaces its options and rules.
    fn set(&mut self, subscription: Arc<Subscription>) {
        self.unset(subscription.queue);
        self.filters = self.filters.plus(FilterCounts::of(&subscription.rules));
        self.names.insert(name_key(&subscription.name), subscription.queue);
        self.subscriptions.insert(subscription.queue, subscription);
    }

    /// Removes a subscription.
    fn unset(&mut self, id: QueueId) {
        if let Some(gone) = self.subscriptions.remove(&id) {
            self.filters = self.filters.minus(FilterCounts::of(&gone.rules));
            self.names.remove(&name_key(&gone.name));
        }
    }
}

impl State {
    /// Whether removing one reference to a content leaves none. In a queue each content has only one.
    pub(super) fn is_last_reference(&self, body: BodyRef) -> bool {
        self.topic.as_ref().is_none_or(|topic| topic.bodies.count(body) <= 1)
    }
}
