//! Semantics §12.9: limits of subscriptions and rules.

use super::rig::{Rig, label, options, rule};
use super::sql::{acting, sql};
use crate::{Command, Filter, QueueId, Refusal, Rule, RuleLimits};

const SMALL: RuleLimits = RuleLimits {
    subscriptions_per_topic: 3,
    sql_filters_per_topic: 2,
    correlation_filters_per_topic: 4,
    sql_expression_characters: 12,
    action_statements: 2,
};

fn rig(limits: RuleLimits) -> Rig {
    let mut rig = Rig::plain();
    rig.partition = rig.partition.with_rule_limits(limits);
    rig
}

fn add(queue: QueueId, rule: Rule) -> Command {
    Command::AddRule { queue, rule }
}

fn replace(queue: QueueId, rule: Rule) -> Command {
    Command::ReplaceRule { queue, rule }
}

#[test]
fn the_limits_are_those_of_the_service() {
    let expected = RuleLimits {
        subscriptions_per_topic: 2_000,
        sql_filters_per_topic: 2_000,
        correlation_filters_per_topic: 100_000,
        sql_expression_characters: 1_024,
        action_statements: 32,
    };
    assert_eq!(RuleLimits::default(), expected);
}

#[test]
fn a_topic_has_a_limited_number_of_subscriptions() {
    let mut rig = rig(SMALL);
    let queues: Vec<QueueId> = (0..3).map(|number| rig.subscribe(&number.to_string())).collect();
    let refused = rig.try_subscribe("more", options(), Vec::new());
    assert_eq!(refused, Err(Refusal::TooManySubscriptions(3)));
    rig.done(Command::DeleteSubscription { queue: queues[0] }).unwrap();
    rig.subscribe("more");
}

#[test]
fn correlation_filters_are_counted_over_the_whole_topic() {
    let mut rig = rig(SMALL);
    let rules = || vec![rule("a", label("x")), rule("b", label("y"))];
    let queues = ["one", "other"].map(|name| rig.try_subscribe(name, options(), rules()).unwrap());
    let queue = queues[0];
    let full = Err(Refusal::TooManyCorrelationFilters(4));
    assert_eq!(rig.done(add(queue, rule("more", label("x")))), full);
    assert_eq!(rig.try_subscribe("third", options(), vec![rule("r", label("x"))]).map(|_| ()), full);
    rig.done(add(queue, rule("free", Filter::True))).unwrap();
    assert_eq!(rig.done(replace(queue, rule("free", label("x")))), full);
    rig.done(replace(queue, rule("b", label("z")))).unwrap();
    rig.done(replace(queue, rule("b", Filter::False))).unwrap();
    rig.done(replace(queue, rule("free", label("x")))).unwrap();
    rig.done(Command::RemoveRule { queue, name: "a".into() }).unwrap();
    rig.done(add(queue, rule("more", label("x")))).unwrap();
    rig.done(Command::DeleteSubscription { queue: queues[1] }).unwrap();
    rig.done(add(queue, rule("and more", label("x")))).unwrap();
    rig.restart();
    rig.partition = std::mem::replace(&mut rig.partition, Rig::plain().partition).with_rule_limits(SMALL);
    rig.done(add(queue, rule("the last", label("x")))).unwrap();
    assert_eq!(rig.done(add(queue, rule("too many", label("x")))), full);
}

/// Excess over a lowered limit is restored, stays, may change and be deleted, but can't grow.
#[test]
fn a_lowered_limit_takes_nothing_away() {
    let mut rig = Rig::plain();
    let rules = (0..5).map(|number| rule(&number.to_string(), label("x"))).collect();
    let queue = rig.try_subscribe("a", options(), rules).unwrap();
    rig.restart();
    rig.partition = std::mem::replace(&mut rig.partition, Rig::plain().partition).with_rule_limits(SMALL);
    rig.done(replace(queue, rule("1", label("y")))).unwrap();
    rig.done(add(queue, rule("true", Filter::True))).unwrap();
    assert_eq!(rig.done(add(queue, rule("5", label("x")))), Err(Refusal::TooManyCorrelationFilters(4)));
    rig.done(Command::RemoveRule { queue, name: "1".into() }).unwrap();
    assert_eq!(rig.done(add(queue, rule("5", label("x")))), Err(Refusal::TooManyCorrelationFilters(4)));
    rig.done(Command::RemoveRule { queue, name: "2".into() }).unwrap();
    rig.done(add(queue, rule("5", label("x")))).unwrap();
}

