//! The machine's wall clock is set: forward and back, permanently, before a restart. docs/time.md is the policy.

use bytes::Bytes;
use peeklock_engine::runtime::{Clock, EntityRef, Machine, Output, Response};
use peeklock_engine::{
    Command, CreditLimit, MessageKey, NewMessage, QueueOptions, QueuePath, ReceiveMode, Refusal, SubQueue,
    Timestamp,
};
use peeklock_storage::{Error, ShardId, Store};

use crate::broker::{Broker, Client, QUEUE, START, TestClock, peek, quiet, token};

pub(crate) const SECOND_MS: u64 = 1_000;
pub(crate) const MINUTE_MS: u64 = 60 * SECOND_MS;
pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;
const YEARS_MS: u64 = 10 * 365 * 24 * HOUR_MS;
/// The default lock duration of queues.
const LOCK_MS: u64 = MINUTE_MS;
/// How long a changed wall clock must persist to be believed, plus a margin.
pub(crate) const CONFIRMATION_MS: u64 = 182 * SECOND_MS;
const DETECTING: &str = "detecting";
const TEMPORARY: &str = "temporary";

/// A broker with a queue that keeps ids for ten minutes and one that is deleted when idle for as long.
async fn broker() -> Broker {
    let broker = Broker::start(1 << 20).await;
    // The start is not recent any more.
    pass(&broker, 6 * MINUTE_MS).await;
    declare(&broker).await;
    broker
}

async fn declare(broker: &Broker) {
    let detecting = QueueOptions {
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 10 * MINUTE_MS,
        ..QueueOptions::default()
    };
    broker.namespace.declare(DETECTING, detecting).await.unwrap();
    let temporary = QueueOptions { auto_delete_on_idle_ms: Some(10 * MINUTE_MS), ..QueueOptions::default() };
    broker.namespace.declare(TEMPORARY, temporary).await.unwrap();
    quiet().await;
}

fn client_of(broker: &Broker, name: &str) -> Client {
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity(name).unwrap();
    (client.handle, client.queue) = (partition, queue);
    client
}

/// Advances the clock, second by second.
pub(crate) async fn pass(broker: &Broker, duration_ms: u64) {
    for _ in 0..duration_ms / SECOND_MS {
        broker.clock.advance(SECOND_MS);
        broker.clock.now();
        tokio::task::yield_now().await;
    }
    quiet().await;
}

pub(crate) async fn restarted_on(broker: Broker, seed: u64) -> Broker {
    broker.namespace.shutdown().await;
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let clock = TestClock::over(broker.clock.machine.clone());
    Broker::over(broker.store, shard, clock, 1 << 20, seed).await
}

async fn send(client: &mut Client, content: &'static str, time_to_live_ms: Option<u64>) -> u64 {
    let message = NewMessage {
        content: Bytes::from_static(content.as_bytes()),
        message_key: Some(MessageKey::of(content)),
        time_to_live_ms,
        ..NewMessage::default()
    };
    client.submit(Command::Send { messages: [message].into_iter().collect() });
    match client.response().await.1 {
        Response::Sent(Ok(numbers)) => numbers[0].0,
        other => panic!("{other:?}"),
    }
}

