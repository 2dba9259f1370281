//! Batches that the store refuses.

use peeklock_engine::runtime::{EntityRef, Output, Response, SubscriptionRef};
use peeklock_engine::{
    Command, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverOptions, Refusal, Rule,
    SessionRequest, SubQueue, SubscriptionOptions, TopicOptions,
};
use peeklock_storage::{Error, Limits, Pressure};

use crate::broker::{Broker, QUEUE, START, refused, send, token};

fn full() -> Error {
    Error::Full { reason: "a test wants it so".to_owned() }
}

#[tokio::test]
async fn a_store_under_pressure_refuses_messages_beforehand_and_still_lets_them_go() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    client.sent("one").await;
    broker.store.set_pressure(Pressure::Full);
    let tag = client.send("two");
    assert_eq!(client.response().await, (tag, refused(Refusal::StorageFull)));
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let delivery = client.delivery().await;
    client.completed(token(&delivery)).await;
    broker.store.set_pressure(Pressure::Normal);
    assert_eq!(client.sent("three").await.0, 2, "the refused message took no number");
}

#[tokio::test]
async fn a_store_under_pressure_takes_no_states_of_sessions_and_no_rules_either() {
    let broker = Broker::start(1 << 20).await;
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("sessions", options).await.unwrap();
    broker.namespace.declare("topic", TopicOptions::default()).await.unwrap();
    let subscription = ("s".to_owned(), SubscriptionOptions::default(), Vec::new());
    broker.namespace.declare_subscriptions("topic", vec![subscription]).await.unwrap();
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity("sessions").unwrap();
    client.handle = partition;
    let receiver = client.receiver(1);
    let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
    let session =
        Some(SessionRequest { id: Some("a".into()), wait_until: START, ..SessionRequest::default() });
    client.submit(Command::OpenReceiver { receiver, options, session });
    assert!(matches!(client.response().await.1, Response::Opened(Ok(Some(_)))));
    let set =
        |state: Option<&'static str>| Command::SetSessionState { receiver, state: state.map(Into::into) };
    client.submit(set(Some("one")));
    assert_eq!(client.response().await.1, Response::Done(Ok(())));
    broker.store.set_pressure(Pressure::Full);
    client.submit(set(Some("two")));
    assert_eq!(client.response().await.1, Response::Done(Err(Refusal::StorageFull)));
    client.submit(set(None));
    assert_eq!(client.response().await.1, Response::Done(Ok(())), "that makes room");
    let SubscriptionRef { partition, queue, .. } = broker.namespace.subscription("topic", "s").unwrap();
    client.handle = partition;
    client.submit(Command::AddRule { queue, rule: Rule::default_rule() });
    assert_eq!(client.response().await.1, Response::Done(Err(Refusal::StorageFull)));
}

#[tokio::test]
async fn a_batch_without_room_is_refused_with_all_that_came_after_and_the_state_is_read_back() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    client.sent("one").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::DeadLetter, 10);
    client.nothing().await;
    broker.store.hold();
    broker.store.fail_next(full());
    let lost = client.send("lost");
    client.nothing().await;
    let after = client.send("after");
    client.nothing().await;
    assert_eq!(broker.store.held(), 2);
    broker.store.release_one();
    client.nothing().await;
    broker.store.release_all();
    assert_eq!(client.response().await, (lost, refused(Refusal::StorageFull)));
    assert_eq!(client.response().await, (after, refused(Refusal::StorageFull)));
    let closed = client.next().await;
    assert!(
        matches!(closed, Output::ReceiverClosed { receiver: id, refusal: Refusal::Unavailable } if id == receiver)
    );
    let contents = client.browsed(SubQueue::Main).await;
    assert_eq!(contents, ["one"], "exactly the contents of the store");
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 1);
    assert_eq!(client.sent("again").await.0, 2);
}

/// It is so large that nothing else is carried out until its outcome is known.
#[tokio::test]
async fn a_send_that_waits_behind_a_very_large_one_without_room_is_accepted() {
    let broker = Broker::start(1 << 20).await;
    let options = QueueOptions { max_message_size_bytes: 100 << 20, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    let mut client = broker.client();
    client.sent("first").await;
    broker.store.hold();
    broker.store.fail_next(full());
    let large = client.send(&"x".repeat(5 << 20));
    let small = client.send("small");
    client.nothing().await;
    broker.store.release_all();
    assert_eq!(client.response().await, (large, refused(Refusal::StorageFull)));
    let answer = client.response().await;
    assert!(matches!(&answer, (tag, Response::Sent(Ok(_))) if *tag == small), "{answer:?}");
    assert_eq!(client.browsed(SubQueue::Main).await, ["first", "small"]);
}

#[tokio::test]
async fn links_that_only_watch_survive_a_refused_batch() {
    let broker = Broker::start(1 << 20).await;
    let options = QueueOptions { auto_delete_on_idle_ms: Some(300_000), ..QueueOptions::default() };
    broker.namespace.declare("temporary", options).await.unwrap();
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity("temporary").unwrap();
    client.handle = partition;
    let watcher = client.receiver(1);
    client.submit(Command::Watch { watcher, queue, sends: false });
    client.sent("one").await;
    broker.store.fail_next(full());
    let lost = client.send("lost");
    assert_eq!(client.response().await, (lost, refused(Refusal::StorageFull)));
    client.nothing().await;
    client.sent("again").await;
    broker.clock.advance(300_000);
    let told = client.next().await;
    assert!(
        matches!(told, Output::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted } if receiver == watcher),
        "{told:?}"
    );
}

