//! Creation, update and deletion of entities by administrators, concurrently with each other and with clients.

use std::sync::Arc;

use peeklock_engine::runtime::{ChangeError, Namespace, NamespaceOptions, Output, Response};
use peeklock_engine::{
    Command, EntityOptions, EntityStatus, QueueOptions, ReceiveMode, Refusal, SubQueue, TopicOptions,
};
use peeklock_storage::{Error, MemoryStore, ShardId, Store};

use crate::broker::{Broker, QUEUE, START, TestClock, quiet, refused, send};

pub(crate) fn queue() -> QueueOptions {
    QueueOptions::default()
}

fn with_deliveries(max_delivery_count: u32) -> QueueOptions {
    QueueOptions { max_delivery_count, ..queue() }
}

/// Restarts on the stored data without declaring anything.
async fn restarted_as_it_is(broker: Broker) -> Broker {
    let Broker { store, clock, .. } = broker;
    let options = NamespaceOptions { body_cache_bytes: 0, seed: Some(2), ..NamespaceOptions::default() };
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let namespace = Namespace::start(shard, Arc::new(clock.clone()), options).await.unwrap();
    Broker { store, clock, namespace }
}

async fn restarted(broker: Broker) -> Broker {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    Broker::over(broker.store, shard, broker.clock, 0, 2).await
}

fn stored_of(broker: &Broker, queue: peeklock_engine::QueueId) -> usize {
    broker.store.snapshot().keys().filter(|key| key.partition.0 == queue.0).count()
}

#[tokio::test]
async fn no_more_queues_and_topics_are_created_than_there_may_be() {
    let store = MemoryStore::new();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let options = NamespaceOptions { seed: Some(2), entities_max: Some(3), ..NamespaceOptions::default() };
    let namespace = Namespace::start(shard, Arc::new(TestClock::new(START)), options).await.unwrap();
    let names = ["one", "two", "three", "four", "five"];
    // Concurrently, so that some of them are decided in the same batch.
    let create = |name: &'static str| {
        let namespace = namespace.clone();
        async move { namespace.create(name, queue()).await }
    };
    let created = names.map(create).into_iter().collect::<tokio::task::JoinSet<_>>().join_all().await;
    assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 3);
    for refused in created.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, ChangeError::Refused(Refusal::TooManyEntities(3))), "{refused:?}");
    }
    let kept = names.into_iter().find(|name| namespace.describe(name).is_some()).unwrap();
    namespace.update(kept, with_deliveries(4)).await.unwrap();
    namespace.declare(&kept.to_uppercase(), queue()).await.unwrap();
    assert!(namespace.declare("six", queue()).await.is_err());
    namespace.delete(kept).await.unwrap();
    namespace.create("six", queue()).await.unwrap();
}

#[tokio::test]
async fn creating_an_existing_entity_and_changing_a_missing_one_are_errors() {
    let broker = Broker::start(0).await;
    let namespace = &broker.namespace;
    let made = namespace.create("Sales", queue()).await.unwrap();
    assert_eq!((made.name.as_str(), made.times.created_at, made.times.updated_at), ("Sales", START, START));
    let again = namespace.create("sales", with_deliveries(3)).await;
    assert!(matches!(&again, Err(ChangeError::Exists { name }) if name == "sales"), "{again:?}");
    assert_eq!(*namespace.describe("SALES").unwrap().options, queue().into());

    broker.clock.advance(5);
    let changed = namespace.update("SALES", with_deliveries(4)).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.queue), ("Sales", made.queue));
    assert_eq!((changed.times.created_at, changed.times.updated_at), (START, START.plus_ms(5)));
    let missing = namespace.update("nowhere", queue()).await;
    assert!(matches!(missing, Err(ChangeError::NotFound { .. })), "{missing:?}");
    let missing = namespace.delete("nowhere").await;
    assert!(matches!(missing, Err(ChangeError::NotFound { .. })), "{missing:?}");

    let broker = restarted(broker).await;
    let stored = broker.namespace.describe("sales").unwrap();
    assert_eq!(
        (stored.name, stored.times, *stored.options == with_deliveries(4).into()),
        (changed.name, changed.times, true)
    );
}

