//! Descriptions of entities for administrators, and checks of their options.

use peeklock_engine::runtime::{ChangeError, EntityKind, StartError};
use peeklock_engine::{
    AuthorizationRule, EntityOptions, Forwarding, QueueOptions, ReceiveMode, Rights, Secret, SubQueue,
    SubscriptionOptions, Timestamp, TopicOptions,
};

use crate::administration::queue;
use crate::broker::{Broker, QUEUE, START};

fn reason<T: std::fmt::Debug>(result: Result<T, ChangeError>) -> String {
    match result {
        Err(ChangeError::Invalid { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn impossible_descriptions_are_named() {
    let broker = Broker::start(0).await;
    let namespace = &broker.namespace;
    let sessions = QueueOptions { requires_session: true, ..queue() };
    assert!(reason(namespace.update(QUEUE, sessions).await).contains("requires_session"));
    let duplicates = QueueOptions { requires_duplicate_detection: true, ..queue() };
    assert!(reason(namespace.update(QUEUE, duplicates).await).contains("requires_duplicate_detection"));
    let rule = AuthorizationRule {
        name: "r".into(),
        rights: Rights { manage: true, ..Rights::default() },
        primary_key: Secret::new("p"),
        secondary_key: Secret::new("s"),
        created_at: Timestamp(1),
        modified_at: Timestamp(1),
    };
    let rules = QueueOptions { authorization_rules: vec![rule], ..queue() };
    assert!(reason(namespace.update(QUEUE, rules).await).contains("Manage"));
}

#[tokio::test]
async fn targets_of_forwarding_must_exist() {
    let broker = Broker::start(0).await;
    let namespace = &broker.namespace;
    let to = |target: &str| QueueOptions {
        forwarding: Forwarding { forward_to: Some(target.into()), ..Forwarding::default() },
        auto_delete_on_idle_ms: Some(300_000),
        ..queue()
    };
    assert!(reason(namespace.create("a", to("nowhere")).await).contains("forward_to is \"nowhere\""));
    assert!(reason(namespace.create("a", to("a")).await).contains("neither a queue nor a topic"));
    namespace.create("news", TopicOptions::default()).await.unwrap();
    namespace.create_subscription("news", "s", Default::default(), Vec::new()).await.unwrap();
    reason(namespace.create("a", to("news/Subscriptions/s")).await);
    let made = namespace.create("a", to("NEWS")).await.unwrap();
    let EntityOptions::Queue(options) = &*made.options else { panic!("a queue") };
    assert_eq!(options.auto_delete_on_idle_ms, None, "S-33: a forwarding queue is never idle");
    namespace.update("a", to("A")).await.unwrap();
    let forwarding =
        Forwarding { forward_dead_lettered_messages_to: Some("x".into()), ..Forwarding::default() };
    let subscription = peeklock_engine::SubscriptionOptions { forwarding, ..Default::default() };
    let refused = namespace.update_subscription("news", "s", subscription).await;
    assert!(reason(refused).contains("forward_dead_lettered_messages_to"));
    // Entities that are declared together may name each other.
    let pair = [("b".to_owned(), to("c")), ("c".to_owned(), to("b"))];
    namespace.declare_all(pair).await.unwrap();
}

/// Otherwise an entity couldn't be updated once its target is deleted.
#[tokio::test]
async fn a_target_of_forwarding_that_went_may_stay_in_an_update() {
    let broker = Broker::start(0).await;
    let namespace = &broker.namespace;
    for target in ["gone", "dead"] {
        namespace.create(target, queue()).await.unwrap();
    }
    let to = |target: &str, dead: &str| Forwarding {
        forward_to: Some(target.into()),
        forward_dead_lettered_messages_to: Some(dead.into()),
    };
    let from = |forwarding| QueueOptions { forwarding, max_delivery_count: 3, ..queue() };
    let subscription = |forwarding| SubscriptionOptions { forwarding, ..SubscriptionOptions::default() };
    let there = to("gone", "dead");
    namespace.create("a", from(there.clone())).await.unwrap();
    namespace.create("news", TopicOptions::default()).await.unwrap();
    namespace.create_subscription("news", "s", subscription(there.clone()), Vec::new()).await.unwrap();
    for target in ["gone", "dead"] {
        namespace.delete(target).await.unwrap();
    }
    let same = to("GONE", "Dead");
    let updated = QueueOptions { max_delivery_count: 4, ..from(same.clone()) };
    namespace.update("a", updated).await.unwrap();
    namespace.update_subscription("news", "s", subscription(same)).await.unwrap();
    // Any other missing target is refused, also one missing target in the property of the other.
    for other in [to("else", "dead"), to("gone", "else"), to("dead", "gone")] {
        reason(namespace.update("a", from(other.clone())).await);
        reason(namespace.update_subscription("news", "s", subscription(other)).await);
    }
    // A declaration must be complete: its targets must exist.
    let declared = namespace.declare("a", from(there.clone())).await;
    assert!(matches!(declared, Err(StartError::InvalidOptions { .. })), "{declared:?}");
    let declared = vec![("s".to_owned(), subscription(there), Vec::new())];
    let declared = namespace.declare_subscriptions("news", declared).await;
    assert!(matches!(declared, Err(StartError::InvalidOptions { .. })), "{declared:?}");
}

#[tokio::test]
async fn pages_over_ten_thousand_entities_show_each_once_in_order() {
    let broker = Broker::start(0).await;
    let queues = (0..10_000).map(|number| (format!("Queue-{number}"), EntityOptions::from(queue())));
    let topics = (0..100).map(|number| (format!("queue-{number}-topic"), TopicOptions::default().into()));
    broker.namespace.declare_all(queues.chain(topics)).await.unwrap();
    let mut seen = Vec::new();
    for skip in (0..).step_by(100) {
        let page = broker.namespace.describe_all(EntityKind::Queue, skip, 100);
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|found| found.name.to_lowercase()));
    }
    assert_eq!(seen.len(), 10_001);
    assert!(seen.is_sorted() && seen.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(broker.namespace.describe_all(EntityKind::Topic, 50, 100).len(), 50);
}

#[tokio::test]
async fn administrators_see_when_clients_were_last_there() {
    let broker = Broker::start(0).await;
    broker.namespace.create("news", TopicOptions::default()).await.unwrap();
    let rules = vec![peeklock_engine::Rule::default_rule()];
    let made = broker.namespace.create_subscription("news", "all", Default::default(), rules).await.unwrap();
    let seen = || {
        let subscription = broker.namespace.describe_subscription("NEWS", "ALL").unwrap();
        let of = |name: &str| broker.namespace.describe(name).unwrap().accessed_at;
        (of(QUEUE), of("news"), subscription.accessed_at)
    };
    assert_eq!(made.accessed_at, None, "the answer to the creation");
    assert_eq!(seen(), (None, Some(START), Some(START)), "both were used by it");
    broker.clock.advance(1);
    broker.client().sent("x").await;
    let mut client = broker.client();
    client.handle = broker.namespace.entity("news").unwrap().partition;
    client.sent("x").await;
    let first = Some(START.plus_ms(1));
    assert_eq!(seen(), (first, first, Some(START)));
    broker.clock.advance(1);
    client.queue = made.subscription.queue;
    client.open(5, ReceiveMode::PeekLock, SubQueue::Main, 1);
    client.delivery().await;
    let second = Some(START.plus_ms(2));
    assert_eq!(seen(), (first, first, second));
    // An administrator's actions don't count as accesses of clients.
    broker.clock.advance(1);
    let changed = peeklock_engine::SubscriptionOptions { max_delivery_count: 3, ..Default::default() };
    broker.namespace.update_subscription("news", "all", changed).await.unwrap();
    assert_eq!(seen(), (first, first, second));
}
