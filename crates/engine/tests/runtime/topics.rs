//! Topics and subscriptions through the namespace.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{Output, Response, StartError};
use peeklock_engine::{
    Command, CorrelationFilter, Filter, NewMessage, ReceiveMode, Refusal, Rule, RuleProperties, Settlement,
    SubQueue, SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::{Error, PartitionId, ShardId, Space, Store};

use crate::broker::{Broker, Client, QUEUE, START, quiet, token};

pub(crate) const TOPIC: &str = "News";

pub(crate) fn plain(name: &str) -> (String, SubscriptionOptions, Vec<Rule>) {
    (name.to_owned(), SubscriptionOptions::default(), vec![Rule::default_rule()])
}

fn rule(name: &str, filter: Filter) -> Rule {
    Rule { name: name.into(), filter, action: None, created_at: Timestamp::default() }
}

fn labelled(content: &str, label: &str) -> Command {
    let rule_properties = RuleProperties { label: Some(label.into()), ..RuleProperties::default() };
    let content = Bytes::copy_from_slice(content.as_bytes());
    let message =
        NewMessage { content, rule_properties: Some(Arc::new(rule_properties)), ..NewMessage::default() };
    Command::Send { messages: [message].into_iter().collect() }
}

/// A client of a topic, or of one of its subscriptions.
pub(crate) fn client(broker: &Broker, subscription: Option<&str>) -> Client {
    let mut client = broker.client();
    (client.handle, client.queue) = match subscription {
        None => {
            let topic = broker.namespace.entity(TOPIC).unwrap();
            (topic.partition, topic.queue)
        }
        Some(name) => {
            let subscription = broker.namespace.subscription(TOPIC, name).unwrap();
            (subscription.partition, subscription.queue)
        }
    };
    client
}

pub(crate) async fn with_subscriptions(broker: &Broker, names: &[&str]) {
    broker.namespace.declare(TOPIC, TopicOptions::default()).await.unwrap();
    let subscriptions = names.iter().map(|name| plain(name)).collect();
    broker.namespace.declare_subscriptions(TOPIC, subscriptions).await.unwrap();
}

pub(crate) async fn broker(names: &[&str]) -> Broker {
    let broker = Broker::start(1 << 20).await;
    with_subscriptions(&broker, names).await;
    broker
}

pub(crate) async fn restarted(broker: Broker, seed: u64) -> Broker {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    Broker::over(broker.store, shard, broker.clock, 0, seed).await
}

pub(crate) fn active(broker: &Broker, name: &str) -> u64 {
    broker.namespace.subscription_counts(TOPIC, name).unwrap().active
}

pub(crate) fn partitions(broker: &Broker, space: Space) -> Vec<u64> {
    let mut partitions: Vec<u64> = broker
        .store
        .snapshot()
        .keys()
        .filter(|key| key.space == space && key.partition.0 > 0)
        .map(|key| key.partition.0)
        .collect();
    partitions.dedup();
    partitions
}

#[tokio::test]
async fn messages_of_a_topic_stay_in_its_subscriptions_after_a_restart() {
    let broker = broker(&["a", "b"]).await;
    let mut sender = client(&broker, None);
    sender.sent("one").await;
    sender.sent("two").await;
    assert_eq!((active(&broker, "A"), active(&broker, "b")), (2, 2));
    assert_eq!(broker.namespace.counts(TOPIC).unwrap().size_bytes, 6);
    let mut a = client(&broker, Some("a"));
    a.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = a.delivery().await;
    assert_eq!((delivery.message.content.as_ref(), delivery.message.view.queue), (&b"one"[..], a.queue));
    a.completed(token(&delivery)).await;
    assert_eq!((active(&broker, "a"), active(&broker, "b")), (1, 2));

    let broker = restarted(broker, 2).await;
    assert_eq!(broker.namespace.subscription_names("news"), Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!((active(&broker, "a"), active(&broker, "b")), (1, 2));
    assert_eq!(client(&broker, Some("a")).browsed(SubQueue::Main).await, ["two"]);
    assert_eq!(client(&broker, Some("b")).browsed(SubQueue::Main).await, ["one", "two"]);
    client(&broker, None).sent("three").await;
    assert_eq!(client(&broker, Some("B")).browsed(SubQueue::Main).await, ["one", "two", "three"]);
}

#[tokio::test]
async fn declaring_creates_changes_and_repeats() {
    let broker = broker(&["a"]).await;
    let first = broker.namespace.subscription(TOPIC, "a").unwrap();
    broker.store.fail_next(Error::Full { reason: "nothing may be written".to_owned() });
    broker.namespace.declare_subscriptions(TOPIC, vec![plain("A")]).await.unwrap();
    let b = broker.namespace.declare_subscriptions(TOPIC, vec![plain("b")]).await;
    assert!(matches!(b, Err(StartError::Storage(Error::Full { .. }))), "the failure was left over: {b:?}");

    let options = SubscriptionOptions { max_delivery_count: 3, ..SubscriptionOptions::default() };
    let only = vec![rule("only", Filter::False)];
    broker
        .namespace
        .declare_subscriptions(
            TOPIC,
            vec![
                ("A".to_owned(), options.clone(), only.clone()),
                plain("b"),
                ("B".to_owned(), options.clone(), only),
            ],
        )
        .await
        .unwrap();
    let changed = broker.namespace.subscription(TOPIC, "a").unwrap();
    assert_eq!((changed.queue, &*changed.options), (first.queue, &options));
    assert_eq!(*changed.topic, TopicOptions::default().into());
    assert_eq!(broker.namespace.subscription_names(TOPIC).unwrap(), ["B", "a"], "the later one counts");
    client(&broker, None).sent("x").await;
    assert_eq!((active(&broker, "a"), active(&broker, "b")), (1, 0), "rules are those of the creation");
    let broker = restarted(broker, 2).await;
    assert_eq!(*broker.namespace.subscription(TOPIC, "a").unwrap().options, options);
}

#[tokio::test]
async fn invalid_declarations_are_refused_with_the_cause() {
    let broker = broker(&["a"]).await;
    let namespace = &broker.namespace;
    let refused = async |topic: &str, wanted| {
        namespace.declare_subscriptions(topic, vec![plain("good"), wanted]).await.unwrap_err().to_string()
    };
    let sessions = SubscriptionOptions { requires_session: true, ..SubscriptionOptions::default() };
    let zero = SubscriptionOptions { lock_duration_ms: 0, ..SubscriptionOptions::default() };
    let bad_rule = vec![rule("a/b", Filter::True)];
    let empty = vec![rule("r", Filter::Correlation(Box::default()))];
    assert!(refused("nowhere", plain("x")).await.contains("no topic \"nowhere\""));
    assert!(refused(QUEUE, plain("x")).await.contains("no topic \"orders\""));
    assert!(refused(TOPIC, plain("x/y")).await.contains("'/'"));
    assert!(refused(TOPIC, plain("$x")).await.contains("reserved for the broker"));
    assert!(refused(TOPIC, ("x".to_owned(), zero, Vec::new())).await.contains("lock_duration is 0"));
    let wanted = ("x".to_owned(), SubscriptionOptions::default(), bad_rule);
    assert!(refused(TOPIC, wanted).await.contains("\"a/b\""));
    assert_eq!(namespace.subscription_names(TOPIC).unwrap(), ["a"]);
    let wanted = ("x".to_owned(), SubscriptionOptions::default(), empty);
    assert!(refused(TOPIC, wanted).await.contains("correlation filter"));
    assert!(refused(TOPIC, ("A".to_owned(), sessions, Vec::new())).await.contains("requires_session"));
    assert_eq!(namespace.subscription_names(TOPIC).unwrap(), ["a", "good"], "the others are declared");
    assert!(namespace.subscription(QUEUE, "a").is_none());
    assert!(namespace.subscription_counts(TOPIC, "nowhere").is_none());
    assert!(namespace.subscription_names(QUEUE).is_none());
}

#[tokio::test]
async fn a_deleted_subscription_leaves_nothing_and_its_number_is_never_given_out_again() {
    let broker = broker(&["a", "b"]).await;
    client(&broker, None).sent("x").await;
    let mut a = client(&broker, Some("a"));
    let receiver = a.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    a.delivery().await;
    let gone = a.queue;
    assert!(broker.namespace.delete_subscription("NEWS", "A").await.unwrap());
    let closed = a.next().await;
    assert!(
        matches!(closed, Output::ReceiverClosed { receiver: id, refusal: Refusal::EntityDeleted } if id == receiver)
    );
    assert!(!broker.namespace.delete_subscription(TOPIC, "a").await.unwrap());
    assert!(broker.namespace.subscription(TOPIC, "a").is_none());
    assert!(broker.store.snapshot().keys().all(|key| key.partition != PartitionId(gone.0)));
    let no_topic = broker.namespace.delete_subscription(QUEUE, "a").await;
    assert!(matches!(no_topic, Err(StartError::NoSuchTopic { .. })), "{no_topic:?}");

    let broker = restarted(broker, 2).await;
    assert_eq!(broker.namespace.subscription_names(TOPIC).unwrap(), ["b"]);
    with_subscriptions(&broker, &["a"]).await;
    broker.namespace.declare("after", TopicOptions::default()).await.unwrap();
    let again = broker.namespace.subscription(TOPIC, "a").unwrap().queue;
    assert!(again.0 > gone.0, "{again:?} {gone:?}");
    assert!(broker.namespace.entity("after").unwrap().queue.0 > again.0);
    assert!(client(&broker, Some("a")).browsed(SubQueue::Main).await.is_empty());
    assert_eq!(client(&broker, Some("b")).browsed(SubQueue::Main).await, ["x"]);
}

#[tokio::test]
async fn rules_are_changed_by_commands_and_read_back() {
    let broker = broker(&["a"]).await;
    let mut a = client(&broker, Some("a"));
    let (queue, name) = (a.queue, "$Default".into());
    a.submit(Command::RemoveRule { queue, name });
    let filter = CorrelationFilter { label: Some("x".into()), ..CorrelationFilter::default() };
    let added = rule("x", Filter::Correlation(Box::new(filter)));
    a.submit(Command::AddRule { queue, rule: added.clone() });
    for _ in 0..2 {
        assert_eq!(a.response().await.1, Response::Done(Ok(())));
    }
    let broker = restarted(broker, 2).await;
    let mut a = client(&broker, Some("a"));
    a.submit(Command::ListRules { queue, skip: 0, top: 10 });
    let Response::Rules(Ok(rules)) = a.response().await.1 else { panic!("no rules") };
    assert_eq!(rules.len(), 1);
    assert_eq!(*rules[0], Rule { created_at: START, ..added });
    let mut sender = client(&broker, None);
    for label in ["x", "y"] {
        sender.submit(labelled(label, label));
        sender.response().await;
    }
    assert_eq!(a.browsed(SubQueue::Main).await, ["x"]);
}

#[tokio::test]
async fn a_scheduled_message_is_published_after_a_restart() {
    let broker = broker(&["a"]).await;
    let mut sender = client(&broker, None);
    let later = NewMessage {
        content: Bytes::from_static(b"later"),
        scheduled_enqueue_time: Some(START.plus_ms(1_000)),
        ..NewMessage::default()
    };
    sender.submit(Command::Send { messages: [later].into_iter().collect() });
    sender.response().await;
    let broker = restarted(broker, 2).await;
    assert_eq!(broker.namespace.counts(TOPIC).unwrap().scheduled, 1);
    let mut a = client(&broker, Some("a"));
    a.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    a.nothing().await;
    broker.clock.advance(1_000);
    let delivery = a.delivery().await;
    assert_eq!(delivery.message.content, "later");
    a.completed(token(&delivery)).await;
    assert_eq!((active(&broker, "a"), broker.namespace.counts(TOPIC).unwrap().scheduled), (0, 0));
    assert!(partitions(&broker, Space::Body).is_empty());
}

#[tokio::test]
async fn a_thousand_subscriptions_are_declared_at_once_and_found_again() {
    const COUNT: usize = 1_000;
    let broker = Broker::start(1 << 20).await;
    let names: Vec<String> = (0..COUNT).map(|number| format!("subscription-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    with_subscriptions(&broker, &names).await;
    let mut sender = client(&broker, None);
    for content in ["one", "two", "three"] {
        sender.sent(content).await;
    }
    assert!(names.iter().all(|name| active(&broker, name) == 3));
    assert_eq!(partitions(&broker, Space::Head).len(), COUNT);
    assert_eq!(broker.namespace.counts(TOPIC).unwrap().size_bytes, 11, "each content is stored once");
    broker.store.set_page_entries_max(2);
    let broker = restarted(broker, 2).await;
    assert_eq!(broker.namespace.subscription_names(TOPIC).unwrap().len(), COUNT);
    assert!(names.iter().all(|name| active(&broker, name) == 3));
    let contents = client(&broker, Some("Subscription-999")).browsed(SubQueue::Main).await;
    assert_eq!(contents, ["one", "two", "three"]);
}

#[tokio::test]
async fn counts_follow_the_events_of_one_subscription() {
    let broker = broker(&["a", "b"]).await;
    client(&broker, None).sent("x").await;
    let mut a = client(&broker, Some("a"));
    a.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = a.delivery().await;
    let why = Arc::new(peeklock_engine::DeadLetter::default());
    a.settle(token(&delivery), Settlement::DeadLetter { why, modify: Vec::new() });
    a.response().await;
    let counts = broker.namespace.subscription_counts(TOPIC, "a").unwrap();
    assert_eq!((counts.active, counts.dead_letter, counts.size_bytes), (0, 1, 0));
    assert_eq!(active(&broker, "b"), 1);
    assert_eq!(broker.namespace.counts(TOPIC).unwrap().active, 0, "nothing rests on the topic itself");
}

/// A subscription deleted when idle is removed from the directory and the store.
#[tokio::test]
async fn an_idle_subscription_deletes_itself() {
    let broker = broker(&["stays"]).await;
    let options =
        SubscriptionOptions { auto_delete_on_idle_ms: Some(300_000), ..SubscriptionOptions::default() };
    let wanted = vec![("idle".to_owned(), options, vec![Rule::default_rule()])];
    broker.namespace.declare_subscriptions(TOPIC, wanted).await.unwrap();
    let idle = client(&broker, Some("idle"));
    client(&broker, None).sent("x").await;
    broker.clock.advance(299_999);
    quiet().await;
    assert_eq!(active(&broker, "idle"), 1, "a send does not keep it (S-32)");
    broker.clock.advance(1);
    quiet().await;
    assert_eq!(broker.namespace.subscription_names(TOPIC).unwrap(), ["stays"]);
    assert!(broker.store.snapshot().keys().all(|key| key.partition != PartitionId(idle.queue.0)));
    assert_eq!(client(&broker, Some("stays")).browsed(SubQueue::Main).await, ["x"]);
}
