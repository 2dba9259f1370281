//! With a full disk, messages that would become copies in a topic's subscriptions wait.

use std::sync::Arc;

use peeklock_budget::Budget;
use peeklock_engine::runtime::{Namespace, NamespaceOptions};
use peeklock_engine::{
    ReceiveMode, Refusal, Rule, SequenceNumber, SubQueue, SubscriptionOptions, TopicOptions,
};
use peeklock_storage::{MemoryStore, Pressure, ShardId, Store};

use crate::broker::{Broker, QUEUE, quiet, refused, token};
use crate::forwarding::{client_of, forwarding, to};
use crate::growth::{cancel, schedule};
use crate::topics::{TOPIC, active, broker, client, plain, restarted, with_subscriptions};

const DELAY_MS: u64 = 10_000;
/// Longer than a forwarder's pause.
const LATER_MS: u64 = 60_000;
/// Memory budget in bytes.
const LIMIT: usize = 1 << 20;

/// Active messages in each of the two subscriptions, and the topic's scheduled ones.
fn there(broker: &Broker) -> (u64, u64, u64) {
    (active(broker, "a"), active(broker, "b"), broker.namespace.counts(TOPIC).unwrap().scheduled)
}

#[tokio::test]
async fn a_message_scheduled_on_a_topic_is_published_when_there_is_room_again() {
    let broker = broker(&["a", "b"]).await;
    let mut topic = client(&broker, None);
    topic.sent("before").await;
    schedule(&mut topic, "later", DELAY_MS).await;
    broker.store.set_pressure(Pressure::Full);
    broker.clock.advance(DELAY_MS);
    quiet().await;
    assert_eq!(there(&broker), (1, 1, 1));
    let mut a = client(&broker, Some("a"));
    a.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let locked = token(&a.delivery().await);
    a.completed(locked).await;
    assert_eq!(there(&broker), (0, 1, 1), "settlements go on, and publish nothing");
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    assert_eq!(there(&broker), (1, 2, 0), "no time has passed");
}

/// As on a full disk, but clients are asked to repeat their requests.
#[tokio::test]
async fn a_store_that_cannot_be_extended_takes_settlements_and_asks_senders_to_repeat() {
    let broker = broker(&["a", "b"]).await;
    let mut topic = client(&broker, None);
    topic.sent("before").await;
    schedule(&mut topic, "later", DELAY_MS).await;
    broker.store.set_pressure(Pressure::Failing);
    let tag = topic.send("refused");
    assert_eq!(topic.response().await, (tag, refused(Refusal::StorageFailing)));
    broker.clock.advance(DELAY_MS);
    quiet().await;
    let mut a = client(&broker, Some("a"));
    a.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let locked = token(&a.delivery().await);
    a.completed(locked).await;
    assert_eq!(there(&broker), (0, 1, 1), "the scheduled message waits");
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    topic.sent("repeated").await;
    assert_eq!(there(&broker), (2, 3, 0));
}

#[tokio::test]
async fn held_messages_keep_their_order_and_numbers_and_can_be_cancelled() {
    let broker = broker(&["a", "b"]).await;
    let mut topic = client(&broker, None);
    for (content, delay_ms) in [("three", 3), ("one", 1), ("never", 2), ("two", 2)] {
        schedule(&mut topic, content, delay_ms * DELAY_MS).await;
    }
    broker.store.set_pressure(Pressure::Full);
    broker.clock.advance(4 * DELAY_MS);
    quiet().await;
    assert_eq!(there(&broker), (0, 0, 4));
    let tag = topic.send("refused");
    assert_eq!(topic.response().await, (tag, refused(Refusal::StorageFull)));
    cancel(&mut topic, SequenceNumber(3)).await;
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    topic.sent("four").await;
    for subscription in ["a", "b"] {
        let contents = client(&broker, Some(subscription)).browsed(SubQueue::Main).await;
        assert_eq!(contents, ["one", "two", "three", "four"], "{subscription}");
    }
}

#[tokio::test]
async fn a_broker_that_starts_on_a_full_disk_holds_due_messages() {
    let started = broker(&["a", "b"]).await;
    schedule(&mut client(&started, None), "later", DELAY_MS).await;
    started.store.set_pressure(Pressure::Full);
    started.clock.advance(DELAY_MS);
    let broker = restarted(started, 2).await;
    quiet().await;
    assert_eq!(there(&broker), (0, 0, 1));
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    assert_eq!(there(&broker), (1, 1, 0));
}