#[test]
fn sql_filters_are_counted_over_the_whole_topic() {
    let mut rig = rig(SMALL);
    let one = rig.subscribe_to("one", sql("a = 1"));
    let other = rig.subscribe("other");
    rig.done(add(other, rule("r", sql("a = 2")))).unwrap();
    let full = Err(Refusal::TooManySqlFilters(2));
    assert_eq!(rig.done(add(one, rule("more", sql("a = 3")))), full);
    assert_eq!(rig.try_subscribe("third", options(), vec![rule("r", sql("a = 3"))]).map(|_| ()), full);
    for free in [Filter::True, Filter::False, sql("1=1"), sql("1 = 0"), label("x")] {
        rig.done(add(one, rule("free", free))).unwrap();
        assert_eq!(rig.done(replace(one, rule("free", sql("a = 3")))), full);
        rig.done(Command::RemoveRule { queue: one, name: "free".into() }).unwrap();
    }
    rig.done(replace(one, rule("r", sql("a = 3")))).unwrap();
    rig.done(Command::DeleteSubscription { queue: other }).unwrap();
    rig.done(add(one, rule("more", sql("a = 4")))).unwrap();
}

#[test]
fn long_expressions_and_actions_are_refused_with_rule_and_figures() {
    let mut rig = rig(SMALL);
    let queue = rig.subscribe("a");
    let cases = [
        (rule("r", sql("a = 123456789")), "the filter of the rule 'r' has 13 characters; at most 12"),
        (
            acting("r", Filter::True, "SET abcd = 12"),
            "the action of the rule 'r' has 13 characters; at most 12",
        ),
    ];
    for (refused, text) in cases {
        let attempts = [
            rig.done(add(queue, refused.clone())),
            rig.done(replace(queue, Rule { name: "$Default".into(), ..refused.clone() })),
            rig.try_subscribe("b", options(), vec![refused]).map(|_| ()),
        ];
        for attempt in attempts {
            let Err(Refusal::InvalidArgument(why)) = attempt else { panic!("{attempt:?}") };
            assert!(why.contains(text) || why.contains(&text.replace("'r'", "'$Default'")), "{why}");
        }
    }
    rig.done(add(queue, rule("fits", sql("a = 'üüüüüü'")))).unwrap();
}

#[test]
fn actions_have_a_limited_number_of_statements() {
    let mut rig = rig(RuleLimits { sql_expression_characters: 100, ..SMALL });
    let queue = rig.subscribe("a");
    rig.done(add(queue, acting("two", Filter::True, "SET a = 1; REMOVE b"))).unwrap();
    let refused = rig.done(add(queue, acting("three", Filter::True, "SET a = 1; SET b = 2; REMOVE c")));
    let text = "The action of the rule 'three' has 3 statements; at most 2 are accepted.";
    assert_eq!(refused, Err(Refusal::InvalidArgument(text.to_owned())));
}

#[test]
fn replacing_a_rule_replaces_its_action() {
    let mut rig = Rig::plain();
    let queue = rig.try_subscribe("a", options(), vec![acting("r", Filter::True, "SET a = 1")]).unwrap();
    let replaced = |rig: &Rig| rig.partition.subscription(queue).unwrap().rules[0].clone();
    rig.done(replace(queue, acting("R", label("x"), "SET a = 2"))).unwrap();
    rig.restart();
    let known = replaced(&rig);
    assert_eq!((&*known.name, known.action.as_ref().unwrap().expression()), ("r", "SET a = 2"));
    rig.done(replace(queue, rule("r", label("x")))).unwrap();
    assert_eq!(replaced(&rig).action, None);
}
