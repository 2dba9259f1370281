//! After a jump of the clock `catch_up` returns when everything due has happened: tests need not wait after it.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{Namespace, NamespaceOptions, Output, Request, TravelClock};
use peeklock_engine::{Command, CreditLimit, Delivery, NewMessage, QueueOptions, ReceiveMode, SubQueue};
use peeklock_storage::{Error, MemoryStore, PartitionId, ShardId, Space, Store};
use tokio::task::JoinHandle;

use crate::broker::{Broker, Client, QUEUE, START, TestClock, quiet, token};
use crate::slow_reads::SlowReads;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const CACHE: usize = 1 << 20;

/// A broker whose queue dead-letters expired messages and locks for five minutes.
async fn broker() -> Broker {
    let broker = Broker::start(CACHE).await;
    let options = QueueOptions {
        lock_duration_ms: 5 * MINUTE_MS,
        dead_lettering_on_message_expiration: true,
        ..QueueOptions::default()
    };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    broker
}

async fn send(client: &mut Client, messages: impl IntoIterator<Item = NewMessage>) {
    client.submit(Command::Send { messages: messages.into_iter().collect() });
    client.response().await;
}

fn message(content: &'static str) -> NewMessage {
    NewMessage { content: Bytes::from_static(content.as_bytes()), ..NewMessage::default() }
}

fn scheduled(content: &'static str, after_ms: u64) -> NewMessage {
    NewMessage { scheduled_enqueue_time: Some(START.plus_ms(after_ms)), ..message(content) }
}

impl Broker {
    async fn travel(&self, duration_ms: u64) {
        self.namespace.travel(&self.clock, duration_ms).await.unwrap();
    }

    /// A jump whose end is awaited later.
    fn travelling(&self, duration_ms: u64) -> JoinHandle<()> {
        let (namespace, clock): (Namespace, _) = (self.namespace.clone(), self.clock.clone());
        tokio::spawn(async move { namespace.travel(&clock, duration_ms).await.unwrap() })
    }
}

impl Client {
    /// A delivery that has arrived already.
    fn arrived(&mut self) -> Delivery {
        match self.outputs.try_recv() {
            Ok(Output::Delivery(delivery)) => *delivery,
            other => panic!("no delivery is there: {other:?}"),
        }
    }

    fn nothing_arrived(&mut self) {
        let output = self.outputs.try_recv();
        assert!(output.is_err(), "{output:?}");
    }
}

#[tokio::test]
async fn a_lock_of_five_minutes_has_ended() {
    let broker = broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let first = client.delivery().await;
    broker.travel(5 * MINUTE_MS - 1).await;
    client.nothing_arrived();
    broker.travel(1).await;
    let second = client.arrived();
    assert_eq!((&*second.message.content, second.message.view.delivery_count), (&b"one"[..], 1));
    assert_ne!(token(&first), token(&second));
}

#[tokio::test]
async fn a_scheduled_message_has_come() {
    let broker = broker().await;
    let mut client = broker.client();
    let options = QueueOptions { lock_duration_ms: 48 * HOUR_MS, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    send(&mut client, [scheduled("later", 2 * HOUR_MS), scheduled("sooner", HOUR_MS)]).await;
    broker.travel(24 * HOUR_MS).await;
    let delivered = [client.arrived(), client.arrived()].map(|delivery| delivery.message);
    assert_eq!(delivered.each_ref().map(|message| &*message.content), [&b"sooner"[..], &b"later"[..]]);
    let at = [HOUR_MS, 2 * HOUR_MS].map(|after_ms| START.plus_ms(after_ms));
    assert_eq!(delivered.map(|message| message.view.enqueued_at), at, "each at its own instant");
}

/// A message that becomes available during the jump lives from then on, not from the end of the jump.
#[tokio::test]
async fn a_scheduled_message_whose_life_ends_on_the_way_is_dead() {
    let broker = broker().await;
    let mut client = broker.client();
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 0);
    let limit = CreditLimit { messages: 1, bytes: 0 };
    client.submit(Command::Credit { receiver, limit, drain: false });
    client.open(2, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    send(
        &mut client,
        [NewMessage { time_to_live_ms: Some(10 * MINUTE_MS), ..scheduled("short", 5 * MINUTE_MS) }],
    )
    .await;
    broker.travel(HOUR_MS).await;
    let dead = client.arrived();
    assert_eq!((dead.receiver, &*dead.message.content), (client.receiver(2), &b"short"[..]));
    assert_eq!(dead.message.view.enqueued_at, START.plus_ms(5 * MINUTE_MS));
    client.nothing_arrived();
}

/// More points in time than steps: those of one entity are processed together, each at its own time.
#[tokio::test]
async fn instants_without_number_take_a_bounded_number_of_steps() {
    const COUNT: u64 = 20_000;
    let broker = broker().await;
    let mut client = broker.client();
    send(&mut client, (0..COUNT).map(|number| scheduled("x", 1_000 + 7 * number))).await;
    broker.travel(HOUR_MS).await;
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, COUNT);
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, COUNT);
    for number in 0..COUNT {
        let message = client.delivery().await.message;
        assert_eq!(message.view.enqueued_at, START.plus_ms(1_000 + 7 * number));
    }
}