#[tokio::test]
async fn of_those_who_create_at_once_one_wins() {
    let broker = Broker::start(0).await;
    broker.store.hold();
    let tasks: Vec<_> = (1..=8)
        .map(|count| {
            let namespace = broker.namespace.clone();
            tokio::spawn(async move { namespace.create("Raced", with_deliveries(count)).await })
        })
        .collect();
    quiet().await;
    assert!(tasks.iter().all(|task| !task.is_finished() || broker.namespace.describe("raced").is_none()));
    broker.store.release_all();
    let mut made = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Ok(description) => made.push(description.options),
            Err(ChangeError::Exists { name }) => assert_eq!(name, "Raced"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(made.len(), 1);
    assert_eq!(broker.namespace.describe("raced").unwrap().options, made[0]);
}

#[tokio::test]
async fn a_batch_that_is_refused_creates_nothing() {
    let broker = Broker::start(0).await;
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    let full = broker.namespace.create("a", queue()).await;
    assert!(matches!(full, Err(ChangeError::Store(Error::Full { .. }))), "{full:?}");
    assert!(broker.namespace.describe("a").is_none());
    broker.namespace.create("a", queue()).await.unwrap();
}

#[tokio::test]
async fn nothing_of_a_declaration_happens_when_one_of_it_can_not_be() {
    let broker = Broker::start(0).await;
    let good = ("new".to_owned(), EntityOptions::from(queue()));
    let bad = (QUEUE.to_owned(), TopicOptions::default().into());
    let error = broker.namespace.declare_all([good, bad]).await.unwrap_err();
    assert!(error.to_string().contains("can't become a topic"), "{error}");
    broker.namespace.declare("other", queue()).await.unwrap();
    assert_eq!(broker.namespace.names(), [QUEUE, "other"]);
}

#[tokio::test]
async fn a_deleted_queue_is_gone_from_the_disk_and_its_name_is_free() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    client.sent("left").await;
    let receiver = client.open(5, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    let watcher = client.receiver(6);
    client.submit(Command::Watch { watcher, queue: client.queue, sends: false });
    client.nothing().await;
    broker.namespace.delete("ORDERS").await.unwrap();
    let told = client.all().await.into_iter().map(|output| match output {
        Output::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted } => receiver,
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [receiver, watcher]);
    let tag = client.submit(send("late"));
    assert_eq!(client.response().await, (tag, refused(Refusal::EntityDeleted)));
    assert!(broker.namespace.describe(QUEUE).is_none());
    assert_eq!(stored_of(&broker, client.queue), 0);

    let again = broker.namespace.create(QUEUE, queue()).await.unwrap();
    assert_ne!(again.queue, client.queue, "another queue of the same name");
    assert_eq!(again.counts.active, 0);
}

#[tokio::test]
async fn a_queue_that_was_never_used_is_deleted_as_well() {
    let broker = Broker::start(0).await;
    broker.namespace.create("dormant", queue()).await.unwrap();
    let broker = restarted(broker).await;
    broker.namespace.delete("dormant").await.unwrap();
    let broker = restarted(broker).await;
    assert!(broker.namespace.describe("dormant").is_none());
}

#[tokio::test]
async fn a_topic_is_deleted_with_its_subscriptions() {
    let broker = Broker::start(0).await;
    broker.namespace.create("news", TopicOptions::default()).await.unwrap();
    let rules = vec![peeklock_engine::Rule::default_rule()];
    let made = broker.namespace.create_subscription("news", "all", Default::default(), rules).await.unwrap();
    let mut client = broker.client();
    client.handle = broker.namespace.entity("news").unwrap().partition;
    client.sent("copied").await;
    assert!(stored_of(&broker, made.subscription.queue) > 0);
    broker.namespace.delete("news").await.unwrap();
    assert_eq!(stored_of(&broker, made.subscription.queue), 0);
    assert!(broker.namespace.describe_subscription("news", "all").is_none());
}

#[tokio::test]
async fn whatever_changes_a_topic_during_its_deletion_succeeds_or_finds_no_topic() {
    for yields in 0..24 {
        let broker = Broker::start(0).await;
        broker.namespace.create("news", TopicOptions::default()).await.unwrap();
        let namespace = broker.namespace.clone();
        let deleting = tokio::spawn(async move { namespace.delete("news").await });
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        let created = broker.namespace.create_subscription("news", "all", Default::default(), Vec::new());
        match created.await {
            Ok(_) => {}
            Err(ChangeError::NotFound { name }) => assert_eq!(name, "news"),
            Err(other) => panic!("after {yields} yields: {other}"),
        }
        deleting.await.unwrap().unwrap();
        assert!(broker.namespace.describe_subscription("news", "all").is_none());
    }
}

#[tokio::test]
async fn of_those_who_delete_at_once_one_wins_and_all_hear_when_it_is_durable() {
    let broker = Broker::start(0).await;
    broker.store.hold();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let namespace = broker.namespace.clone();
            tokio::spawn(async move { namespace.delete(QUEUE).await })
        })
        .collect();
    quiet().await;
    assert!(tasks.iter().all(|task| !task.is_finished()), "nothing is durable yet");
    broker.store.release_all();
    let mut deleted = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => deleted += 1,
            Err(error) => assert!(matches!(error, ChangeError::NotFound { .. }), "{error:?}"),
        }
    }
    assert_eq!(deleted, 1);
}

