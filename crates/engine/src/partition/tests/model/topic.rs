//! Topics of the model: subscriptions and their rules; `publishing` makes the copies.

use std::sync::Arc;

use super::message::Message;
use super::queue::Queue;
use super::{ENTITY, Model, Rule};
use crate::Intent;
use crate::{
    BodyRef, Filter, QueueId, QueueOptions, Refusal, Subscription, SubscriptionOptions, TopicOptions,
};

const WRONG: Refusal = Refusal::InvalidArgument(String::new());

/// A subscription has the rules of a queue; size limits belong to its topic.
pub(super) fn as_queue(options: &SubscriptionOptions) -> QueueOptions {
    QueueOptions {
        lock_duration_ms: options.lock_duration_ms,
        max_delivery_count: options.max_delivery_count,
        default_message_time_to_live_ms: options.default_message_time_to_live_ms,
        dead_lettering_on_message_expiration: options.dead_lettering_on_message_expiration,
        requires_session: options.requires_session,
        auto_delete_on_idle_ms: options.auto_delete_on_idle_ms,
        status: options.status,
        ..QueueOptions::default()
    }
}

/// A topic's own messages are scheduled, or transfer dead letters.
pub(super) fn as_queue_of_its_own(options: &TopicOptions) -> QueueOptions {
    QueueOptions {
        default_message_time_to_live_ms: options.default_message_time_to_live_ms,
        auto_delete_on_idle_ms: options.auto_delete_on_idle_ms,
        max_message_size_bytes: options.max_message_size_bytes,
        max_size_bytes: options.max_size_bytes,
        status: options.status,
        ..QueueOptions::default()
    }
}

impl Model {
    fn subscription(&mut self, id: QueueId) -> Result<&mut Subscription, Refusal> {
        if !self.is_topic() {
            return Err(Refusal::NotAllowed(""));
        }
        self.subscriptions.get_mut(&id.0).ok_or(Refusal::EntityDeleted)
    }

    pub(super) fn declare(
        &mut self,
        intent: Intent,
        queue: QueueId,
        name: &str,
        options: SubscriptionOptions,
        rules: Vec<crate::Rule>,
    ) -> Result<(), Refusal> {
        let queue = self.declared(queue, name);
        match self.subscription(queue) {
            Ok(_) if intent == Intent::Create => Err(Refusal::SubscriptionExists(name.into())),
            Err(Refusal::EntityDeleted) if intent == Intent::Update => Err(Refusal::EntityDeleted),
            Ok(known) => {
                let session_changes = known.options.requires_session != options.requires_session;
                if !same_name(&known.name, name) || session_changes {
                    return Err(WRONG);
                }
                self.queues.get_mut(&queue.0).unwrap().options = as_queue(&options);
                self.subscription(queue)?.options = options;
                self.obey_status(queue);
                Ok(())
            }
            Err(Refusal::EntityDeleted) => {
                let twice = rules
                    .iter()
                    .any(|rule| rules.iter().filter(|other| same_name(&other.name, &rule.name)).count() > 1);
                if queue.0 == ENTITY || twice || rules.iter().any(|rule| is_empty(&rule.filter)) {
                    return Err(WRONG);
                }
                let mut new = Queue::new(queue, as_queue(&options));
                new.created_at = self.turn.now;
                self.queues.insert(queue.0, new);
                let subscription = Subscription {
                    queue,
                    name: name.into(),
                    times: crate::EntityTimes::default(),
                    options,
                    rules: Vec::new(),
                };
                self.subscriptions.insert(queue.0, subscription);
                rules.into_iter().try_for_each(|rule| self.add_rule(queue, rule))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// The subscription of a declaration: by id, otherwise by name.
    pub(super) fn declared(&self, queue: QueueId, name: &str) -> QueueId {
        if self.subscriptions.contains_key(&queue.0) {
            return queue;
        }
        self.subscriptions
            .values()
            .find(|known| same_name(&known.name, name))
            .map_or(queue, |known| known.queue)
    }

    pub(super) fn replace_rule(&mut self, queue: QueueId, rule: crate::Rule) -> Result<(), Refusal> {
        let keeps_action = self.turn.breaks(Rule::AReplacedRuleHasItsNewAction);
        let rules = &mut self.subscription(queue)?.rules;
        if is_empty(&rule.filter) {
            return Err(WRONG);
        }
        let known = rules.iter_mut().find(|known| same_name(&known.name, &rule.name));
        let known = known.ok_or(Refusal::RuleNotFound(rule.name))?;
        let action = if keeps_action { known.action.clone() } else { rule.action };
        *known = Arc::new(crate::Rule { filter: rule.filter, action, ..crate::Rule::clone(known) });
        Ok(())
    }

    pub(super) fn delete(&mut self, queue: QueueId) -> Result<(), Refusal> {
        self.subscription(queue)?;
        self.end(queue);
        Ok(())
    }

    pub(super) fn add_rule(&mut self, queue: QueueId, mut rule: crate::Rule) -> Result<(), Refusal> {
        let ignores_case = self.turn.keeps(Rule::NamesOfRulesIgnoreCase);
        rule.created_at = crate::Timestamp(self.turn.now);
        let subscription = self.subscription(queue)?;
        let is_known = |known: &Arc<crate::Rule>| {
            if ignores_case { same_name(&known.name, &rule.name) } else { known.name == rule.name }
        };
        if subscription.rules.iter().any(is_known) {
            return Err(Refusal::RuleExists(rule.name));
        }
        if is_empty(&rule.filter) {
            return Err(WRONG);
        }
        subscription.rules.push(Arc::new(rule));
        Ok(())
    }

    pub(super) fn remove_rule(&mut self, queue: QueueId, name: Box<str>) -> Result<(), Refusal> {
        let rules = &mut self.subscription(queue)?.rules;
        let position = rules.iter().position(|rule| same_name(&rule.name, &name));
        rules.remove(position.ok_or(Refusal::RuleNotFound(name))?);
        Ok(())
    }

    /// The default rule first, then the others by name.
    pub(super) fn list_rules(&mut self, queue: QueueId) -> Result<Vec<Arc<crate::Rule>>, Refusal> {
        let default_first = self.turn.keeps(Rule::TheDefaultRuleComesFirst);
        Ok(in_order(&self.subscription(queue)?.rules, default_first))
    }
}

pub(super) fn in_order(rules: &[Arc<crate::Rule>], default_first: bool) -> Vec<Arc<crate::Rule>> {
    let mut rules = rules.to_vec();
    rules.sort_by_key(|rule| {
        let name = rule.name.to_lowercase();
        (default_first && name != "$default", name)
    });
    rules
}

fn is_empty(filter: &Filter) -> bool {
    matches!(filter, Filter::Correlation(filter) if filter.label.is_none() && filter.user.is_empty())
}

pub(super) fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// Total size of a topic's bodies, each counted once, however many copies there are.
pub(super) fn content_bytes(turn: &super::Turn, messages: &[&Message]) -> u64 {
    let mut seen: Vec<(QueueId, BodyRef)> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let apart = turn.breaks(Rule::ContentsAreStoredOnce);
        let body = (if apart { message.view.queue } else { QueueId(ENTITY) }, message.view.body);
        if !seen.contains(&body) {
            seen.push(body);
            bytes += message.bytes;
        }
    }
    bytes
}
