//! `AddRule`, `ReplaceRule`, `RemoveRule`, `ListRules`. Being commands of the topic's partition, they are ordered with its messages:
//! each message sees the rules before a change or after it.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::step::Step;
use super::super::topic::append_subscription;
use crate::event::{Event, Subscription};
use crate::names::name_key;
use crate::rule::correlation_filters;
use crate::{DEFAULT_RULE, Filter, QueueId, Refusal, Reply, RequestId, Rule, Timestamp};

/// Correlation filters of all subscriptions of a topic (semantics §12.9).
pub(in crate::partition) const CORRELATION_FILTERS_MAX: usize = 100_000;

/// Size of a subscription with all its rules as stored, in bytes: each change of a rule writes it anew.
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
        check_filter(&rule)?;
        let filters = self.state().topic.as_ref().map_or(0, |topic| topic.correlation_filters());
        let rule = Arc::new(Rule { created_at: self.now, ..rule });
        let filters = filters + correlation_filters(std::slice::from_ref(&rule));
        subscription.rules.insert(position, rule);
        check_rules(&subscription, filters)?;
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
        check_filter(&rule)?;
        let position = find(&subscription.rules, &rule.name).ok();
        let Some(old) = position.and_then(|position| subscription.rules.get_mut(position)) else {
            return Err(Refusal::RuleNotFound(rule.name));
        };
        let rule = Rule { name: old.name.clone(), created_at: old.created_at, ..rule };
        let before = correlation_filters(std::slice::from_ref(old));
        *old = Arc::new(rule);
        let after = correlation_filters(std::slice::from_ref(old));
        let filters = self.state().topic.as_ref().map_or(0, |topic| topic.correlation_filters());
        check_rules(&subscription, filters + after - before)?;
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

/// The first rules of a subscription, in order.
pub(super) fn sorted_rules(mut rules: Vec<Rule>, now: Timestamp) -> Result<Vec<Arc<Rule>>, Refusal> {
    rules.sort_by(|one, other| order(&one.name, &other.name));
    for pair in rules.windows(2) {
        if let [one, other] = pair
            && order(&one.name, &other.name).is_eq()
        {
            return Err(Refusal::InvalidArgument(format!("There are two rules '{}'.", other.name)));
        }
    }
    rules.iter().try_for_each(check_filter)?;
    Ok(rules.into_iter().map(|rule| Arc::new(Rule { created_at: now, ..rule })).collect())
}

/// Refuses a subscription whose rules are more than a topic can hold; `correlation_filters` are those of the topic.
pub(super) fn check_rules(subscription: &Subscription, correlation_filters: usize) -> Result<(), Refusal> {
    if correlation_filters > CORRELATION_FILTERS_MAX {
        let text = format!(
            "The subscriptions of a topic have at most {CORRELATION_FILTERS_MAX} correlation filters."
        );
        return Err(Refusal::InvalidArgument(text));
    }
    let bytes = append_subscription(subscription, Vec::new()).len();
    if bytes > RULES_BYTES_MAX {
        let text =
            format!("The rules of the subscription take {bytes} bytes, at most {RULES_BYTES_MAX} are kept.");
        return Err(Refusal::InvalidArgument(text));
    }
    Ok(())
}

fn check_filter(rule: &Rule) -> Result<(), Refusal> {
    match &rule.filter {
        Filter::Correlation(filter) if filter.is_empty() => Err(Refusal::InvalidArgument(format!(
            "The correlation filter of the rule '{}' is empty; it must name at least one property.",
            rule.name
        ))),
        _ => Ok(()),
    }
}

/// Where a rule is, or where it belongs.
fn find(rules: &[Arc<Rule>], name: &str) -> Result<usize, usize> {
    rules.binary_search_by(|rule| order(&rule.name, name))
}

/// `$Default` comes first, then the others by name; case does not matter.
fn order(one: &str, other: &str) -> Ordering {
    let key = |name: &str| (!name.eq_ignore_ascii_case(DEFAULT_RULE), name_key(name));
    key(one).cmp(&key(other))
}
