//! SQL rules and their actions through the namespace: limits, order, batches. `forwarding_rules` tests the forwarding of
//! copies.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{ChangeError, NamespaceOptions, Output, Response};
use peeklock_engine::{
    Command, Filter, NewMessage, PropertyValue, Refusal, Rule, RuleLimits, RuleProperties, SqlAction,
    SqlFilter, SubQueue, SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::{Error, Limits, MemoryStore, ShardId, Space, Store};

use crate::broker::{Broker, Client, START, quiet};
use crate::topics::{TOPIC, active, client, restarted};

pub(crate) fn sql(condition: &str) -> Filter {
    Filter::Sql(Box::new(SqlFilter::new(condition, Vec::new()).unwrap()))
}

pub(crate) fn rule(name: &str, filter: Filter, action: Option<&str>) -> Rule {
    let action = action.map(|action| SqlAction::new(action, Vec::new()).unwrap());
    Rule { name: name.into(), filter, action, created_at: Timestamp::default() }
}

pub(crate) fn numbered(number: i64) -> NewMessage {
    let rule_properties = RuleProperties {
        user: vec![("n".into(), PropertyValue::Integer(number))],
        ..RuleProperties::default()
    };
    let content = Bytes::from(number.to_string());
    NewMessage { content, rule_properties: Some(Arc::new(rule_properties)), ..NewMessage::default() }
}

fn send(messages: impl IntoIterator<Item = NewMessage>) -> Command {
    Command::Send { messages: messages.into_iter().collect() }
}

pub(crate) async fn subscribe(broker: &Broker, name: &str, rules: Vec<Rule>) {
    let options = SubscriptionOptions::default();
    broker.namespace.declare_subscriptions(TOPIC, vec![(name.to_owned(), options, rules)]).await.unwrap();
}

async fn topic() -> Broker {
    let broker = Broker::start(1 << 20).await;
    broker.namespace.declare(TOPIC, TopicOptions::default()).await.unwrap();
    broker
}

async fn accepted(sender: &mut Client, command: Command) {
    sender.submit(command);
    let (_, response) = sender.response().await;
    assert!(matches!(response, Response::Sent(Ok(_))), "{response:?}");
}

#[tokio::test]
async fn too_many_rules_are_refused_and_existing_rules_counted() {
    let store = MemoryStore::new();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let rule_limits = RuleLimits {
        subscriptions_per_topic: 2,
        sql_filters_per_topic: 2,
        correlation_filters_per_topic: 1,
        ..RuleLimits::default()
    };
    let options = NamespaceOptions { rule_limits, ..NamespaceOptions::default() };
    let clock = crate::broker::TestClock::new(START);
    let namespace =
        peeklock_engine::runtime::Namespace::start(shard, Arc::new(clock), options).await.unwrap();
    namespace.create(TOPIC, TopicOptions::default()).await.unwrap();
    let create = |name: &'static str, rules| {
        namespace.create_subscription(TOPIC, name, SubscriptionOptions::default(), rules)
    };
    let by_label = || {
        let filter = peeklock_engine::CorrelationFilter { label: Some("l".into()), ..Default::default() };
        Filter::Correlation(Box::new(filter))
    };
    create("a", vec![rule("1", sql("n = 1"), Some("SET a = 1")), rule("2", by_label(), None)]).await.unwrap();
    create("b", vec![rule("1", Filter::True, None)]).await.unwrap();
    let sizes = || {
        let topic = namespace.describe(TOPIC).unwrap();
        (topic.subscriptions, topic.sql_filters, topic.correlation_filters)
    };
    assert_eq!(sizes(), (2, 2, 1), "a true filter is a SQL filter");
    let refusal = |result: Result<(), ChangeError>| match result {
        Err(ChangeError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let more = create("c", Vec::new()).await;
    assert_eq!(refusal(more.map(|_| ())), Refusal::TooManySubscriptions(2));
    let add = |name, filter| namespace.create_rule(TOPIC, "b", rule(name, filter, None));
    assert_eq!(refusal(add("2", by_label()).await), Refusal::TooManyCorrelationFilters(1));
    add("2", sql("n = 2")).await.unwrap();
    assert_eq!(refusal(add("3", sql("n = 3")).await), Refusal::TooManySqlFilters(2));
    assert_eq!(sizes(), (2, 3, 1));
    namespace.delete_rule(TOPIC, "b", "2").await.unwrap();
    namespace.update_rule(TOPIC, "a", rule("2", sql("n = 2"), None)).await.unwrap();
    assert_eq!(sizes(), (2, 3, 0));
    let long = add("long", sql(&format!("n = '{}'", "x".repeat(2_000)))).await;
    let Err(ChangeError::Invalid { reason }) = long else { panic!("{long:?}") };
    assert!(reason.contains("'long'") && reason.contains("at most 1024"), "{reason}");
}

/// All in one turn: each message is decided by the rules either before or after the change.
#[tokio::test]
async fn a_rule_change_is_ordered_with_the_messages_around_it() {
    let broker = topic().await;
    subscribe(&broker, "s", vec![rule("r", sql("n = 1"), None)]).await;
    let queue = broker.namespace.subscription(TOPIC, "s").unwrap().queue;
    let mut sender = client(&broker, None);
    quiet().await;
    sender.submit(send([numbered(1), numbered(2)]));
    sender.submit(Command::ReplaceRule { queue, rule: rule("r", sql("n = 2"), Some("SET m = n")) });
    sender.submit(send([numbered(1), numbered(2)]));
    sender.submit(Command::AddRule { queue, rule: rule("also", sql("n = 1"), None) });
    sender.submit(send([numbered(1), numbered(2)]));
    sender.submit(Command::RemoveRule { queue, name: "r".into() });
    sender.submit(send([numbered(1), numbered(2)]));
    assert_eq!(sender.all().await.len(), 7);
    let broker = restarted(broker, 2).await;
    let seen = copies(&broker, "s").await;
    let plain = |number: &str| (number.to_owned(), false);
    let changed = |number: &str| (number.to_owned(), true);
    assert_eq!(seen, [plain("1"), changed("2"), plain("1"), changed("2"), plain("1")]);
}

/// Bodies in a subscription, and whether an action changed the copy.
async fn copies(broker: &Broker, name: &str) -> Vec<(String, bool)> {
    let mut reader = client(broker, Some(name));
    let source = peeklock_engine::QueuePath::main(reader.queue);
    reader.submit(crate::broker::peek(source));
    let (_, Response::Received(Ok(messages))) = reader.response().await else { panic!("browsed") };
    let text = |content: &Bytes| String::from_utf8(content.to_vec()).unwrap();
    messages.iter().map(|one| (text(&one.content), one.view.changes.is_some())).collect()
}

/// A full disk undoes the change and the messages decided by it, and nothing before them.
#[tokio::test]
async fn a_refused_batch_takes_the_rules_back_as_well() {
    let broker = topic().await;
    subscribe(&broker, "s", vec![rule("r", sql("n = 1"), None)]).await;
    let queue = broker.namespace.subscription(TOPIC, "s").unwrap().queue;
    let mut sender = client(&broker, None);
    broker.store.hold();
    sender.submit(send([numbered(1)]));
    quiet().await;
    assert!(broker.store.release_one());
    quiet().await;
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    sender.submit(Command::ReplaceRule { queue, rule: rule("r", sql("n = 2"), Some("SET m = n")) });
    sender.submit(send([numbered(1), numbered(2)]));
    quiet().await;
    sender.submit(send([numbered(2)]));
    quiet().await;
    broker.store.release_all();
    let answers: Vec<bool> = sender
        .all()
        .await
        .iter()
        .map(|output| {
            matches!(
                output,
                Output::Response { response: Response::Sent(Ok(_)) | Response::Done(Ok(())), .. }
            )
        })
        .collect();
    assert_eq!(answers, [true, false, false, false]);
    for number in [1, 2] {
        accepted(&mut sender, send([numbered(number)])).await;
    }
    let seen = copies(&broker, "s").await;
    assert_eq!(seen, [("1".to_owned(), false), ("1".to_owned(), false)], "the rule is unchanged");
    let broker = restarted(broker, 2).await;
    assert_eq!(copies(&broker, "s").await, seen);
}

/// Only copies that are made count against the store's batch limit, not the most that all rules could produce.
#[tokio::test]
async fn a_batch_for_few_of_many_subscriptions_is_not_too_much() {
    let broker = topic().await;
    let subscription = |number: i64| {
        let rules = vec![rule("r", sql(&format!("n = {number}")), None)];
        (number.to_string(), SubscriptionOptions::default(), rules)
    };
    broker.namespace.declare_subscriptions(TOPIC, (0..100).map(subscription).collect()).await.unwrap();
    broker.store.set_limits(Limits { value_bytes_max: 4_000, batch_bytes_max: 40_000 });
    let broker = restarted(broker, 2).await;
    let mut sender = client(&broker, None);
    accepted(&mut sender, send((0..50).map(numbered))).await;
    assert_eq!((active(&broker, "7"), active(&broker, "49"), active(&broker, "50")), (1, 1, 0));
    sender.submit(send((0..200).map(numbered)));
    let (_, response) = sender.response().await;
    assert!(matches!(response, Response::Sent(Err(Refusal::MessageTooLarge { .. }))), "{response:?}");
}

/// The size of copies is known only when they are made: a turn that makes many large ones needs more than one batch.
#[tokio::test]
async fn a_turn_of_large_changes_is_split_between_its_commands() {
    const SENDS: usize = 12;
    let broker = topic().await;
    for name in ["a", "b", "c", "d"] {
        let rules =
            (0..10).map(|number| rule(&number.to_string(), Filter::True, Some("SET b = a; SET c = a")));
        subscribe(&broker, name, rules.collect()).await;
    }
    let large = PropertyValue::Text("x".repeat(25_000).into());
    let rule_properties = RuleProperties { user: vec![("a".into(), large)], ..RuleProperties::default() };
    let message = NewMessage {
        content: Bytes::from_static(b"x"),
        rule_properties: Some(Arc::new(rule_properties)),
        ..NewMessage::default()
    };
    let mut sender = client(&broker, None);
    quiet().await;
    broker.store.hold();
    for _ in 0..SENDS {
        sender.submit(send([message.clone()]));
    }
    quiet().await;
    let mut batches = 0;
    while broker.store.held() > 0 {
        assert!(broker.store.held() <= 3, "little is under way at a time");
        broker.store.release_one();
        batches += 1;
        quiet().await;
    }
    assert!((3..=SENDS).contains(&batches), "{batches} batches for 24 MB");
    broker.store.release_all();
    assert_eq!(sender.all().await.len(), SENDS);
    assert_eq!(active(&broker, "d"), 10 * SENDS as u64);
    let largest = broker.store.snapshot().into_values().map(|value| value.len()).max();
    assert!(largest.is_some_and(|bytes| bytes < 64 << 10), "{largest:?}");
}

/// The dead letters of failed rules survive like any others.
#[tokio::test]
async fn failures_are_there_after_a_restart() {
    let broker = topic().await;
    subscribe(&broker, "s", vec![rule("f", sql("1 / n = 1"), None)]).await;
    let mut sender = client(&broker, None);
    for number in [1, 0] {
        accepted(&mut sender, send([numbered(number)])).await;
    }
    broker.store.crash();
    let broker = restarted(broker, 2).await;
    let mut reader = client(&broker, Some("s"));
    assert_eq!(reader.browsed(SubQueue::Main).await, ["1"]);
    assert_eq!(reader.browsed(SubQueue::DeadLetter).await, ["0"]);
    assert_eq!(broker.store.snapshot().keys().filter(|key| key.space == Space::Body).count(), 2);
}