#[tokio::test]
async fn messages_that_became_durable_just_before_a_refused_batch_are_accepted() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    broker.store.hold();
    let durable = client.send("durable");
    client.nothing().await;
    let lost = client.send("lost");
    client.nothing().await;
    broker.store.release_one();
    broker.store.fail_next(full());
    broker.store.release_one();
    let answer = client.response().await;
    assert!(matches!(&answer, (tag, Response::Sent(Ok(_))) if *tag == durable), "{answer:?}");
    assert_eq!(client.response().await, (lost, refused(Refusal::StorageFull)));
    broker.store.release_all();
    assert_eq!(client.browsed(SubQueue::Main).await, ["durable"]);
}

#[tokio::test]
async fn a_lost_store_answers_all_requests_and_loses_the_shard() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    broker.store.hold();
    let first = client.send("one");
    client.nothing().await;
    let second = client.send("two");
    client.nothing().await;
    broker.store.crash();
    assert_eq!(client.response().await, (first, refused(Refusal::Unavailable)));
    assert_eq!(client.response().await, (second, refused(Refusal::Unavailable)));
    let closed = client.next().await;
    assert!(
        matches!(closed, Output::ReceiverClosed { receiver: id, refusal: Refusal::Unavailable } if id == receiver)
    );
    assert!(matches!(broker.namespace.shard_lost().await.reason, Error::InDoubt { .. }));
    let late = client.send("three");
    assert_eq!(client.response().await, (late, refused(Refusal::Unavailable)));
}

#[tokio::test]
async fn a_lazy_batch_without_room_takes_the_partition_back_as_well() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let first = client.delivery().await;
    broker.store.fail_next(full());
    client.settle(token(&first), peeklock_engine::Settlement::Abandon { modify: Vec::new() });
    client.response().await;
    assert!(matches!(client.next().await, Output::ReceiverClosed { .. }));
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let second = client.delivery().await;
    assert_eq!(second.message.view.delivery_count, 0, "the count was lost with its batch");
    client.completed(token(&second)).await;
    assert!(client.browsed(SubQueue::Main).await.is_empty());
}

#[tokio::test]
async fn sends_too_large_for_the_store_are_refused_in_advance() {
    let broker = Broker::start(1 << 20).await;
    broker.store.set_limits(Limits { value_bytes_max: 1_000, batch_bytes_max: 4_000 });
    broker.namespace.declare("small", peeklock_engine::QueueOptions::default()).await.unwrap();
    let mut client = broker.client();
    let handle = broker.namespace.entity("small").unwrap().partition;
    client.handle = handle;
    let tag = client.send(&"x".repeat(1_001));
    let too_large = Refusal::MessageTooLarge { size_bytes: 1_001, limit_bytes: 1_000 };
    assert_eq!(client.response().await, (tag, refused(too_large)));
    let message = NewMessage { content: vec![1; 900].into(), ..NewMessage::default() };
    client.submit(Command::Send { messages: std::iter::repeat_n(message, 5).collect() });
    let (_, response) = client.response().await;
    assert!(matches!(response, Response::Sent(Err(Refusal::MessageTooLarge { limit_bytes: 4_000, .. }))));
    for _ in 0..50 {
        client.submit(send(&"x".repeat(900)));
    }
    for _ in 0..50 {
        let (_, response) = client.response().await;
        assert!(
            matches!(response, Response::Sent(Ok(_))),
            "many small ones are split over batches: {response:?}"
        );
    }
}

#[tokio::test]
async fn a_turn_that_writes_more_than_one_batch_holds_is_split_between_its_commands() {
    const COUNT: usize = 3_000;
    let broker = Broker::start(1 << 20).await;
    broker.store.set_limits(Limits { value_bytes_max: 1_000, batch_bytes_max: 24_000 });
    broker.namespace.declare("small", peeklock_engine::QueueOptions::default()).await.unwrap();
    let mut client = broker.client();
    client.handle = broker.namespace.entity("small").unwrap().partition;
    let due = crate::broker::START.plus_ms(1_000);
    for _ in 0..COUNT {
        let content = bytes::Bytes::from_static(b"x");
        let message = NewMessage { content, scheduled_enqueue_time: Some(due), ..NewMessage::default() };
        client.submit(Command::Send { messages: [message].into_iter().collect() });
    }
    for _ in 0..COUNT {
        client.response().await;
    }
    broker.store.hold();
    for _ in 0..8 {
        client.submit(Command::Tick);
    }
    broker.clock.advance(1_000);
    client.nothing().await;
    assert_eq!(broker.store.held(), 3, "one for each thousand");
    broker.store.release_all();
    client.nothing().await;
    assert_eq!(broker.namespace.counts("small").unwrap().active, COUNT as u64);
    assert!(matches!(broker.store.snapshot().len(), stored if stored > 2 * COUNT), "heads and bodies");
}
