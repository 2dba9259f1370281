//! Effects are released in order, as soon as the events that they depend on are durable.

use std::sync::Arc;

use peeklock_engine::runtime::{EntityRef, Output, Response};
use peeklock_engine::{
    Command, DeadLetter, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverOptions, SequenceNumber,
    SessionRequest, Settlement, SubQueue,
};

use crate::broker::{Broker, Client, QUEUE, START, token};

const CACHE: usize = 1 << 20;

/// Nothing is sent while the store holds its batches; afterwards the response to the settlement comes first.
async fn is_settled_once_durable(broker: &Broker, client: &mut Client, settled: u64) {
    client.nothing().await;
    broker.store.release_all();
    assert_eq!(client.response().await, (settled, Response::Settled(Vec::new())));
}

#[tokio::test]
async fn a_send_is_answered_only_when_durable() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    broker.store.hold();
    let tag = client.send("one");
    client.nothing().await;
    assert_eq!(broker.store.held(), 1);
    assert!(broker.store.release_one());
    let numbers = [SequenceNumber(1)].into_iter().collect();
    assert_eq!(client.response().await, (tag, Response::Sent(Ok(numbers))));
}

#[tokio::test]
async fn batches_go_out_without_waiting_for_each_other_and_answers_keep_their_order() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    broker.store.hold();
    let mut tags = Vec::new();
    for content in ["one", "two", "three"] {
        tags.push(client.send(content));
        client.nothing().await;
    }
    assert_eq!(broker.store.held(), 3, "one batch a turn, none waits for the one before");
    for expected in tags {
        broker.store.release_one();
        assert_eq!(client.response().await.0, expected);
        client.nothing().await;
    }
}

#[tokio::test]
async fn requests_that_wait_together_share_one_batch() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    broker.store.hold();
    for _ in 0..100 {
        client.send("x");
    }
    client.nothing().await;
    assert_eq!(broker.store.held(), 1);
    broker.store.release_all();
    assert_eq!(client.all().await.len(), 100);
}

#[tokio::test]
async fn requests_that_wait_together_do_not_all_go_to_a_slow_store() {
    const CONTENT_BYTES: usize = 512 << 10;
    const REQUESTS: usize = 300;
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    broker.store.hold();
    let content = "x".repeat(CONTENT_BYTES);
    for _ in 0..REQUESTS {
        client.send(&content);
    }
    client.nothing().await;
    // Batches of at most 8 MB, 64 MB of them in progress; the last one may exceed the limit.
    assert!((2..=10).contains(&broker.store.held()), "{} batches", broker.store.held());
    broker.store.release_all();
    let mut answers = 0;
    while answers < REQUESTS {
        let (_, response) = client.response().await;
        assert!(matches!(response, Response::Sent(Ok(_))), "{response:?}");
        answers += 1;
    }
}

#[tokio::test]
async fn a_message_is_not_delivered_before_it_is_durable() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    broker.store.hold();
    client.send("one");
    client.nothing().await;
    broker.store.release_one();
    let outputs = client.all().await;
    assert!(matches!(&outputs[..], [Output::Response { .. }, Output::Delivery(_)]), "{outputs:?}");
}

#[tokio::test]
async fn locking_needs_no_write_and_a_returned_lock_is_not_waited_for() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.sent("one").await;
    broker.store.hold();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let first = client.delivery().await;
    assert_eq!(broker.store.held(), 0, "a lock is volatile");
    let tag = client.settle(token(&first), Settlement::Abandon { modify: Vec::new() });
    assert_eq!(client.response().await, (tag, Response::Settled(Vec::new())));
    let second = client.delivery().await;
    assert_eq!(broker.store.held(), 1, "the delivery count is written but not waited for");
    assert_eq!(second.message.view.delivery_count, 1);
}

#[tokio::test]
async fn a_lazy_write_waits_for_earlier_sync_writes() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let first = client.delivery().await;
    broker.store.hold();
    let send = client.send("two");
    client.nothing().await;
    let abandon = client.settle(token(&first), Settlement::Abandon { modify: Vec::new() });
    client.nothing().await;
    assert_eq!(broker.store.held(), 2);
    broker.store.release_one();
    assert_eq!(client.response().await.0, send);
    assert_eq!(client.response().await.0, abandon);
    assert_eq!(broker.store.held(), 1, "the lazy batch is still under way");
}

