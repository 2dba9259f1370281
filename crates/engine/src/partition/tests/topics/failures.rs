//! Semantics §12.5: rules that fail.

use super::rig::{Rig, labelled, options, rule, with_sessions};
use super::sql::{acting, sql, with_user};
use crate::{Filter, NewMessage, PropertyValue, QueueId, Rule, SubQueue, SubscriptionOptions};

/// A condition that can't be evaluated.
const FAILS: &str = "a / 0 = 1";
/// An action that can't be carried out.
const CAN_NOT: &str = "SET b = 1; SET b = a / 0";

fn sent() -> NewMessage {
    with_user(&[("a", PropertyValue::Integer(1))])
}

fn subscribe(rig: &mut Rig, dead_letters: bool, rules: Vec<Rule>) -> QueueId {
    let options =
        SubscriptionOptions { dead_lettering_on_filter_evaluation_exceptions: dead_letters, ..options() };
    rig.try_subscribe(if dead_letters { "on" } else { "off" }, options, rules).unwrap()
}

#[test]
fn s12_5_a_failing_rule_dead_letters_once_or_does_not_match_and_the_others_count() {
    let plain = || rule("p", Filter::True);
    let fails = |name: &str| rule(name, sql(FAILS));
    let changes = || acting("c", Filter::True, "SET b = 2");
    let can_not = |name: &str| acting(name, Filter::True, CAN_NOT);
    let unmatched = || acting("u", sql("a = 2"), CAN_NOT);
    // Rules, copies in the subscription, and the reason if the flag is set.
    let cases: Vec<(Vec<Rule>, u64, Option<&str>)> = vec![
        (vec![plain()], 1, None),
        (vec![fails("f")], 0, Some("FilterException")),
        (vec![fails("f"), plain()], 1, Some("FilterException")),
        (vec![fails("f"), fails("g")], 0, Some("FilterException")),
        (vec![fails("f"), changes(), plain()], 2, Some("FilterException")),
        (vec![can_not("f")], 0, Some("RuleActionException")),
        (vec![can_not("f"), plain()], 1, Some("RuleActionException")),
        (vec![can_not("f"), changes()], 1, Some("RuleActionException")),
        (vec![can_not("f"), fails("g")], 0, Some("RuleActionException")),
        (vec![fails("f"), can_not("g")], 0, Some("FilterException")),
        (vec![unmatched(), plain()], 1, None),
        (vec![acting("x", sql(FAILS), CAN_NOT), plain()], 1, Some("FilterException")),
    ];
    for (rules, copies, reason) in cases {
        let names: Vec<_> = rules.iter().map(|rule| rule.name.clone()).collect();
        let mut rig = Rig::plain();
        let [on, off] = [true, false].map(|flag| subscribe(&mut rig, flag, rules.clone()));
        rig.send(sent());
        rig.restart();
        assert_eq!(rig.counts(on), (copies, u64::from(reason.is_some())), "{names:?} with the flag");
        assert_eq!(rig.counts(off), (copies, 0), "{names:?} without the flag");
        if let Some(expected) = reason {
            let (dead, reason, description) = rig.only_dead(on);
            assert_eq!(reason, expected, "{names:?}: the first that fails names it");
            assert!(!description.is_empty());
            assert_eq!((dead.changes, dead.body.0), (None, 1), "as it was sent");
            assert_eq!(dead.sequence_number.0, copies + 1, "after the copies");
        }
    }
}

#[test]
fn the_description_names_the_failure() {
    let mut rig = Rig::plain();
    let queue = subscribe(&mut rig, true, vec![rule("f", sql(FAILS))]);
    rig.send(sent());
    let (_, reason, description) = rig.only_dead(queue);
    let wanted = crate::SqlFilter::new(FAILS, Vec::new()).unwrap();
    let rule_properties = sent().rule_properties.unwrap();
    let subject = crate::Subject { rule_properties: &rule_properties, arrival: crate::Arrival::default() };
    let failure = wanted.matches(&subject, &mut || 0).unwrap_err();
    assert_eq!((&*reason, description), (failure.kind, failure.text));
}

#[test]
fn unknown_results_do_not_match_and_do_not_fail() {
    let mut rig = Rig::plain();
    let conditions =
        ["missing = 1", "missing <> 1", "NOT missing = 1", "a = missing", "missing / 0 = 1", "a > 'x'"];
    let rules: Vec<_> = conditions.iter().map(|condition| rule(condition, sql(condition))).collect();
    let queue = subscribe(&mut rig, true, rules);
    rig.send(sent());
    assert_eq!((rig.counts(queue), rig.bodies()), ((0, 0), 0));
}

#[test]
fn one_subscription_s_failure_is_no_other_s() {
    let mut rig = Rig::plain();
    let failing = subscribe(&mut rig, true, vec![rule("f", sql(FAILS))]);
    let fine = rig.subscribe("fine");
    let picky = rig.subscribe_to("picky", sql("a = 2"));
    rig.send(sent());
    assert_eq!([failing, fine, picky].map(|queue| rig.counts(queue)), [(0, 1), (1, 0), (0, 0)]);
}

/// A dead letter needs no session: the reason is the failure, not the missing session.
#[test]
fn a_failure_in_a_subscription_with_sessions_names_itself() {
    let mut rig = Rig::plain();
    let rules = vec![rule("f", sql(FAILS)), rule("p", Filter::True)];
    let queue = rig.try_subscribe("s", with_sessions(), rules).unwrap();
    rig.send(sent());
    let dead = rig.peek(queue, SubQueue::DeadLetter);
    let reasons: Vec<_> = dead
        .iter()
        .map(|view| view.dead_letter.clone().unwrap().reason.clone().unwrap().to_string())
        .collect();
    assert_eq!(reasons, ["Session id is null.", "FilterException"]);
}

#[test]
fn scheduled_messages_fail_when_they_are_published() {
    let mut rig = Rig::plain();
    let queue = subscribe(&mut rig, true, vec![rule("f", sql(FAILS))]);
    let later = Some(rig.now.plus_ms(10));
    rig.send(NewMessage { scheduled_enqueue_time: later, ..sent() });
    assert_eq!(rig.counts(queue), (0, 0));
    rig.advance(10);
    assert_eq!(rig.only_dead(queue).1, "FilterException");
    assert_eq!(rig.partition.counts().size_bytes, 7);
}

#[test]
fn the_flag_counts_from_its_change_on() {
    let mut rig = Rig::plain();
    let queue = subscribe(&mut rig, true, vec![rule("f", sql(FAILS))]);
    rig.send(sent());
    let options = SubscriptionOptions { dead_lettering_on_filter_evaluation_exceptions: false, ..options() };
    let (intent, name, rules) = (crate::Intent::Update, "on".into(), Vec::new());
    rig.done(crate::Command::DeclareSubscription { intent, queue, name, options, rules }).unwrap();
    rig.send(sent());
    assert_eq!(rig.counts(queue), (0, 1));
}

#[test]
fn messages_without_the_property_match_beside_those_that_fail() {
    let mut rig = Rig::plain();
    let queue = subscribe(&mut rig, true, vec![rule("f", sql("a IS NULL OR a / 0 = 1"))]);
    rig.send(labelled("fine", "x"));
    rig.send(sent());
    assert_eq!(rig.counts(queue), (1, 1));
}
