//! `DeclareSubscription` and `DeleteSubscription`.

use std::sync::Arc;

use super::super::step::Step;
use super::rule::sorted_rules;
use crate::event::{Event, Subscription};
use crate::names::name_key;
use crate::{Effect, EntityTimes, Intent, QueueId, Refusal, Reply, RequestId, Rule, SubscriptionOptions};

/// The refusal of commands for topics by a queue.
const NO_SUBSCRIPTIONS: Refusal =
    Refusal::NotAllowed("A queue has no subscriptions and no rules; only a topic has them.");

impl Step<'_> {
    pub(in crate::partition) fn declare_subscription(
        &mut self,
        intent: Intent,
        queue: QueueId,
        name: Box<str>,
        options: SubscriptionOptions,
        rules: Vec<Rule>,
    ) -> Result<(), Refusal> {
        let topic = self.state().topic.as_deref().ok_or(NO_SUBSCRIPTIONS)?;
        let known = self.declared(queue, &name).and_then(|known| topic.subscription(known)).cloned();
        match (known, intent) {
            (Some(_), Intent::Create) => Err(Refusal::SubscriptionExists(name)),
            (Some(known), _) => self.change_subscription(&known, &name, options),
            (None, Intent::Update) => Err(Refusal::EntityDeleted),
            (None, _) => self.create_subscription(queue, name, options, rules),
        }
    }

    /// The existing subscription that a declaration concerns: found by id, otherwise by name, because the caller's view may be
    /// older than the topic's.
    pub(in crate::partition) fn declared(&self, queue: QueueId, name: &str) -> Option<QueueId> {
        let topic = self.state().topic.as_deref()?;
        topic.subscription(queue).map(|known| known.queue).or_else(|| topic.id_of(name))
    }

    /// The subscription with this id.
    pub(super) fn subscription(&self, queue: QueueId) -> Result<&Arc<Subscription>, Refusal> {
        let topic = self.state().topic.as_deref().ok_or(NO_SUBSCRIPTIONS)?;
        topic.subscription(queue).ok_or(Refusal::EntityDeleted)
    }

    fn create_subscription(
        &mut self,
        queue: QueueId,
        name: Box<str>,
        options: SubscriptionOptions,
        rules: Vec<Rule>,
    ) -> Result<(), Refusal> {
        let topic = self.state().topic.as_deref().ok_or(NO_SUBSCRIPTIONS)?;
        if queue == self.state().entity.id {
            let text = format!("{} is the number of the topic itself.", queue.0);
            return Err(Refusal::InvalidArgument(text));
        }
        let limit = self.rule_limits.subscriptions_per_topic;
        if topic.subscriptions().len() >= limit {
            return Err(Refusal::TooManySubscriptions(limit));
        }
        let rules = sorted_rules(rules, self.now)?;
        rules.iter().try_for_each(|rule| self.rule_limits.check(rule))?;
        let times = EntityTimes { created_at: self.now, updated_at: self.now };
        let subscription = Subscription { queue, name, times, options, rules };
        self.check_rules(&[], &subscription)?;
        self.emit(Event::SubscriptionSet(Box::new(subscription)));
        Ok(())
    }

    /// Changes the options; the rules stay. Stored messages keep their times (S-11).
    fn change_subscription(
        &mut self,
        known: &Subscription,
        name: &str,
        options: SubscriptionOptions,
    ) -> Result<(), Refusal> {
        let options = SubscriptionOptions { client: known.options.client.clone(), ..options };
        if name_key(name) != name_key(&known.name) {
            let text = format!("The subscription '{}' can't become '{name}'.", known.name);
            return Err(Refusal::InvalidArgument(text));
        }
        if let Some(reason) = known.options.immutable_change(&options) {
            return Err(Refusal::InvalidArgument(format!("{reason}.")));
        }
        if known.options != options {
            let times = EntityTimes { updated_at: self.now, ..known.times };
            self.emit(Event::SubscriptionSet(Box::new(Subscription { times, options, ..known.clone() })));
            self.obey_status(known.queue);
        }
        Ok(())
    }

    pub(in crate::partition) fn delete_subscription(&mut self, request: Option<RequestId>, queue: QueueId) {
        let deleted = self.subscription(queue).map(|_| ());
        if deleted.is_ok() {
            self.end_subscription(queue);
        }
        self.reply(request, Reply::Done(deleted));
    }

    /// Deletes a subscription with everything in it, and closes attached links.
    pub(in crate::partition) fn end_subscription(&mut self, queue: QueueId) {
        self.refuse_session_waiters(queue, &Refusal::EntityDeleted);
        let bodies = self.state().bodies_only_in(queue);
        let unnamed = self.state().unnamed_bodies(queue);
        let attached = self.state().attached_to(queue);
        self.emit(Event::SubscriptionRemoved { queue, bodies, unnamed });
        for receiver in attached {
            self.effect(Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted });
        }
    }
}
