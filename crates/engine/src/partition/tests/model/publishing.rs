//! The copies of a topic's message in the model.

use std::sync::Arc;

use super::ending::{bury, header_bytes, reason};
use super::message::Message;
use super::queue::Queue;
use super::sql::{self, Truth};
use super::topic::{in_order, same_name};
use super::{ENTITY, Model, Rule, Turn};
use crate::{
    CorrelationFilter, Filter, KeyPartition, PropertyChanges, PropertyValue, RuleProperties, SequenceNumber,
    Subscription, TextProperty,
};

const HEADER_BYTES_MAX: usize = 65_536;

/// A subscription's copy of a message.
enum Share {
    /// An unchanged copy.
    Plain,
    /// A copy that an action changed.
    Changed(PropertyChanges),
    /// A dead letter with this reason.
    Failed(&'static str),
}

impl Model {
    /// Copies a message to every matching subscription; `since` is when it was sent.
    pub(super) fn publish(&mut self, mut message: Message, since: u64) -> SequenceNumber {
        let topic = &self.queues[&ENTITY];
        let (number, topic_options) = (SequenceNumber(topic.next_number), topic.options.clone());
        let was_scheduled = message.scheduled_for.take().is_some();
        message.view.state = crate::MessageState::Active;
        let rule_properties = message.rule_properties.as_deref().cloned().unwrap_or_default();
        let shown = match self.turn.keeps(Rule::RulesSeeTheNumberThatIsShown) {
            true => message.view.partition.shown(number),
            false => number,
        };
        if self.turn.breaks(Rule::CopiesBelongToThePartitionOfTheirMessage) {
            message.view.partition = KeyPartition::default();
        }
        // Changes of another copy, for a broken rule.
        let mut leaked = None;
        let topic = Queue::new(super::QUEUE, topic_options);
        let mut copies = 0;
        for (id, subscription) in &self.subscriptions {
            let queue = self.queues.get_mut(id).unwrap();
            if was_scheduled
                && self.turn.breaks(Rule::FiltersAreAskedWhenTheTimeComes)
                && queue.created_at > since
            {
                continue;
            }
            for share in shares(&self.turn, subscription, &rule_properties, shown.0) {
                let Some(copy) = made(&self.turn, (&topic, queue), &message, &share, &mut leaked) else {
                    continue;
                };
                if self.turn.breaks(Rule::EachSubscriptionCountsForItself) {
                    queue.next_number = queue.next_number.max(number.0);
                }
                queue.add(copy);
                if self.turn.breaks(Rule::SendsDoNotKeepASubscription) {
                    queue.use_it(&self.turn);
                }
                copies += 1;
            }
        }
        let topic = self.queues.get_mut(&ENTITY).unwrap();
        if copies > 0 || self.turn.keeps(Rule::WhatNobodyWantsTakesANumber) {
            topic.next_number += 1;
        }
        // Of a message without copies nothing is stored, not even its number.
        if copies > 0 || was_scheduled {
            self.topic_number_stored = topic.next_number;
        }
        number
    }

