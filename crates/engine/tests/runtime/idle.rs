//! Idle entities are deleted, also from the disk (S-25, S-26).

use peeklock_engine::runtime::{EntityRef, Output, Response};
use peeklock_engine::{Command, QueueOptions, ReceiveMode, Refusal, SubQueue, TopicOptions};
use peeklock_storage::{Error, ShardId, Space, Store};

use crate::broker::{Broker, quiet, refused, send};
use crate::topics::plain;

const NAME: &str = "replies";
const IDLE_MS: u64 = 300_000;

fn options() -> QueueOptions {
    QueueOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..QueueOptions::default() }
}

async fn with_temporary() -> (Broker, crate::broker::Client) {
    let broker = Broker::start(0).await;
    broker.namespace.declare(NAME, options()).await.unwrap();
    quiet().await;
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity(NAME).unwrap();
    (client.handle, client.queue) = (partition, queue);
    (broker, client)
}

fn full() -> Error {
    Error::Full { reason: "a test wants it so".to_owned() }
}

async fn entries(broker: &Broker, queue: peeklock_engine::QueueId) -> usize {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let mut entries = 0;
    for space in Space::ALL {
        let page = shard.scan(space, peeklock_storage::PartitionId(queue.0), 0).await.unwrap();
        entries += page.entries.len();
    }
    entries
}

#[tokio::test]
async fn s25_an_idle_queue_is_deleted_with_all_its_messages_and_its_name_is_free() {
    let (broker, mut client) = with_temporary().await;
    client.sent("left").await;
    broker.clock.advance(IDLE_MS - 1);
    quiet().await;
    assert!(broker.namespace.entity(NAME).is_some());
    broker.clock.advance(1);
    quiet().await;
    assert!(broker.namespace.entity(NAME).is_none());
    let tag = client.submit(send("late"));
    assert_eq!(client.response().await, (tag, refused(Refusal::EntityDeleted)));

    broker.namespace.declare(NAME, QueueOptions::default()).await.unwrap();
    let again = broker.namespace.entity(NAME).unwrap();
    assert_ne!(again.queue, client.queue, "another queue of the same name");
    assert_eq!(broker.namespace.counts(NAME).unwrap().active, 0);
    assert_eq!(entries(&broker, client.queue).await, 0);
}

/// An update's response is correct: a queue that is deleted while its new options are being written was not updated.
#[tokio::test]
async fn an_update_that_is_answered_was_in_time() {
    for intent_is_update in [true, false] {
        let (broker, _client) = with_temporary().await;
        let options = QueueOptions { max_delivery_count: 3, ..options() };
        broker.store.hold();
        let namespace = broker.namespace.clone();
        let changed = tokio::spawn(async move {
            match intent_is_update {
                true => namespace.update(NAME, options).await.is_ok(),
                false => namespace.declare(NAME, options).await.is_ok(),
            }
        });
        quiet().await;
        assert_eq!(broker.store.held(), 1, "the options are under way");
        broker.clock.advance(IDLE_MS);
        quiet().await;
        broker.store.release_all();
        assert_eq!(
            changed.await.unwrap(),
            !intent_is_update,
            "the declared entity exists, whatever was before"
        );
        quiet().await;
        assert_eq!(broker.namespace.options(NAME).is_some(), !intent_is_update);
    }
}

#[tokio::test]
async fn a_queue_whose_deletion_was_refused_is_deleted_before_another_gets_its_name() {
    let (broker, mut client) = with_temporary().await;
    client.sent("left").await;
    broker.store.fail_next(full());
    broker.clock.advance(IDLE_MS);
    quiet().await;
    assert!(broker.namespace.entity(NAME).is_none());
    let left = |broker: &Broker| {
        let store = broker.store.snapshot();
        store.keys().filter(|key| key.partition.0 == client.queue.0).count()
    };
    assert!(left(&broker) > 0, "the deletion was refused");
    broker.namespace.declare(NAME, options()).await.unwrap();
    let again = broker.namespace.entity(NAME).unwrap().queue;
    assert_eq!(left(&broker), 0);
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let broker = Broker::over(broker.store, shard, broker.clock, 0, 2).await;
    assert_eq!(broker.namespace.entity(NAME).unwrap().queue, again);
}

