//! The status of a topic applies to its subscriptions; that of a subscription to receiving from it.

use super::super::rig::message;
use super::rig::{Rig, TOPIC, options};
use crate::{
    Command, Effect, EntityStatus, Intent, QueueId, ReceiveMode, ReceiverId, Refusal, SubQueue,
    SubscriptionOptions, TopicOptions,
};

fn set_status(rig: &mut Rig, queue: QueueId, name: &str, status: EntityStatus) -> Vec<Effect> {
    let options = SubscriptionOptions { status, ..options() };
    let (intent, name, rules) = (Intent::Update, name.into(), Vec::new());
    rig.handle(None, Command::DeclareSubscription { intent, queue, name, options, rules })
}

fn set_status_of_topic(rig: &mut Rig, status: EntityStatus) -> Vec<Effect> {
    rig.change_options(TopicOptions { status, ..TopicOptions::default() })
}

fn closed(receiver: ReceiverId) -> Effect {
    Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDisabled }
}

#[test]
fn a_disabled_subscription_gets_copies_and_gives_none() {
    let mut rig = Rig::plain();
    let (queue, other) = (rig.subscribe("a"), rig.subscribe("b"));
    let receiver = rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
    rig.open(other, SubQueue::Main, ReceiveMode::PeekLock);
    assert_eq!(set_status(&mut rig, queue, "a", EntityStatus::Disabled), [closed(receiver)]);
    rig.send(message("x"));
    assert_eq!(rig.partition.subscription_counts(queue).unwrap().active, 1);
    assert_eq!(rig.try_peek(queue, SubQueue::Main), Err(Refusal::EntityDisabled));
    assert!(rig.try_peek(other, SubQueue::Main).is_ok());
    set_status(&mut rig, queue, "a", EntityStatus::Active);
    assert!(rig.take_one(queue).is_some());
}

#[test]
fn the_status_of_a_topic_governs_its_subscriptions() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    let receiver = rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
    let sender = ReceiverId(50);
    rig.handle(None, Command::Watch { watcher: sender, queue: TOPIC, sends: true });
    assert_eq!(set_status_of_topic(&mut rig, EntityStatus::SendDisabled), [closed(sender)]);
    assert_eq!(rig.try_send(vec![message("x")]), Err(Refusal::EntityDisabled));
    assert!(rig.try_peek(queue, SubQueue::Main).is_ok());
    assert_eq!(set_status_of_topic(&mut rig, EntityStatus::Disabled), [closed(receiver)]);
    assert_eq!(rig.try_peek(queue, SubQueue::Main), Err(Refusal::EntityDisabled));
    set_status_of_topic(&mut rig, EntityStatus::ReceiveDisabled);
    rig.send(message("x"));
    assert_eq!(rig.try_peek(queue, SubQueue::Main), Err(Refusal::EntityDisabled));
}

#[test]
fn each_message_sees_the_old_rule_or_the_new_one() {
    use crate::Filter;
    let mut rig = Rig::plain();
    let queue = rig.subscribe_to("a", Filter::False);
    let known = rig.partition.subscription(queue).unwrap().rules[0].clone();
    rig.send(message("old"));
    rig.advance(7);
    let rule = crate::Rule { filter: Filter::True, ..crate::Rule::clone(&known) };
    rig.done(Command::ReplaceRule { queue, rule }).unwrap();
    assert_eq!(rig.events.len(), 1, "one event");
    let replaced = rig.partition.subscription(queue).unwrap().rules[0].clone();
    assert_eq!((&replaced.filter, replaced.created_at), (&Filter::True, known.created_at));
    rig.send(message("new"));
    assert_eq!(rig.partition.subscription_counts(queue).unwrap().active, 1);
    let missing = super::rig::rule("nobody", Filter::True);
    let refused = rig.done(Command::ReplaceRule { queue, rule: missing });
    assert_eq!(refused, Err(Refusal::RuleNotFound("nobody".into())));
}