#[tokio::test]
async fn the_next_message_does_not_wait_for_the_settlement_of_the_one_before() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let first = client.delivery().await;
    broker.store.hold();
    let send = client.send("three");
    let settled = client.settle(token(&first), Settlement::Complete);
    client.credit(receiver, 3, false);
    assert_eq!(client.delivery().await.message.content.as_ref(), b"two");
    client.nothing().await;
    assert_eq!(broker.store.held(), 1, "nothing is durable yet, nor is the third");
    broker.store.release_all();
    assert_eq!(client.response().await.0, send);
    assert_eq!(client.response().await, (settled, Response::Settled(Vec::new())));
    assert_eq!(client.delivery().await.message.content.as_ref(), b"three");
}

#[tokio::test]
async fn a_message_that_was_changed_is_not_delivered_before_that_is_durable() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    client.open(2, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    let first = client.delivery().await;
    broker.store.hold();
    let why = Arc::new(DeadLetter { reason: Some("bad".into()), description: None });
    let settled = client.settle(token(&first), Settlement::DeadLetter { why, modify: Vec::new() });
    is_settled_once_durable(&broker, &mut client, settled).await;
    assert_eq!(client.delivery().await.message.view.sub_queue, SubQueue::DeadLetter);
}

/// Otherwise the first message, whose settlement a power cut would undo, would be redelivered after the second.
#[tokio::test]
async fn the_next_message_of_a_session_waits_for_the_settlement_of_the_one_before() {
    let broker = Broker::start(CACHE).await;
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("sessions", options).await.unwrap();
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity("sessions").unwrap();
    (client.handle, client.queue) = (partition, queue);
    for content in ["one", "two"] {
        let message =
            NewMessage { content: content.into(), session_id: Some("a".into()), ..NewMessage::default() };
        client.submit(Command::Send { messages: [message].into_iter().collect() });
        client.response().await;
    }
    let receiver = client.receiver(1);
    let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
    let session =
        Some(SessionRequest { id: Some("a".into()), wait_until: START, ..SessionRequest::default() });
    client.submit(Command::OpenReceiver { receiver, options, session });
    client.response().await;
    client.credit(receiver, 1, false);
    let first = client.delivery().await;
    broker.store.hold();
    let settled = client.settle(token(&first), Settlement::Complete);
    client.credit(receiver, 2, false);
    is_settled_once_durable(&broker, &mut client, settled).await;
    assert_eq!(client.delivery().await.message.content.as_ref(), b"two");
}

#[tokio::test]
async fn a_message_for_receive_and_delete_is_stored_until_it_is_delivered() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    let receiver = client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 10);
    let (first, second) = (client.delivery().await, client.delivery().await);
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 2);
    broker.store.hold();
    let leaving = client.settle(token(&first), Settlement::Complete);
    is_settled_once_durable(&broker, &mut client, leaving).await;
    client.submit(Command::CloseReceiver { receiver });
    let given_back = client.settle(token(&second), Settlement::Release);
    assert_eq!(client.response().await, (given_back, Response::Settled(Vec::new())));
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let again = client.delivery().await.message;
    assert_eq!((again.content.as_ref(), again.view.delivery_count), (&b"two"[..], 0));
}

#[tokio::test]
async fn a_drain_is_confirmed_after_the_deliveries_before_it() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    client.sent("one").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 0);
    client.credit(receiver, 10, true);
    client.delivery().await;
    assert!(matches!(client.next().await, Output::Drained { receiver: drained } if drained == receiver));
}

#[tokio::test]
async fn a_crowd_larger_than_a_turn_is_served_in_order() {
    let broker = Broker::start(CACHE).await;
    let mut client = broker.client();
    let tags: Vec<u64> = (0..5_000).map(|number| client.send(&number.to_string())).collect();
    for tag in tags {
        assert_eq!(client.response().await.0, tag);
    }
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 5_000);
}

#[tokio::test]
async fn a_backlog_in_one_queue_does_not_keep_another_waiting() {
    let broker = Broker::start(CACHE).await;
    broker.namespace.declare("quiet", peeklock_engine::QueueOptions::default()).await.unwrap();
    let mut busy = broker.client();
    let mut other = broker.client();
    other.handle = broker.namespace.entity("quiet").unwrap().partition;
    for number in 0..50_000 {
        busy.send(&number.to_string());
    }
    other.sent("one").await;
    let answered = std::iter::from_fn(|| busy.outputs.try_recv().ok()).count();
    assert!(answered < 10_000, "{answered} requests went first");
}