    /// Publishes the due messages scheduled on a topic.
    pub(super) fn publish_due(&mut self) {
        for number in self.queues[&ENTITY].due(self.turn.now) {
            let message = self.queues.get_mut(&ENTITY).unwrap().messages.remove(&number).unwrap();
            let since = message.view.enqueued_at.0;
            self.publish(message, since);
        }
    }
}

impl Message {
    /// Applies an action's changes to a copy; false, without a change, if its header would become too large.
    fn change(&mut self, turn: &Turn, changes: &PropertyChanges) -> bool {
        let before = self.clone();
        self.view.changes = Some(Arc::new(changes.clone()));
        if let Some(id) = changes.text(TextProperty::SessionId)
            && turn.keeps(Rule::AChangedSessionCounts)
        {
            self.session_id = id.map(Arc::from);
        }
        let nothing = Vec::new();
        if header_bytes(turn, self, &nothing, None) <= HEADER_BYTES_MAX {
            return true;
        }
        if turn.keeps(Rule::WhatGrowsTooLargeIsDeadLetteredAsItWas) {
            *self = before;
        }
        false
    }
}

/// The copies of a subscription: one for all rules without action, one for each action, and a dead letter if a rule failed.
fn shares(
    turn: &Turn,
    subscription: &Subscription,
    rule_properties: &RuleProperties,
    number: u64,
) -> Vec<Share> {
    let (mut plain, mut changed, mut failed) = (0, Vec::new(), Vec::new());
    let mut seen = rule_properties.clone();
    let rules = in_order(&subscription.rules, turn.keeps(Rule::CopiesComeInTheOrderOfTheRules));
    for rule in &rules {
        match (ask(turn, &rule.filter, rule_properties, number), &rule.action) {
            (Truth::Fails, _) => failed.push("FilterException"),
            (Truth::False, _) => {}
            (Truth::Unknown, _) if turn.keeps(Rule::UnknownIsNoMatch) => {}
            (_, None) => plain += 1,
            (_, Some(action)) => match sql::act(action.expression(), &seen) {
                Some(mut changes) => {
                    if turn.breaks(Rule::ActionsSeeWhatWasSent) {
                        changes.apply(&mut seen);
                    }
                    if turn.keeps(Rule::TheRuleIsNamed) {
                        sql::name(&mut changes, &rule.name);
                    }
                    changed.push(Share::Changed(changes));
                }
                None if turn.keeps(Rule::AFailedActionMakesNoCopy) => failed.push("RuleActionException"),
                None => changed.push(Share::Plain),
            },
        }
    }
    let all = turn.breaks(Rule::OneMatchingRuleSuffices) && plain + changed.len() < rules.len();
    if turn.breaks(Rule::WithoutRulesNothingComes) && rules.is_empty() {
        plain = 1;
    }
    if turn.keeps(Rule::SeveralMatchingRulesMakeOneCopy) {
        plain = plain.min(1);
    }
    if all || (!failed.is_empty() && turn.breaks(Rule::WhatFailsLeavesTheOthers)) {
        (plain, changed) = (0, Vec::new());
    }
    if !changed.is_empty() && turn.breaks(Rule::MatchesWithoutActionMakeACopyOfTheirOwn) {
        plain = 0;
    }
    if turn.breaks(Rule::EachActionMakesACopyOfItsOwn) {
        changed.truncate(1);
    }
    let mut shares: Vec<Share> = (0..plain).map(|_| Share::Plain).collect();
    shares.extend(changed);
    if turn.breaks(Rule::TheUnchangedCopyComesFirst) {
        shares.reverse();
    }
    shares.extend(dead_letters(turn, subscription, failed));
    shares
}

/// Converts failures to dead letters.
fn dead_letters(turn: &Turn, subscription: &Subscription, mut failed: Vec<&'static str>) -> Vec<Share> {
    let wanted = subscription.options.dead_lettering_on_filter_evaluation_exceptions;
    if !wanted && turn.keeps(Rule::FailuresAreDeadLetteredWhereThatIsWanted) {
        return Vec::new();
    }
    if turn.breaks(Rule::TheFirstFailureNamesTheReason) {
        failed.reverse();
    }
    if turn.keeps(Rule::SeveralFailuresMakeOneDeadLetter) {
        failed.truncate(1);
    }
    failed.into_iter().map(Share::Failed).collect()
}

/// Makes a copy; `leaked` are an action's changes in another copy of the message, which must not affect this one.
fn made(
    turn: &Turn,
    (topic, queue): (&Queue, &Queue),
    message: &Message,
    share: &Share,
    leaked: &mut Option<Arc<PropertyChanges>>,
) -> Option<Message> {
    let mut copy = message.clone();
    let changes = if let Share::Changed(changes) = share { Some(changes) } else { None };
    let is_too_large = changes.is_some_and(|changes| !copy.change(turn, changes));
    if turn.breaks(Rule::ChangesArePrivate) {
        copy.view.changes = copy.view.changes.or_else(|| leaked.clone());
        leaked.clone_from(&copy.view.changes);
    }
    let asked = changes.filter(|_| !is_too_large).and_then(|changes| changes.time_to_live_ms);
    copy.live(turn.now, life(turn, (topic, queue), message.view.time_to_live_ms, asked));
    if let Share::Failed(kind) = share {
        bury(&mut copy, reason(kind, ""));
    } else if is_too_large {
        bury(&mut copy, reason("HeaderSizeExceeded", "The size quota for this stream has been exceeded."));
    } else if queue.options.requires_session && copy.session_id.is_none() {
        if turn.breaks(Rule::WithoutSessionIdItIsDeadLettered) {
            return None;
        }
        let text = "Session enabled entity doesn't allow a message whose session identifier is null.";
        bury(&mut copy, reason("Session id is null.", text));
    }
    Some(copy)
}

/// The minimum of the time to live set by the sender or an action, the topic's and the subscription's.
fn life(
    turn: &Turn,
    (topic, queue): (&Queue, &Queue),
    sent: Option<u64>,
    changed: Option<Option<u64>>,
) -> Option<u64> {
    if let (Some(changed), true) = (changed, turn.breaks(Rule::AChangedLifeIsCapped)) {
        return changed;
    }
    let changed = changed.filter(|_| turn.keeps(Rule::AChangedLifeCounts));
    let life = topic.effective(turn, changed.unwrap_or(sent));
    if turn.keeps(Rule::TheLeastLifeCounts) { queue.effective(turn, life) } else { life }
}

/// The verdict of a filter on a message.
fn ask(turn: &Turn, filter: &Filter, rule_properties: &RuleProperties, number: u64) -> Truth {
    match filter {
        Filter::True => Truth::True,
        Filter::False => Truth::False,
        Filter::Sql(condition) => sql::ask(condition.expression(), rule_properties, number),
        Filter::Correlation(filter) => Some(correlates(turn, filter, rule_properties)).into(),
        Filter::Selector(selector) => Some(selects(selector.text(), rule_properties)).into(),
    }
}

/// The tests' selectors compare the property `size`, case-sensitively, or the label.
fn selects(text: &str, rule_properties: &RuleProperties) -> bool {
    let size = rule_properties.user.iter().find(|(name, _)| &**name == "size").map(|(_, value)| value);
    match text.split_once(" = ") {
        Some(("size", wanted)) => {
            matches!(size, Some(PropertyValue::Integer(size)) if size.to_string() == wanted)
        }
        Some((_, wanted)) => {
            rule_properties.label.as_deref().is_some_and(|label| wanted.trim_matches('\'') == label)
        }
        None => false,
    }
}

/// The tests' correlation filters have a label, a user property, or both.
fn correlates(turn: &Turn, filter: &CorrelationFilter, rule_properties: &RuleProperties) -> bool {
    let CorrelationFilter { label, user, .. } = filter;
    let label_fits = match (label, &rule_properties.label) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wanted), Some(has)) if turn.keeps(Rule::LabelsMatchExactly) => wanted == has,
        (Some(wanted), Some(has)) => wanted.eq_ignore_ascii_case(has),
    };
    let one_fits = |(name, value): &(Box<str>, PropertyValue)| {
        let here =
            rule_properties.user.iter().filter(|(known, _)| same_name(known, name)).map(|(_, value)| value);
        here.take(1).any(|known| known == value)
    };
    let user_fits = user.iter().all(one_fits);
    if turn.breaks(Rule::EveryFieldMustMatch) {
        return (label.is_some() && label_fits) || (!user.is_empty() && user_fits);
    }
    label_fits && user_fits
}