#[tokio::test]
async fn a_message_has_expired_after_an_hour_in_front_of_a_waiting_receiver() {
    let broker = broker().await;
    let mut client = broker.client();
    // Credit for messages but not for bytes: the receiver leaves the message in the queue.
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 0);
    let limit = CreditLimit { messages: 1, bytes: 0 };
    client.submit(Command::Credit { receiver, limit, drain: false });
    client.open(2, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    send(&mut client, [NewMessage { time_to_live_ms: Some(HOUR_MS), ..message("short") }]).await;
    broker.travel(HOUR_MS - 1).await;
    client.nothing_arrived();
    broker.travel(1).await;
    let dead = client.arrived().message;
    let why = dead.view.dead_letter.as_ref().and_then(|why| why.reason.as_deref());
    assert_eq!((&*dead.content, why), (&b"short"[..], Some("TTLExpiredException")));
    client.nothing_arrived();
}

#[tokio::test]
async fn a_locked_message_past_its_life_is_dead_lettered_with_its_lock() {
    let broker = broker().await;
    let mut client = broker.client();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.open(2, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    send(&mut client, [NewMessage { time_to_live_ms: Some(MINUTE_MS), ..message("short") }]).await;
    client.delivery().await;
    broker.travel(HOUR_MS).await;
    assert_eq!(client.arrived().receiver, client.receiver(2), "from the dead-letter queue");
    client.nothing_arrived();
}

#[tokio::test]
async fn more_than_one_turn_can_do_is_done() {
    let broker = broker().await;
    let mut client = broker.client();
    const COUNT: usize = 5_000;
    send(&mut client, std::iter::repeat_n(scheduled("x", HOUR_MS), COUNT)).await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, COUNT as u64);
    broker.travel(HOUR_MS).await;
    let delivered = std::iter::from_fn(|| client.outputs.try_recv().ok()).count();
    assert_eq!(delivered, COUNT);
}

#[tokio::test]
async fn it_waits_until_earlier_events_are_durable_but_not_for_later_ones() {
    let broker = broker().await;
    let mut client = broker.client();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    send(&mut client, [scheduled("later", HOUR_MS)]).await;
    broker.store.hold();
    let travelling = broker.travelling(HOUR_MS);
    quiet().await;
    assert!(!travelling.is_finished(), "the activation is not durable");
    client.send("afterwards");
    quiet().await;
    assert_eq!(broker.store.held(), 2);
    broker.store.release_one();
    travelling.await.unwrap();
    assert_eq!(&*client.arrived().message.content, b"later");
    client.nothing_arrived();
    assert_eq!(broker.store.held(), 1);
}

#[tokio::test]
async fn it_waits_for_contents_from_the_disk() {
    let store = MemoryStore::new();
    let (slow, lease) = SlowReads::over(store.acquire(ShardId(0)).await.unwrap());
    let broker = Broker::over(store, lease, TestClock::new(START), 0, 1).await;
    let mut client = broker.client();
    client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 10);
    send(&mut client, [scheduled("cold", HOUR_MS)]).await;
    let travelling = broker.travelling(HOUR_MS);
    quiet().await;
    assert!(!travelling.is_finished(), "the content is not here");
    slow.release().await;
    travelling.await.unwrap();
    assert_eq!(&*client.arrived().message.content, b"cold");
}