/// Enqueue times of a queue's messages, in the order of their numbers.
async fn enqueued(client: &mut Client) -> Vec<Timestamp> {
    client.submit(peek(QueuePath { queue: client.queue, sub_queue: SubQueue::Main }));
    match client.response().await.1 {
        Response::Received(Ok(messages)) => messages.iter().map(|message| message.view.enqueued_at).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_hour_forth_and_back_leaves_no_trace() {
    let broker = broker().await;
    pass(&broker, MINUTE_MS).await;
    let now = broker.clock.now();
    let mut client = broker.client();
    let mut detecting = client_of(&broker, DETECTING);
    client.sent("one").await;
    broker.clock.machine.disturb(HOUR_MS.cast_signed(), 2 * MINUTE_MS);
    pass(&broker, 0).await;
    broker.clock.advance(SECOND_MS);
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let lock = client.delivery().await.message.lock.unwrap();
    assert_eq!(lock.locked_until, now.plus_ms(SECOND_MS + LOCK_MS), "not an hour ahead");
    let first = send(&mut detecting, "id", Some(5 * MINUTE_MS)).await;
    pass(&broker, LOCK_MS - SECOND_MS).await;
    client.nothing().await;
    pass(&broker, SECOND_MS).await;
    assert_eq!(client.delivery().await.message.view.delivery_count, 1);
    pass(&broker, MINUTE_MS).await;
    assert_eq!(broker.clock.machine.off_ms(), 0, "the clock is right again");
    assert!(broker.namespace.entity(TEMPORARY).is_some(), "it was idle for three minutes");
    let receiver = detecting.open(2, ReceiveMode::PeekLock, SubQueue::Main, 0);
    let limit = CreditLimit { messages: 1, bytes: 0 };
    detecting.submit(Command::Credit { receiver, limit, drain: false });
    quiet().await;
    assert_eq!(enqueued(&mut detecting).await, [now.plus_ms(SECOND_MS)], "its life is not over");
    assert_eq!(send(&mut detecting, "id", None).await, first, "a duplicate within ten minutes");
    pass(&broker, 10 * MINUTE_MS).await;
    assert_ne!(send(&mut detecting, "id", None).await, first, "and none after them");
}

#[tokio::test]
async fn an_hour_back_and_forth_stops_nothing() {
    let broker = broker().await;
    pass(&broker, MINUTE_MS).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.delivery().await;
    broker.clock.machine.disturb(-HOUR_MS.cast_signed(), 2 * MINUTE_MS);
    pass(&broker, LOCK_MS).await;
    assert_eq!(client.delivery().await.message.view.delivery_count, 1);
}

/// The broker started in 2036 by the clock of its machine, which NTP corrects some seconds later.
#[tokio::test]
async fn a_start_ten_years_ahead_is_forgotten_once_the_clock_is_right() {
    let start = START.plus_ms(YEARS_MS);
    let broker = Broker::start(1 << 20).await;
    let broker = {
        broker.clock.machine.set_wall(start.0);
        restarted_on(broker, 2).await
    };
    declare(&broker).await;
    let (mut client, mut detecting) = (broker.client(), client_of(&broker, DETECTING));
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let lock = token(&client.delivery().await);
    let first = send(&mut detecting, "id", Some(HOUR_MS)).await;
    let wall = START.plus_ms(MINUTE_MS);
    broker.clock.machine.set_wall(wall.0);
    pass(&broker, 12 * SECOND_MS).await;
    assert_eq!(broker.clock.now(), wall.plus_ms(12 * SECOND_MS));
    let Output::ReceiverClosed { refusal: Refusal::Unavailable, .. } = client.next().await else {
        panic!("receivers attach again")
    };
    client.settle(lock, peeklock_engine::Settlement::Complete);
    let Response::Settled(failures) = client.response().await.1 else { panic!("an answer") };
    assert_eq!(failures[0].refusal, Refusal::MessageLockLost);
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let again = client.delivery().await.message;
    assert!(again.lock.unwrap().locked_until <= broker.clock.now().plus_ms(LOCK_MS));
    assert!(again.view.enqueued_at <= broker.clock.now(), "{:?}", again.view.enqueued_at);
    assert_eq!(send(&mut detecting, "id", None).await, first, "still known");
    send(&mut detecting, "other", None).await;
    let order = enqueued(&mut detecting).await;
    assert!(order.is_sorted(), "{order:?}");
    pass(&broker, 11 * MINUTE_MS).await;
    assert_ne!(send(&mut detecting, "id", None).await, first, "its ten minutes are over");
    assert!(broker.namespace.entity(TEMPORARY).is_none(), "ten minutes without use");

    // The next start knows which stored timestamps were wrong.
    let now = broker.clock.now();
    let broker = restarted_on(broker, 3).await;
    assert_eq!(broker.clock.now(), now);
    let mut detecting = client_of(&broker, DETECTING);
    let order = enqueued(&mut detecting).await;
    assert!(order.is_sorted() && order.iter().all(|at| *at <= now), "{order:?}");
}

/// Sends to [`DETECTING`], sets the clock back by an hour, and sends again.
async fn set_back_between_sends(broker: &Broker) -> Client {
    let mut client = client_of(broker, DETECTING);
    send(&mut client, "before", None).await;
    broker.clock.machine.set_wall(broker.clock.machine.wall_ms() - HOUR_MS);
    pass(broker, CONFIRMATION_MS).await;
    send(&mut client, "after", None).await;
    client
}

#[tokio::test]
async fn enqueued_times_keep_their_order_once_the_clock_has_passed_the_time_of_a_set_back() {
    let broker = broker().await;
    set_back_between_sends(&broker).await;
    pass(&broker, 2 * HOUR_MS).await;
    let broker = restarted_on(broker, 2).await;
    let order = enqueued(&mut client_of(&broker, DETECTING)).await;
    assert!(order.is_sorted() && order.len() == 2, "{order:?}");
}

#[tokio::test]
async fn a_set_back_that_the_store_refuses_at_first_is_stored_later() {
    let broker = broker().await;
    let mut client = client_of(&broker, DETECTING);
    send(&mut client, "before", None).await;
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    broker.clock.machine.set_wall(broker.clock.machine.wall_ms() - HOUR_MS);
    pass(&broker, CONFIRMATION_MS).await;
    let now = broker.clock.now();
    let broker = restarted_on(broker, 2).await;
    assert_eq!(broker.clock.now(), now, "a start does not continue from the wrong time");
    let mut client = client_of(&broker, DETECTING);
    send(&mut client, "after", None).await;
    let order = enqueued(&mut client).await;
    assert!(order.is_sorted() && order.iter().all(|at| *at <= now), "{order:?}");
}

#[tokio::test]
async fn a_restart_with_an_earlier_clock_continues_from_the_stored_time() {
    for behind_ms in [MINUTE_MS, HOUR_MS, YEARS_MS] {
        let broker = Broker::start(1 << 20).await;
        pass(&broker, MINUTE_MS).await;
        let mut client = broker.client();
        client.sent("before").await;
        let stored = broker.clock.now();
        broker.clock.machine.set_wall(broker.clock.machine.wall_ms() - behind_ms.min(START.0 / 100));
        let broker = restarted_on(broker, 2).await;
        assert!(broker.clock.now() >= stored);
        let mut client = broker.client();
        client.sent("after").await;
        pass(&broker, CONFIRMATION_MS).await;
        let mut client = broker.client();
        client.sent("later").await;
        let order = enqueued(&mut client).await;
        assert!(order.is_sorted() && order.len() == 3, "{behind_ms}: {order:?}");
        assert!(order.iter().all(|at| *at <= broker.clock.now()), "{behind_ms}: {order:?}");
        let ahead_ms = broker.clock.now().0 - broker.clock.machine.wall_ms();
        assert!(ahead_ms <= behind_ms.min(5 * MINUTE_MS), "{behind_ms}: {ahead_ms} ms ahead");
    }
}

#[tokio::test]
async fn time_travel_ends_with_a_restart_and_times_stored_in_it_count_as_the_present() {
    let broker = broker().await;
    let mut client = client_of(&broker, QUEUE);
    broker.namespace.travel(&broker.clock, YEARS_MS).await.unwrap();
    client.sent("ahead").await;
    let present = START.plus_ms(MINUTE_MS);
    broker.clock.machine.set_wall(present.0);
    broker.namespace.shutdown().await;
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let clock = peeklock_engine::runtime::TravelClock::over(peeklock_engine::runtime::SystemClock::over(
        std::sync::Arc::new(broker.clock.machine.clone()),
    ));
    let options = peeklock_engine::runtime::NamespaceOptions::default();
    let namespace = peeklock_engine::runtime::Namespace::start(shard, std::sync::Arc::new(clock), options);
    let namespace = namespace.await.unwrap();
    assert_eq!(namespace.clock().now(), present);
    let EntityRef { partition, queue, .. } = namespace.entity(QUEUE).unwrap();
    (client.handle, client.queue) = (partition, queue);
    assert_eq!(enqueued(&mut client).await, [present]);
}
