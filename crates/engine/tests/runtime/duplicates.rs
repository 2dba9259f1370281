//! Duplicate detection over a real store: refused batches, restarts, deletion.

use peeklock_engine::runtime::{EntityRef, Response};
use peeklock_engine::{
    Command, MessageKey, NewMessage, QueueOptions, SequenceNumber, SubQueue, Timestamp, TopicOptions,
};
use peeklock_storage::{Error, ShardId, Store};

use crate::broker::{Broker, Client};

const WINDOW_MS: u64 = 60_000;

fn options() -> QueueOptions {
    QueueOptions {
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: WINDOW_MS,
        ..QueueOptions::default()
    }
}

fn message(id: &str, scheduled_enqueue_time: Option<Timestamp>) -> Command {
    let message = NewMessage {
        content: bytes::Bytes::copy_from_slice(id.as_bytes()),
        message_key: Some(MessageKey::of(id)),
        scheduled_enqueue_time,
        ..NewMessage::default()
    };
    Command::Send { messages: [message].into_iter().collect() }
}

fn client_of(broker: &Broker, name: &str) -> Client {
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity(name).unwrap();
    (client.handle, client.queue) = (partition, queue);
    client
}

async fn number_of(client: &mut Client, id: &str) -> u64 {
    client.submit(message(id, None));
    match client.response().await.1 {
        Response::Sent(Ok(numbers)) => numbers[0].0,
        other => panic!("{other:?}"),
    }
}

async fn restarted(broker: Broker, seed: u64) -> Broker {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    Broker::over(broker.store, shard, broker.clock, 0, seed).await
}

#[tokio::test]
async fn ids_survive_restarts_for_exactly_the_window() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("d", options()).await.unwrap();
    let mut client = client_of(&broker, "d");
    assert_eq!(number_of(&mut client, "a").await, 1);
    broker.clock.advance(WINDOW_MS - 1);
    let broker = restarted(broker, 2).await;
    let mut client = client_of(&broker, "d");
    assert_eq!(number_of(&mut client, "a").await, 1);
    assert_eq!(client.browsed(SubQueue::Main).await, ["a"]);
    broker.clock.advance(1);
    assert_eq!(number_of(&mut client, "a").await, 2);
    let broker = restarted(broker, 3).await;
    let mut client = client_of(&broker, "d");
    assert_eq!(number_of(&mut client, "a").await, 2);
    assert_eq!(client.browsed(SubQueue::Main).await, ["a", "a"]);
}

#[tokio::test]
async fn a_refused_batch_leaves_no_id_and_no_duplicate_is_accepted_before_its_original() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("d", options()).await.unwrap();
    let mut client = client_of(&broker, "d");
    broker.store.hold();
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    let first = client.submit(message("a", None));
    client.nothing().await;
    let again = client.submit(message("a", None));
    client.nothing().await;
    broker.store.release_all();
    for tag in [first, again] {
        let (answered, response) = client.response().await;
        assert_eq!(answered, tag);
        assert!(matches!(response, Response::Sent(Err(_))), "{response:?}");
    }
    assert_eq!(number_of(&mut client, "a").await, 1, "it is not remembered");
    assert_eq!(client.browsed(SubQueue::Main).await, ["a"]);
}

#[tokio::test]
async fn a_queue_of_the_same_name_remembers_nothing_of_the_one_that_was_deleted() {
    let broker = Broker::start(0).await;
    let temporary = QueueOptions { auto_delete_on_idle_ms: Some(WINDOW_MS / 2), ..options() };
    broker.namespace.declare("d", temporary.clone()).await.unwrap();
    number_of(&mut client_of(&broker, "d"), "a").await;
    broker.clock.advance(WINDOW_MS / 2);
    broker.namespace.catch_up().await;
    assert!(broker.namespace.options("d").is_none());
    broker.namespace.declare("d", temporary).await.unwrap();
    let mut client = client_of(&broker, "d");
    number_of(&mut client, "a").await;
    assert_eq!(client.browsed(SubQueue::Main).await, ["a"]);
}

#[tokio::test]
async fn a_topic_remembers_unmatched_messages_as_duplicates_after_a_rule_change() {
    let broker = Broker::start(0).await;
    let topic = TopicOptions { requires_duplicate_detection: true, ..TopicOptions::default() };
    broker.namespace.declare("t", topic).await.unwrap();
    let mut client = client_of(&broker, "t");
    assert_eq!(number_of(&mut client, "a").await, 1);
    let broker = restarted(broker, 2).await;
    let mut client = client_of(&broker, "t");
    assert_eq!(number_of(&mut client, "a").await, 1);
    assert_eq!(number_of(&mut client, "b").await, 2);
    let error = broker.namespace.declare("t", TopicOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("requires_duplicate_detection"), "{error}");
    let scheduled = Some(broker.namespace.clock().now().plus_ms(5));
    client.submit(message("a", scheduled));
    assert_eq!(client.response().await.1, Response::Sent(Ok([SequenceNumber(1)].into_iter().collect())));
}
