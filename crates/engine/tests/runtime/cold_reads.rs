//! Contents that have to be read back from the store.

use std::sync::Arc;

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{
    Command, Forwarding, QueueOptions, QueuePath, ReceiveMode, Refusal, SequenceNumber, Settlement, SubQueue,
};
use peeklock_storage::{MemoryStore, Shard, ShardId, Space, Store};

use crate::broker::{Broker, QUEUE, START, TestClock, peek, token};
use crate::slow_reads::SlowReads;

async fn cold_broker() -> (Broker, Arc<SlowReads>) {
    let store = MemoryStore::new();
    let shard = store.acquire(ShardId(0)).unwrap();
    let slow = SlowReads::new(shard);
    let clock = TestClock::new(START);
    let broker = Broker::over(store, Arc::clone(&slow) as Arc<dyn Shard>, clock, 0, 1).await;
    (broker, slow)
}

#[tokio::test]
async fn a_cold_read_delays_deliveries_in_order_but_no_acknowledgement() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    assert_eq!(slow.held(), 1, "one read for what one turn delivers");
    assert_eq!(client.sent("three").await.0, 3, "answered while the read is under way");
    client.nothing().await;
    slow.release().await;
    for expected in ["one", "two", "three"] {
        assert_eq!(client.delivery().await.message.content, expected);
    }
}

#[tokio::test]
async fn a_cold_message_is_read_before_it_is_deleted() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 10);
    client.nothing().await;
    assert_eq!(broker.store.snapshot().keys().filter(|key| key.space == Space::Body).count(), 1);
    broker.store.hold();
    slow.release().await;
    client.nothing().await;
    assert_eq!(broker.store.held(), 1, "handed out only once it is gone from the disk");
    broker.store.release_all();
    assert_eq!(client.delivery().await.message.content, "one");
    assert!(broker.store.snapshot().keys().all(|key| key.space == Space::Meta));
}

#[tokio::test]
async fn a_deferred_message_is_read_before_it_is_deleted() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    slow.release().await;
    let delivery = client.delivery().await;
    client.settle(token(&delivery), Settlement::Defer { modify: Vec::new() });
    client.response().await;
    let numbers = vec![SequenceNumber(1)];
    let mode = ReceiveMode::ReceiveAndDelete;
    client.submit(Command::ReceiveDeferred {
        numbers,
        source: QueuePath::main(client.queue),
        mode,
        receiver: None,
    });
    client.nothing().await;
    slow.release().await;
    let (_, response) = client.response().await;
    let Response::Received(Ok(messages)) = response else { panic!("{response:?}") };
    assert_eq!(messages[0].content, "one");
    assert!(broker.store.snapshot().keys().all(|key| key.space == Space::Meta));
}

#[tokio::test]
async fn a_damaged_content_is_set_aside_and_its_neighbours_are_served() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    for content in ["one", "two", "three"] {
        client.sent(content).await;
    }
    slow.damaged.lock().unwrap().insert(2);
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    slow.release().await;
    assert_eq!(client.delivery().await.message.content, "one");
    let closed = client.next().await;
    assert!(
        matches!(closed, Output::ReceiverClosed { receiver: id, refusal: Refusal::Unavailable } if id == receiver)
    );
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    slow.release().await;
    let three = client.delivery().await;
    assert_eq!((three.message.content.as_ref(), three.message.view.delivery_count), (&b"three"[..], 0));
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.active, counts.dead_letter), (2, 1));
    client.submit(peek(QueuePath { queue: client.queue, sub_queue: SubQueue::DeadLetter }));
    slow.release().await;
    assert_eq!(client.response().await.1, Response::Received(Ok(Vec::new())), "left out, not invented");
}

#[tokio::test]
async fn a_cold_message_that_can_not_be_read_is_not_deleted() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    slow.damaged.lock().unwrap().insert(1);
    client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 10);
    slow.release().await;
    assert!(matches!(client.next().await, Output::ReceiverClosed { .. }));
    assert_eq!(broker.store.snapshot().keys().filter(|key| key.space == Space::Body).count(), 1);
}

#[tokio::test]
async fn a_refused_answer_has_taken_nothing() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 2);
    slow.release().await;
    for _ in 0..2 {
        let delivery = client.delivery().await;
        client.settle(token(&delivery), Settlement::Defer { modify: Vec::new() });
    }
    client.all().await;
    slow.damaged.lock().unwrap().insert(2);
    let numbers = vec![SequenceNumber(1), SequenceNumber(2)];
    let mode = ReceiveMode::ReceiveAndDelete;
    client.submit(Command::ReceiveDeferred {
        numbers,
        source: QueuePath::main(client.queue),
        mode,
        receiver: None,
    });
    slow.release().await;
    assert_eq!(client.response().await.1, Response::Received(Err(Refusal::Unavailable)));
    assert_eq!(broker.store.snapshot().keys().filter(|key| key.space == Space::Body).count(), 2);
}

#[tokio::test]
async fn deliveries_whose_receiver_left_meanwhile_are_given_back_untouched() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    client.submit(Command::CloseReceiver { receiver });
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    slow.release().await;
    let delivery = client.delivery().await;
    assert_eq!((delivery.receiver.0, delivery.message.view.delivery_count), (2, 0));
}

#[tokio::test]
async fn a_client_that_vanished_loses_its_messages_to_others_at_once() {
    let broker = Broker::start(1 << 20).await;
    let mut gone = broker.client();
    gone.sent("one").await;
    gone.outputs.close();
    gone.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let mut client = broker.client();
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    assert_eq!(client.delivery().await.message.view.delivery_count, 0);
}

/// The source counts them against the credit of what forwards: it must not run out.
#[tokio::test]
async fn contents_that_can_not_be_read_do_not_stop_forwarding() {
    let (broker, slow) = cold_broker().await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let options = QueueOptions { max_message_size_bytes: 4 << 20, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options.clone()).await.unwrap();
    let mut client = broker.client();
    let large = "x".repeat(3 << 20);
    for number in 1..=3 {
        slow.damaged.lock().unwrap().insert(number);
        client.sent(&large).await;
    }
    client.sent("four").await;
    let forwarding = Forwarding { forward_to: Some("target".into()), ..Forwarding::default() };
    broker.namespace.declare(QUEUE, QueueOptions { forwarding, ..options }).await.unwrap();
    slow.release().await;
    assert_eq!(broker.namespace.counts("target").unwrap().active, 1);
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.active, counts.dead_letter), (0, 3));
}
