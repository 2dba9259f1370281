//! Declaring and finding queues.

use std::sync::Arc;

use peeklock_engine::QueueOptions;
use peeklock_engine::runtime::{Namespace, NamespaceOptions, StartError};
use peeklock_storage::{Error, Key, MemoryStore, PartitionId, ShardId, Space, Store};

use crate::broker::{Broker, QUEUE, START, TestClock};

async fn namespace(store: &MemoryStore) -> Result<Namespace, StartError> {
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let options = NamespaceOptions { body_cache_bytes: 0, seed: Some(1), ..NamespaceOptions::default() };
    Namespace::start(shard, Arc::new(TestClock::new(START)), options).await
}

#[tokio::test]
async fn names_match_whatever_their_case_and_keep_the_first_spelling() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("Sales/Orders", QueueOptions::default()).await.unwrap();
    let changed = QueueOptions { max_delivery_count: 3, ..QueueOptions::default() };
    broker.namespace.declare("sales/ORDERS", changed.clone()).await.unwrap();
    let options = broker.namespace.entity("SALES/orders").unwrap().options;
    assert_eq!(*options, changed.into());
    assert_eq!(broker.namespace.names(), ["Sales/Orders", QUEUE]);
    assert!(broker.namespace.entity("nowhere").is_none());
}

#[tokio::test]
async fn declarations_survive_and_repeating_them_writes_nothing() {
    let store = MemoryStore::new();
    let first = namespace(&store).await.unwrap();
    let options = QueueOptions { lock_duration_ms: 5_000, ..QueueOptions::default() };
    first.declare("A", options.clone()).await.unwrap();
    first.declare("b", QueueOptions::default()).await.unwrap();
    let second = namespace(&store).await.unwrap();
    assert_eq!(second.names(), ["A", "b"]);
    assert_eq!(*second.entity("a").unwrap().options, options.clone().into());
    store.fail_next(Error::Full { reason: "nothing may be written".to_owned() });
    second.declare("a", options).await.unwrap();
    let refused = second.declare("c", QueueOptions::default()).await;
    assert!(matches!(refused, Err(StartError::Storage(Error::Full { .. }))), "{refused:?}");
    assert!(second.entity("c").is_none());
    second.declare("c", QueueOptions::default()).await.unwrap();
    let ids: Vec<u64> = store.snapshot().keys().filter(|k| k.partition.0 == 0).map(|k| k.number).collect();
    assert_eq!(ids, [0, 1, 2, 3], "the counter and one entry each");
}

#[tokio::test]
async fn bad_names_and_options_are_refused_and_nothing_of_their_declaration_happens() {
    let store = MemoryStore::new();
    let namespace = namespace(&store).await.unwrap();
    let good = ("good".to_owned(), QueueOptions::default());
    let bad = ("bad?".to_owned(), QueueOptions::default());
    let error = namespace.declare_all([good.clone(), bad]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"bad?\" can't be the name of an entity: it contains '?', which is not allowed in a name"
    );
    let absurd = ("absurd".to_owned(), QueueOptions { max_delivery_count: 0, ..QueueOptions::default() });
    let error = namespace.declare_all([good, absurd]).await.unwrap_err();
    assert!(
        matches!(&error, StartError::InvalidOptions { reason, .. } if reason.contains("max_delivery_count"))
    );
    assert!(namespace.names().is_empty());
    assert!(store.snapshot().is_empty());
}

#[tokio::test]
async fn ten_thousand_queues_are_declared_at_once_and_found_again() {
    let store = MemoryStore::new();
    let first = namespace(&store).await.unwrap();
    let queues = (0..10_000).map(|number| (format!("queue-{number}"), QueueOptions::default()));
    first.declare_all(queues).await.unwrap();
    let second = namespace(&store).await.unwrap();
    assert_eq!(second.names().len(), 10_000);
    assert!(second.entity("QUEUE-9999").is_some());
}

#[tokio::test]
async fn an_entity_whose_name_can_not_be_read_keeps_others_from_being_created_and_none_from_serving() {
    let store = MemoryStore::new();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let mut batch = peeklock_storage::Batch::new();
    batch.put(Key::new(Space::Meta, PartitionId(0), 5), bytes::Bytes::from_static(b"\x09nonsense"));
    shard.submit(batch).await.unwrap();
    let namespace = namespace(&store).await.unwrap();
    let damage = namespace.damage();
    assert_eq!(damage.len(), 1);
    assert!(damage[0].entity.contains("entity 5") && damage[0].reason.contains("version 9"), "{damage:?}");
    assert!(namespace.is_damaged("orders"), "it may be the one whose name can't be read");
    let refused = namespace.declare("orders", QueueOptions::default()).await;
    assert!(matches!(refused, Err(StartError::Damaged { .. })), "{refused:?}");
}