/// The restored state may fill the memory, which is measured before anything is published.
#[tokio::test]
async fn a_broker_that_starts_without_memory_for_more_holds_due_messages() {
    let started = broker(&["a", "b"]).await;
    schedule(&mut client(&started, None), "later", DELAY_MS).await;
    started.clock.advance(DELAY_MS - 1);
    let Broker { store, clock, namespace } = started;
    namespace.shutdown().await;
    clock.advance(DELAY_MS);
    let budget = Budget::beside_state(64 << 20, 0, LIMIT);
    let options = NamespaceOptions {
        seed: Some(2),
        budget: budget.clone(),
        when_restored: Some(|budget| {
            budget.state().measured(LIMIT);
        }),
        ..NamespaceOptions::default()
    };
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let namespace = Namespace::start(lease, Arc::new(clock.clone()), options).await.unwrap();
    let broker = Broker { store, clock, namespace };
    quiet().await;
    assert_eq!(there(&broker), (0, 0, 1));
    budget.state().measured(0);
    broker.clock.advance(DELAY_MS);
    quiet().await;
    assert_eq!(there(&broker), (1, 1, 0));
}

/// The topic's only timer fires while the disk is full, for a message that was cancelled.
#[tokio::test]
async fn a_full_disk_that_has_room_before_a_message_is_due_does_not_delay_it() {
    let broker = broker(&["a", "b"]).await;
    let mut topic = client(&broker, None);
    let cancelled = schedule(&mut topic, "never", DELAY_MS / 2).await;
    schedule(&mut topic, "later", DELAY_MS).await;
    cancel(&mut topic, cancelled).await;
    broker.store.set_pressure(Pressure::Full);
    broker.clock.advance(DELAY_MS / 2);
    quiet().await;
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    assert_eq!(there(&broker), (0, 0, 1));
    broker.clock.advance(DELAY_MS / 2);
    quiet().await;
    assert_eq!(there(&broker), (1, 1, 0));
}

#[tokio::test]
async fn messages_held_for_lack_of_disk_space_and_memory_wait_for_both() {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let budget = Budget::beside_state(64 << 20, 0, LIMIT);
    let broker = Broker::within(store, lease, &budget, 0).await;
    with_subscriptions(&broker, &["a", "b"]).await;
    schedule(&mut client(&broker, None), "later", DELAY_MS).await;
    broker.store.set_pressure(Pressure::Full);
    budget.state().measured(LIMIT);
    broker.clock.advance(DELAY_MS);
    quiet().await;
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    assert_eq!(there(&broker), (0, 0, 1));
    broker.store.set_pressure(Pressure::Full);
    budget.state().measured(0);
    broker.clock.advance(DELAY_MS);
    quiet().await;
    assert_eq!(there(&broker), (0, 0, 1));
    broker.store.set_pressure(Pressure::Normal);
    quiet().await;
    assert_eq!(there(&broker), (1, 1, 0));
}

/// Activation on a queue makes no copies.
#[tokio::test]
async fn a_message_scheduled_on_a_queue_becomes_available_on_a_full_disk() {
    let broker = Broker::start(0).await;
    schedule(&mut broker.client(), "later", DELAY_MS).await;
    broker.store.set_pressure(Pressure::Full);
    broker.clock.advance(DELAY_MS);
    quiet().await;
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.active, counts.scheduled), (1, 0));
}

/// A message forwarded to a topic by a queue or subscription becomes copies there, so it waits in the source.
#[tokio::test]
async fn messages_forwarded_to_a_topic_wait_for_space() {
    let broker = broker(&["a", "b"]).await;
    broker.namespace.declare("first", TopicOptions::default()).await.unwrap();
    broker.namespace.declare_subscriptions("first", vec![plain("goes")]).await.unwrap();
    client_of(&broker, "first").sent("one").await;
    broker.client().sent("two").await;
    broker.store.set_pressure(Pressure::Full);
    let goes = SubscriptionOptions { forwarding: to(TOPIC), ..SubscriptionOptions::default() };
    let goes = ("goes".to_owned(), goes, vec![Rule::default_rule()]);
    broker.namespace.declare_subscriptions("first", vec![goes]).await.unwrap();
    broker.namespace.declare(QUEUE, forwarding(to(TOPIC))).await.unwrap();
    for _ in 0..10 {
        broker.clock.advance(LATER_MS);
        quiet().await;
    }
    let source = |broker: &Broker| {
        let goes = broker.namespace.subscription_counts("first", "goes").unwrap();
        (goes.active, broker.namespace.counts(QUEUE).unwrap().active)
    };
    assert_eq!((there(&broker), source(&broker)), ((0, 0, 0), (1, 1)));
    broker.store.set_pressure(Pressure::Normal);
    broker.clock.advance(LATER_MS);
    quiet().await;
    assert_eq!((there(&broker), source(&broker)), ((2, 2, 0), (0, 0)));
}