#[tokio::test]
async fn messages_given_back_by_a_vanished_receiver_are_among_the_earlier_events() {
    let broker = broker().await;
    let (mut gone, mut client) = (broker.client(), broker.client());
    gone.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let short = NewMessage { time_to_live_ms: Some(MINUTE_MS), ..scheduled("short", HOUR_MS) };
    send(&mut client, [short]).await;
    client.open(2, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    client.nothing().await;
    drop(gone);
    broker.store.hold();
    broker.clock.advance(HOUR_MS);
    client.nothing().await;
    broker.clock.advance(MINUTE_MS);
    let namespace = broker.namespace.clone();
    let travelling = tokio::spawn(async move { namespace.catch_up().await });
    quiet().await;
    // Delivered once durable, returned because the receiver has vanished, dead-lettered because it has expired.
    broker.store.release_one();
    quiet().await;
    assert_eq!(broker.store.held(), 1);
    assert!(!travelling.is_finished(), "the dead-lettering is not durable");
    broker.store.release_one();
    travelling.await.unwrap();
    assert_eq!(&*client.arrived().message.content, b"short");
}

#[tokio::test]
async fn a_refused_batch_is_tried_again() {
    let broker = broker().await;
    let mut client = broker.client();
    send(&mut client, [scheduled("later", HOUR_MS)]).await;
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    broker.travel(HOUR_MS).await;
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.scheduled, counts.active), (0, 1));
}

#[tokio::test]
async fn idle_entities_are_gone_from_the_disk_too() {
    let broker = broker().await;
    for number in 0..100 {
        let options = QueueOptions { auto_delete_on_idle_ms: Some(HOUR_MS), ..QueueOptions::default() };
        broker.namespace.declare(&format!("temporary-{number}"), options).await.unwrap();
    }
    broker.travel(HOUR_MS - 1).await;
    assert_eq!(broker.namespace.names().len(), 101);
    broker.travel(1).await;
    assert_eq!(broker.namespace.names(), [QUEUE]);
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let entries = shard.scan(Space::Meta, PartitionId(0), 0).await.unwrap().entries;
    assert_eq!(entries.len(), 2, "the counter and the queue: {entries:?}");
}

#[tokio::test]
async fn actors_that_end_are_not_waited_for() {
    let broker = broker().await;
    let mut client = broker.client();
    send(&mut client, [scheduled("later", HOUR_MS)]).await;
    broker.store.hold();
    let travelling = broker.travelling(HOUR_MS);
    quiet().await;
    broker.store.crash();
    travelling.await.unwrap();
    broker.namespace.shutdown().await;
    broker.travel(HOUR_MS).await;
}

#[tokio::test]
async fn all_queues_of_many_catch_up_at_once() {
    let broker = broker().await;
    let mut client = broker.client();
    let names: Vec<String> = (0..1_000).map(|number| format!("queue-{number}")).collect();
    let queues = names.iter().map(|name| (name.clone(), QueueOptions::default()));
    broker.namespace.declare_all(queues).await.unwrap();
    for name in &names[..500] {
        let handle = broker.namespace.entity(name).unwrap().partition;
        let command = Command::Send { messages: [scheduled("later", HOUR_MS)].into_iter().collect() };
        handle.submit(Request { mailbox: client.mailbox.clone(), tag: Some(1), command });
        client.response().await;
    }
    broker.travel(HOUR_MS).await;
    let active = |name: &String| broker.namespace.counts(name).unwrap().active;
    assert_eq!(names.iter().map(active).sum::<u64>(), 500);
}

/// A chain of two queues, with more messages than a forwarder reads ahead: all have arrived.
#[tokio::test]
async fn due_messages_have_been_forwarded() {
    let broker = broker().await;
    broker.namespace.declare("last", QueueOptions::default()).await.unwrap();
    for (name, target) in [("middle", "last"), (QUEUE, "middle")] {
        let options = QueueOptions { forwarding: crate::forwarding::to(target), ..QueueOptions::default() };
        broker.namespace.declare(name, options).await.unwrap();
    }
    let mut client = broker.client();
    send(&mut client, (0..3_000).map(|_| scheduled("later", HOUR_MS))).await;
    broker.travel(HOUR_MS).await;
    assert_eq!(broker.namespace.counts("last").unwrap().active, 3_000);
    assert_eq!(broker.namespace.counts(QUEUE).unwrap(), Default::default());
}

/// Both may have been allowed when they were requested.
#[tokio::test]
async fn of_two_journeys_at_once_the_second_is_refused_if_they_lead_too_far_together() {
    let clock = TravelClock::new();
    let lease = MemoryStore::new().acquire(ShardId(0)).await.unwrap();
    let (shared, options) = (Arc::new(clock.clone()), NamespaceOptions::default());
    let namespace = Namespace::start(lease, shared, options).await.unwrap();
    let far_ms = TravelClock::AHEAD_MS_MAX / 3 * 2;
    let journeys = tokio::join!(namespace.travel(&clock, far_ms), namespace.travel(&clock, far_ms));
    assert!(matches!(journeys, (Ok(()), Err(_))), "{journeys:?}");
    namespace.travel(&clock, far_ms / 2).await.unwrap();
}
