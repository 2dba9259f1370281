//! `AddRule`, `ReplaceRule`, `RemoveRule`, `ListRules`. As commands of the topic's partition, they are ordered with its
//! messages: each message is matched against the rules before or after a change.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::step::Step;
use crate::event::{Event, Subscription};
use crate::names::name_key;
use crate::rule::FilterCounts;
use crate::stored::append_subscription;
use crate::{DEFAULT_RULE, QueueId, Refusal, Reply, RequestId, Rule, Timestamp};

/// Maximum stored size of a subscription with all its rules, in bytes: each change of a rule writes it as a whole.
pub(in crate::partition) const RULES_BYTES_MAX: usize = 1 << 20;

impl Step<'_> {
    pub(in crate::partition) fn add_rule(&mut self, request: Option<RequestId>, queue: QueueId, rule: Rule) {
        let added = self.try_add_rule(queue, rule);
        self.reply(request, Reply::Done(added));
    }

    fn try_add_rule(&mut self, queue: QueueId, rule: Rule) -> Result<(), Refusal> {
        let mut subscription = Subscription::clone(self.subscription(queue)?);
        let Err(position) = find(&subscription.rules, &rule.name) else {
            return Err(Refusal::RuleExists(rule.name));
        };
        self.rule_limits.check(&rule)?;
        subscription.rules.insert(position, Arc::new(Rule { created_at: self.now, ..rule }));
        self.check_rules(&self.subscription(queue)?.rules, &subscription)?;
        self.emit(Event::SubscriptionSet(Box::new(subscription)));
        Ok(())
    }

    pub(in crate::partition) fn replace_rule(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        rule: Rule,
    ) {
        let replaced = self.try_replace_rule(queue, rule);
        self.reply(request, Reply::Done(replaced));
    }

    fn try_replace_rule(&mut self, queue: QueueId, rule: Rule) -> Result<(), Refusal> {
        let mut subscription = Subscription::clone(self.subscription(queue)?);
        self.rule_limits.check(&rule)?;
        let position = find(&subscription.rules, &rule.name).ok();
        let Some(old) = position.and_then(|position| subscription.rules.get_mut(position)) else {
            return Err(Refusal::RuleNotFound(rule.name));
        };
        let rule = Rule { name: old.name.clone(), created_at: old.created_at, ..rule };
        *old = Arc::new(rule);
        self.check_rules(&self.subscription(queue)?.rules, &subscription)?;
        self.emit(Event::SubscriptionSet(Box::new(subscription)));
        Ok(())
    }

    pub(in crate::partition) fn remove_rule(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        name: Box<str>,
    ) {
        let removed = self.try_remove_rule(queue, name);
        self.reply(request, Reply::Done(removed));
    }

    fn try_remove_rule(&mut self, queue: QueueId, name: Box<str>) -> Result<(), Refusal> {
        let mut subscription = Subscription::clone(self.subscription(queue)?);
        let Ok(position) = find(&subscription.rules, &name) else {
            return Err(Refusal::RuleNotFound(name));
        };
        subscription.rules.remove(position);
        self.emit(Event::SubscriptionSet(Box::new(subscription)));
        Ok(())
    }

    pub(in crate::partition) fn list_rules(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        skip: u32,
        top: u32,
    ) {
        let listed = self.subscription(queue).map(|subscription| {
            subscription.rules.iter().skip(skip as usize).take(top as usize).cloned().collect()
        });
        self.reply(request, Reply::Rules(listed));
    }
}

impl Step<'_> {
    /// Refuses a subscription whose rules exceed the topic's limits, if it has more of them than `before`.
    pub(super) fn check_rules(
        &self,
        before: &[Arc<Rule>],
        subscription: &Subscription,
    ) -> Result<(), Refusal> {
        let (before, after) = (FilterCounts::of(before), FilterCounts::of(&subscription.rules));
        let topic = self.state().topic.as_ref().map_or_else(FilterCounts::default, |topic| topic.filters());
        let (total, limits) = (topic.minus(before).plus(after), self.rule_limits);
        if after.sql > before.sql && total.sql > limits.sql_filters_per_topic {
            return Err(Refusal::TooManySqlFilters(limits.sql_filters_per_topic));
        }
        if after.correlation > before.correlation && total.correlation > limits.correlation_filters_per_topic
        {
            return Err(Refusal::TooManyCorrelationFilters(limits.correlation_filters_per_topic));
        }
        let mut stored = Vec::new();
        append_subscription(subscription, &mut stored);
        let bytes = stored.len();
        if bytes > RULES_BYTES_MAX {
            let text = format!(
                "The rules of the subscription take {bytes} bytes, at most {RULES_BYTES_MAX} are kept."
            );
            return Err(Refusal::InvalidArgument(text));
        }
        Ok(())
    }
}

/// Sorts the initial rules of a subscription; refuses duplicate names.
pub(super) fn sorted_rules(mut rules: Vec<Rule>, now: Timestamp) -> Result<Vec<Arc<Rule>>, Refusal> {
    rules.sort_by(|one, other| order(&one.name, &other.name));
    for pair in rules.windows(2) {
        if let [one, other] = pair
            && order(&one.name, &other.name).is_eq()
        {
            return Err(Refusal::InvalidArgument(format!("There are two rules '{}'.", other.name)));
        }
    }
    Ok(rules.into_iter().map(|rule| Arc::new(Rule { created_at: now, ..rule })).collect())
}

/// Index of a rule, or where to insert it.
fn find(rules: &[Arc<Rule>], name: &str) -> Result<usize, usize> {
    rules.binary_search_by(|rule| order(&rule.name, name))
}

/// `$Default` comes first, then the others by name, case-insensitively.
fn order(one: &str, other: &str) -> Ordering {
    let key = |name: &str| (!name.eq_ignore_ascii_case(DEFAULT_RULE), name_key(name));
    key(one).cmp(&key(other))
}
