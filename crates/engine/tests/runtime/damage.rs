//! Stored records that are damaged when a namespace starts: each affects only the message or the entity that it describes.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::inspect::{Placement, StoredKeys, StoredNames};
use peeklock_engine::runtime::{ChangeError, Output, Response, StartError};
use peeklock_engine::{
    Command, QueueOptions, QueuePath, ReceiveMode, Refusal, Rule, SubQueue, SubscriptionOptions, TopicOptions,
};
use peeklock_storage::{
    Batch, DamagedEntry, Error, Key, MemoryStore, Page, PartitionId, Place, Scan, Shard, ShardId, Space,
    Store, scan,
};

use crate::broker::{Broker, Client, QUEUE, START, TestClock, peek, token};
use crate::wrapped::forward;

/// A shard in which some keys are damaged.
struct Damaged {
    shard: Arc<dyn Shard>,
    keys: BTreeSet<Key>,
}

impl Shard for Damaged {
    forward!(shard: submit, resume, read, partitions, limits, pressure);

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        let (notifier, answer) = scan();
        let (shard, keys) = (Arc::clone(&self.shard), self.keys.clone());
        tokio::spawn(async move {
            let is_damaged = |number| keys.contains(&Key::new(space, partition, number));
            let page = shard.scan(space, partition, from).await.map(|page| {
                let (damaged, entries) =
                    page.entries.into_iter().partition::<Vec<_>, _>(|entry| is_damaged(entry.number));
                let error = |offset| Error::Corrupt {
                    place: Place { unit: "7.segment".into(), offset },
                    reason: "test".into(),
                };
                let damaged = damaged.into_iter().map(|entry| DamagedEntry {
                    number: entry.number,
                    unverified: entry.value,
                    error: error(entry.number),
                });
                Page { entries, damaged: damaged.collect(), next: page.next }
            });
            notifier.resolve(page);
        });
        answer
    }
}

/// The same store with damage at some keys.
async fn restarted(store: &MemoryStore, keys: &[Key]) -> Broker {
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let shard = Arc::clone(lease.shard());
    let damaged = Arc::new(Damaged { shard, keys: keys.iter().copied().collect() });
    Broker::over_existing(store.clone(), lease.over(damaged), TestClock::new(START), 2).await
}

/// A queue with three messages, another one with one, and a topic with a subscription.
async fn filled() -> (MemoryStore, PartitionId) {
    let broker = Broker::start(0).await;
    broker.namespace.declare("other", QueueOptions::default()).await.unwrap();
    broker.namespace.declare("news", TopicOptions::default()).await.unwrap();
    let subscription = ("all".to_owned(), SubscriptionOptions::default(), Vec::new());
    broker.namespace.declare_subscriptions("news", vec![subscription]).await.unwrap();
    let mut client = broker.client();
    for content in ["one", "two", "three"] {
        client.sent(content).await;
    }
    let partition = PartitionId(client.queue.0);
    broker.namespace.shutdown().await;
    (broker.store, partition)
}

#[tokio::test]
async fn damaged_facts_about_a_message_cost_that_message() {
    let (store, partition) = filled().await;
    let broker = restarted(&store, &[Key::new(Space::Head, partition, 2)]).await;
    let mut client = broker.client();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    for content in ["one", "three"] {
        assert_eq!(client.delivery().await.message.content, content);
    }
    assert_eq!(client.sent("four").await.0, 4, "its number is not given out again");
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.active, counts.quarantined), (3, 1));
    let [damage] = &broker.namespace.damage()[..] else { panic!("{:?}", broker.namespace.damage()) };
    assert_eq!((damage.entity.as_str(), damage.sequence_number), (QUEUE, Some(2)));
    assert_eq!(damage.place, Some(Place { unit: "7.segment".to_owned(), offset: 2 }));
    assert!(store.snapshot().contains_key(&Key::new(Space::Head, partition, 2)), "nothing is deleted");
}