/// The last use is stored coarsely, which only a restart may show (S-26).
#[tokio::test]
async fn a_refused_batch_does_not_shorten_the_life_of_an_idle_queue() {
    const USED_AT_MS: u64 = 59_000;
    for is_listened_to in [false, true] {
        let (broker, mut client) = with_temporary().await;
        client.sent("left").await;
        if is_listened_to {
            client.open(1, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
        }
        broker.clock.advance(USED_AT_MS);
        broker.store.fail_next(full());
        let lost = client.send("lost");
        assert_eq!(client.response().await, (lost, refused(Refusal::StorageFull)));
        for (advance_ms, is_there) in [(IDLE_MS - 1, true), (1, false)] {
            broker.clock.advance(advance_ms);
            quiet().await;
            assert_eq!(broker.namespace.entity(NAME).is_some(), is_there);
        }
    }
}

#[tokio::test]
async fn one_about_to_be_deleted_accepts_nothing_although_its_last_batch_was_refused() {
    let (broker, mut client) = with_temporary().await;
    broker.clock.advance(IDLE_MS / 2);
    broker.store.hold();
    let lost = client.send("lost");
    client.nothing().await;
    broker.clock.advance(IDLE_MS);
    client.nothing().await;
    broker.store.fail_next(full());
    broker.store.release_one();
    assert_eq!(client.response().await, (lost, refused(Refusal::StorageFull)));
    let late = client.send("late");
    assert_eq!(client.response().await, (late, refused(Refusal::EntityDeleted)));
    broker.store.release_all();
    quiet().await;
    assert!(broker.namespace.entity(NAME).is_none());
    assert!(broker.store.snapshot().keys().all(|key| key.partition.0 != client.queue.0));
}

#[tokio::test]
async fn attached_links_are_notified() {
    let (broker, mut client) = with_temporary().await;
    let receiver = client.open(5, ReceiveMode::PeekLock, SubQueue::Main, 0);
    let watcher = client.receiver(6);
    client.submit(Command::Watch { watcher, queue: client.queue, sends: false });
    client.nothing().await;
    broker.clock.advance(IDLE_MS);
    let told: Vec<_> = client
        .all()
        .await
        .into_iter()
        .map(|output| match output {
            Output::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted } => receiver,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [receiver, watcher]);
}

#[tokio::test]
async fn an_idle_queue_is_deleted_after_a_restart_without_a_lookup() {
    let (broker, client) = with_temporary().await;
    broker.clock.advance(IDLE_MS / 2);
    broker.namespace.shutdown().await;
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let broker = Broker::over(broker.store, shard, broker.clock, 0, 2).await;
    assert!(broker.namespace.names().contains(&NAME.to_owned()));
    broker.clock.advance(IDLE_MS / 2);
    quiet().await;
    assert!(broker.namespace.entity(NAME).is_none());
    assert_eq!(entries(&broker, client.queue).await, 0);
}

#[tokio::test]
async fn deletion_survives_a_crash_right_after_it() {
    let (broker, mut client) = with_temporary().await;
    client.sent("left").await;
    broker.clock.advance(IDLE_MS);
    quiet().await;
    broker.store.crash();
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let broker = Broker::over(broker.store, shard, broker.clock, 0, 2).await;
    assert!(broker.namespace.entity(NAME).is_none());
}

#[tokio::test]
async fn an_update_starts_the_time_anew() {
    let (broker, mut client) = with_temporary().await;
    client.sent("kept").await;
    broker.clock.advance(IDLE_MS - 1);
    quiet().await;
    let changed = QueueOptions { max_delivery_count: 3, ..options() };
    broker.namespace.declare(NAME, changed).await.unwrap();
    quiet().await;
    broker.clock.advance(IDLE_MS - 1);
    quiet().await;
    let tag = client.submit(send("in time"));
    let (answered, response) = client.response().await;
    assert_eq!(answered, tag);
    assert!(matches!(response, Response::Sent(Ok(_))), "{response:?}");
}

/// The option must take effect although the queue isn't used any more.
#[tokio::test]
async fn a_queue_whose_auto_delete_on_idle_is_set_later_is_deleted_without_use() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("running", QueueOptions::default()).await.unwrap();
    broker.namespace.declare("dormant", QueueOptions::default()).await.unwrap();
    drop(broker.namespace.entity("running").unwrap());
    quiet().await;
    for name in ["running", "dormant"] {
        broker.namespace.declare(name, options()).await.unwrap();
    }
    quiet().await;
    broker.clock.advance(IDLE_MS - 1);
    quiet().await;
    let exist = |name| broker.namespace.options(name).is_some();
    assert!(exist("running") && exist("dormant"));
    broker.clock.advance(1);
    quiet().await;
    assert!(!exist("running"), "its actor ran already");
    assert!(!exist("dormant"), "its actor starts for it");
}

/// One batch for all would keep others waiting.
#[tokio::test]
async fn topics_with_many_subscriptions_that_become_idle_at_one_time_are_deleted_in_several_batches() {
    let broker = Broker::start(0).await;
    let topic = TopicOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..TopicOptions::default() };
    for name in ["a", "b", "c"] {
        broker.namespace.declare(name, topic.clone()).await.unwrap();
        let subscriptions = (0..700).map(|number| plain(&format!("s{number}"))).collect();
        broker.namespace.declare_subscriptions(name, subscriptions).await.unwrap();
    }
    quiet().await;
    broker.store.hold();
    broker.clock.advance(2 * IDLE_MS);
    quiet().await;
    let mut batches = 0;
    while broker.store.release_one() {
        batches += 1;
        quiet().await;
    }
    assert_eq!((batches, broker.namespace.names().len()), (3, 1));
    let left = broker.store.snapshot();
    assert_eq!(left.keys().filter(|key| key.space != Space::Meta).count(), 0, "{left:?}");
}
