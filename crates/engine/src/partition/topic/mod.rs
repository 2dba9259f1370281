//! The additional state of a topic: reference counts of bodies, and the subscriptions with their rules.
//!
//! - `publish` publishes messages (`original`); `copies` evaluates the rules and makes the copies of each subscription;
//!   `changed` applies an action's changes to a copy.
//! - `change` applies events to a topic; `restore` restores it.
//! - `bodies` counts references, so that a body is deleted with its last copy; `doubt` keeps bodies that an unreadable head
//!   may refer to.

mod bodies;
mod change;
mod changed;
mod copies;
mod doubt;
mod estimate;
mod original;
mod publish;
mod restore;

use std::collections::BTreeMap;
use std::sync::Arc;

use peeklock_rules::Index;

use self::bodies::Bodies;
use self::doubt::Doubts;
use self::restore::SharedExtras;
use super::state::State;
use crate::names::name_key;
use crate::rule::FilterCounts;
use crate::{BodyRef, QueueId, Rule, Subscription};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Topic {
    pub(super) bodies: Bodies,
    /// Each has a queue with the same id.
    subscriptions: BTreeMap<QueueId, Arc<Subscription>>,
    /// Ids by name key.
    names: BTreeMap<Box<str>, QueueId>,
    /// Filter counts of all subscriptions.
    filters: FilterCounts,
    /// The rules of all subscriptions, evaluated together; groups are the ids of subscriptions.
    index: Index<Rule>,
    /// Only if a head of a subscription can't be read.
    doubts: Option<Box<Doubts>>,
    /// Only while the topic is restored.
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

    /// The id of the subscription with this name.
    pub(super) fn id_of(&self, name: &str) -> Option<QueueId> {
        self.names.get(&name_key(name)).copied()
    }

    /// Filter counts of all subscriptions.
    pub(super) const fn filters(&self) -> FilterCounts {
        self.filters
    }

    /// Whether copies may differ from the sent message: rules have actions, or may fail.
    pub(super) const fn may_change(&self) -> bool {
        self.filters.actions > 0 || self.filters.sql > 0
    }

    /// All rules, evaluated together.
    pub(super) const fn index(&self) -> &Index<Rule> {
        &self.index
    }

    /// Adds a subscription, or replaces its options and rules.
    fn set(&mut self, subscription: Arc<Subscription>) {
        let known = self.subscriptions.get(&subscription.queue);
        let same_rules = known.is_some_and(|known| known.rules == subscription.rules);
        self.forget(subscription.queue);
        if !same_rules {
            self.index.set(subscription.queue.0, &subscription.rules);
        }
        self.filters = self.filters.plus(FilterCounts::of(&subscription.rules));
        self.names.insert(name_key(&subscription.name), subscription.queue);
        self.subscriptions.insert(subscription.queue, subscription);
    }

    /// Removes a subscription.
    fn unset(&mut self, id: QueueId) {
        self.forget(id);
        self.index.remove(id.0);
    }

    /// Removes a subscription from everything but the index.
    fn forget(&mut self, id: QueueId) {
        if let Some(gone) = self.subscriptions.remove(&id) {
            self.filters = self.filters.minus(FilterCounts::of(&gone.rules));
            self.names.remove(&name_key(&gone.name));
        }
    }
}

impl State {
    /// Whether removing one reference to a body leaves none, so that it is deleted. In a queue each body has only one.
    pub(super) fn is_last_reference(&self, body: BodyRef) -> bool {
        let is_last = |topic: &Topic| topic.bodies.count(body) <= 1 && !topic.is_in_doubt(body, None);
        self.topic.as_deref().is_none_or(is_last)
    }
}