#[tokio::test]
async fn facts_that_mean_nothing_cost_that_message() {
    let (store, partition) = filled().await;
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Head, partition, 2), Bytes::from_static(b"\x09nonsense"));
    shard.submit(batch).await.unwrap();
    let broker = restarted(&store, &[]).await;
    let mut client = broker.client();
    client.submit(peek(QueuePath::main(client.queue)));
    let (_, Response::Received(Ok(shown))) = client.response().await else { panic!("it serves") };
    assert_eq!(shown.iter().map(|message| message.view.sequence_number.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(broker.namespace.damage().len(), 1);
}

#[tokio::test]
async fn damaged_counters_cost_that_entity() {
    let (store, partition) = filled().await;
    let broker = restarted(&store, &[Key::new(Space::Meta, partition, 16)]).await;
    refuses_everything(&broker).await;
    let damage = broker.namespace.damage();
    assert_eq!(damage.len(), 1);
    assert_eq!((damage[0].entity.as_str(), damage[0].sequence_number), (QUEUE, None));
    let mut created = broker.namespace.declare("new", QueueOptions::default()).await;
    assert!(created.is_ok(), "{created:?}");
    created = broker.namespace.declare(QUEUE, QueueOptions::default()).await;
    assert!(matches!(created, Err(StartError::Damaged { .. })), "{created:?}");
}

#[tokio::test]
async fn a_damaged_name_costs_that_entity_and_the_creation_of_others() {
    let (store, partition) = filled().await;
    let broker = restarted(&store, &[Key::new(Space::Meta, PartitionId(0), partition.0)]).await;
    refuses_everything(&broker).await;
    // The damaged name reads "orders", but may have been another one.
    let created = broker.namespace.declare("new", QueueOptions::default()).await;
    assert!(matches!(created, Err(StartError::Damaged { .. })), "{created:?}");
}

/// The queue exists, refuses every request and keeps its stored records; the other entities work.
async fn refuses_everything(broker: &Broker) {
    let stored = broker.store.snapshot();
    assert!(broker.namespace.names().contains(&QUEUE.to_owned()));
    assert!(broker.namespace.describe(QUEUE).unwrap().is_damaged);
    assert!(!broker.namespace.describe("other").unwrap().is_damaged);
    let mut client = broker.client();
    client.submit(peek(QueuePath::main(client.queue)));
    let damaged = Refusal::EntityDamaged(QUEUE.into());
    assert_eq!(client.response().await.1, Response::Received(Err(damaged.clone())));
    let watcher = broker.namespace.next_receiver_id(&client.handle);
    client.submit(Command::Watch { watcher, queue: client.queue, sends: true });
    let closed = client.next().await;
    assert!(matches!(closed, Output::ReceiverClosed { refusal, .. } if refusal == damaged));
    let created = broker.namespace.create(QUEUE, QueueOptions::default()).await;
    assert!(matches!(created, Err(ChangeError::Exists { .. })), "{created:?}");
    let deleted = broker.namespace.delete(QUEUE).await;
    assert!(matches!(&deleted, Err(ChangeError::Refused(refusal)) if *refusal == damaged), "{deleted:?}");
    assert_eq!(broker.store.snapshot(), stored);
    let other = broker.namespace.entity("other").unwrap();
    client.handle = other.partition;
    client.queue = other.queue;
    client.sent("still served").await;
}

#[tokio::test]
async fn a_damaged_subscription_costs_its_topic() {
    let (store, _) = filled().await;
    let is_subscription = |key: &&Key| key.space == Space::Meta && key.number > 1 << 63;
    let key = store.snapshot().keys().find(is_subscription).copied().unwrap();
    let broker = restarted(&store, &[key]).await;
    assert!(broker.namespace.describe("news").unwrap().is_damaged);
    let mut client = broker.client();
    let subscription = broker.namespace.subscription("news", "all").unwrap();
    client.handle = subscription.partition;
    client.submit(peek(QueuePath::main(subscription.queue)));
    let refused = Response::Received(Err(Refusal::EntityDamaged("news".into())));
    assert_eq!(client.response().await.1, refused);
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 3);
}

/// The last readable copy of a message is completed while a copy of another subscription can't be read: the message is
/// delivered once it can be read again, and a salvage exports its body.
#[tokio::test]
async fn an_unreadable_copy_keeps_its_body() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("news", TopicOptions::default()).await.unwrap();
    let rules = || vec![Rule::default_rule()];
    let subscriptions =
        ["one", "other"].map(|name| (name.to_owned(), SubscriptionOptions::default(), rules()));
    broker.namespace.declare_subscriptions("news", subscriptions.into()).await.unwrap();
    let mut client = client_of(&broker, "news", None);
    client.sent("content").await;
    let topic = PartitionId(client.queue.0);
    let damaged = Key::new(Space::Head, PartitionId(client_of(&broker, "news", Some("one")).queue.0), 1);
    broker.namespace.shutdown().await;

    let store = broker.store;
    let broker = restarted(&store, &[damaged]).await;
    let mut other = client_of(&broker, "news", Some("other"));
    other.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let received = token(&other.delivery().await);
    other.completed(received).await;
    broker.namespace.shutdown().await;
    let body = Key::new(Space::Body, topic, 1);
    assert!(store.snapshot().contains_key(&body), "it is kept");
    let placement = placed(&store, damaged);
    assert_eq!((placement.unplaced, placement.lost.len()), (vec![body], 1));

    let broker = restarted(&store, &[]).await;
    let mut one = client_of(&broker, "news", Some("one"));
    one.open(2, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = one.delivery().await;
    assert_eq!(delivery.message.content, "content");
    one.completed(token(&delivery)).await;
    broker.namespace.shutdown().await;
    let is_message = |key: &&Key| key.space != Space::Meta;
    assert_eq!(store.snapshot().keys().find(is_message), None, "nothing is left");
}

/// A client of a topic or subscription.
fn client_of(broker: &Broker, topic: &str, subscription: Option<&str>) -> Client {
    let mut client = broker.client();
    let entity = broker.namespace.entity(topic).unwrap();
    (client.handle, client.queue) = (entity.partition, entity.queue);
    if let Some(name) = subscription {
        client.queue = broker.namespace.subscription(topic, name).unwrap().queue;
    }
    client
}

/// What a salvage makes of the store with damage at one key.
fn placed(store: &MemoryStore, damaged: Key) -> Placement {
    let values = store.snapshot();
    let read = |key: Key| {
        let place = Place { unit: "7.segment".into(), offset: 0 };
        let error = || Error::Corrupt { place: place.clone(), reason: "test".into() };
        let value = values.get(&key).cloned()?;
        Some(if key == damaged { Err(error()) } else { Ok(value) })
    };
    let of = |space| values.keys().copied().filter(|key| key.space == space).collect::<Vec<_>>();
    let keys = StoredKeys { meta: of(Space::Meta), head: of(Space::Head), body: of(Space::Body) };
    let names = StoredNames::read(&keys.meta, &read);
    Placement::of(&keys, &names, &read, &|_, _| 0, START)
}