#[tokio::test]
async fn declaring_an_entity_during_its_deletion_ends_in_one_or_the_other() {
    for yields in 0..12 {
        let broker = Broker::start(0).await;
        let old = broker.namespace.describe(QUEUE).unwrap().queue;
        let namespace = broker.namespace.clone();
        let deleting = tokio::spawn(async move { namespace.delete(QUEUE).await });
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        broker.namespace.declare(QUEUE, with_deliveries(7)).await.unwrap();
        deleting.await.unwrap().unwrap();
        quiet().await;
        // It was updated before its deletion, or is a new queue of the same name.
        if let Some(found) = broker.namespace.describe(QUEUE) {
            assert_ne!(found.queue, old);
            assert_eq!(*found.options, with_deliveries(7).into());
        }
        assert_eq!(stored_of(&broker, old), 0);
        let before = broker.namespace.describe(QUEUE).map(|found| found.queue);
        let shard = broker.store.acquire(ShardId(0)).await.unwrap();
        let again = Broker::over(broker.store.clone(), shard, broker.clock.clone(), 0, 2).await;
        let after = again.namespace.describe(QUEUE).map(|found| found.queue);
        assert!(before.is_none() || before == after);
    }
}

#[tokio::test]
async fn a_deletion_that_the_store_refuses_is_tried_again() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    client.sent("left").await;
    let full = || Error::Full { reason: "a test wants it so".to_owned() };
    broker.store.fail_next(full());
    quiet().await;
    let refused = broker.namespace.delete(QUEUE).await;
    // The catalogue retries at once, because a caller waits for the deletion.
    refused.unwrap();
    assert_eq!(stored_of(&broker, client.queue), 0);

    broker.namespace.create("other", queue()).await.unwrap();
    let other = broker.namespace.describe("other").unwrap().queue;
    broker.store.hold();
    let namespace = broker.namespace.clone();
    let deleting = tokio::spawn(async move { namespace.delete("other").await });
    quiet().await;
    broker.store.fail_next(full());
    broker.store.release_one();
    quiet().await;
    broker.store.fail_next(full());
    broker.store.release_one();
    let refused = deleting.await.unwrap();
    assert!(matches!(refused, Err(ChangeError::Store(Error::Full { .. }))), "{refused:?}");
    broker.store.release_all();
    assert!(broker.namespace.describe("other").is_none());
    broker.namespace.delete("other").await.unwrap();
    let gone = broker.namespace.delete("other").await;
    assert!(matches!(gone, Err(ChangeError::NotFound { .. })), "{gone:?}");
    let entry =
        peeklock_storage::Key::new(peeklock_storage::Space::Meta, peeklock_storage::PartitionId(0), other.0);
    assert!(!broker.store.snapshot().contains_key(&entry));
}

