//! Durable data, and nothing else, survives a restart.

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{ReceiveMode, Refusal, Settlement, SubQueue};
use peeklock_storage::{ShardId, Store};

use crate::broker::{Broker, QUEUE, refused, token};

async fn restarted(broker: Broker, seed: u64) -> Broker {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    Broker::over(broker.store, shard, broker.clock, 0, seed).await
}

#[tokio::test]
async fn accepted_messages_survive_and_completed_ones_stay_away() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    for content in ["one", "two", "three"] {
        client.sent(content).await;
    }
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 2);
    let first = client.delivery().await;
    let second = client.delivery().await;
    client.completed(token(&first)).await;
    let tag = client.settle(token(&second), Settlement::Abandon { modify: Vec::new() });
    assert_eq!(client.response().await.0, tag);

    let broker = restarted(broker, 2).await;
    let mut client = broker.client();
    assert_eq!(client.browsed(SubQueue::Main).await, ["two", "three"]);
    assert_eq!(client.sent("four").await.0, 4, "numbers go on");
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let again = client.delivery().await;
    assert_eq!((again.message.content.as_ref(), again.message.view.delivery_count), (&b"two"[..], 1));
}

#[tokio::test]
async fn many_pages_are_read_back_in_full() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    for number in 0..300 {
        client.send(&number.to_string());
    }
    for _ in 0..300 {
        client.response().await;
    }
    broker.store.set_page_entries_max(7);
    let broker = restarted(broker, 2).await;
    let contents = broker.client().browsed(SubQueue::Main).await;
    let expected: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    assert_eq!(contents, expected);
}

#[tokio::test]
async fn shutdown_finishes_current_work_and_refuses_the_rest() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    let receiver = client.open(7, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    client.nothing().await;
    broker.store.hold();
    let in_hand = client.send("one");
    let shutdown = tokio::spawn({
        let namespace = broker.namespace.clone();
        async move { namespace.shutdown().await }
    });
    client.nothing().await;
    let late = client.send("two");
    assert_eq!(client.response().await, (late, refused(Refusal::Unavailable)));
    assert!(!shutdown.is_finished());
    broker.store.release_all();
    let (tag, response) = client.response().await;
    assert_eq!(tag, in_hand);
    assert!(matches!(response, Response::Sent(Ok(_))));
    shutdown.await.unwrap();
    let closed = client.next().await;
    assert!(matches!(closed, Output::ReceiverClosed { receiver: id, .. } if id == receiver), "{closed:?}");
    assert!(broker.namespace.entity(QUEUE).is_some(), "still known, only not served");
    let after = client.send("three");
    assert_eq!(client.response().await, (after, refused(Refusal::Unavailable)));
}