#[tokio::test]
async fn deletion_and_a_crash_leave_all_or_nothing() {
    for durable_batches in 0..3 {
        let broker = Broker::start(0).await;
        let mut client = broker.client();
        client.sent("left").await;
        broker.store.hold();
        client.send("last");
        let namespace = broker.namespace.clone();
        let deleting = tokio::spawn(async move { namespace.delete(QUEUE).await });
        quiet().await;
        for _ in 0..durable_batches {
            broker.store.release_one();
            quiet().await;
        }
        let answered = deleting.is_finished();
        assert_eq!(answered, durable_batches == 2, "the message's batch, then the deletion");
        broker.store.crash();
        let broker = restarted_as_it_is(broker).await;
        match broker.namespace.counts(QUEUE) {
            Some(counts) => assert_eq!(counts.active, 1 + durable_batches as u64),
            None => assert!(answered && stored_of(&broker, client.queue) == 0),
        }
    }
}

#[tokio::test]
async fn changes_of_any_kind_are_announced() {
    let broker = Broker::start(0).await;
    let namespace = &broker.namespace;
    let mut changes = namespace.changes();
    let mut told = async |what: &str| {
        assert!(changes.has_changed().unwrap(), "{what}");
        changes.mark_unchanged();
    };
    namespace.create("news", TopicOptions::default()).await.unwrap();
    told("create").await;
    namespace
        .update("news", TopicOptions { max_size_bytes: 1 << 30, ..TopicOptions::default() })
        .await
        .unwrap();
    told("update").await;
    namespace.create_subscription("news", "s", Default::default(), Vec::new()).await.unwrap();
    told("create a subscription").await;
    namespace.create_rule("news", "s", peeklock_engine::Rule::default_rule()).await.unwrap();
    told("create a rule").await;
    namespace.delete_subscription("news", "s").await.unwrap();
    told("delete a subscription").await;
    namespace.delete("news").await.unwrap();
    told("delete").await;
    broker.client().sent("x").await;
    assert!(!namespace.changes().has_changed().unwrap(), "messages change nothing");
}

#[tokio::test]
async fn receivers_that_wait_for_a_session_are_notified_when_the_queue_is_deleted() {
    let broker = Broker::start(0).await;
    broker.namespace.create("s", QueueOptions { requires_session: true, ..queue() }).await.unwrap();
    let mut client = broker.client();
    let found = broker.namespace.entity("s").unwrap();
    (client.handle, client.queue) = (found.partition, found.queue);
    let wait_until = START.plus_ms(60_000);
    let options = peeklock_engine::ReceiverOptions {
        source: peeklock_engine::QueuePath::main(client.queue),
        mode: ReceiveMode::PeekLock,
    };
    let session = Some(peeklock_engine::SessionRequest {
        id: None,
        wait_until,
        ..peeklock_engine::SessionRequest::default()
    });
    let tag = client.submit(Command::OpenReceiver { receiver: client.receiver(9), options, session });
    client.nothing().await;
    broker.namespace.delete("s").await.unwrap();
    assert_eq!(client.response().await, (tag, Response::Opened(Err(Refusal::EntityDeleted))));
}

#[tokio::test]
async fn a_changed_status_reaches_attached_links() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    let receiver = client.open(5, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let (sender, asker) = (client.receiver(6), client.receiver(7));
    client.submit(Command::Watch { watcher: sender, queue: client.queue, sends: true });
    client.submit(Command::Watch { watcher: asker, queue: client.queue, sends: false });
    client.nothing().await;
    let status = |status| QueueOptions { status, ..queue() };
    broker.namespace.update(QUEUE, status(EntityStatus::Disabled)).await.unwrap();
    let told = client.all().await.into_iter().map(|output| match output {
        Output::ReceiverClosed { receiver, refusal: Refusal::EntityDisabled } => receiver,
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [receiver, sender]);
    let tag = client.submit(send("refused"));
    assert_eq!(client.response().await, (tag, refused(Refusal::EntityDisabled)));

    let broker = restarted_as_it_is(broker).await;
    assert_eq!(broker.namespace.describe(QUEUE).unwrap().options.status(), EntityStatus::Disabled);
    let mut client = broker.client();
    let tag = client.submit(send("refused"));
    assert_eq!(client.response().await, (tag, refused(Refusal::EntityDisabled)));
    broker.namespace.update(QUEUE, status(EntityStatus::Active)).await.unwrap();
    client.sent("accepted").await;
}
