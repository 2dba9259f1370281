//! The manual clock fires the partition's timers.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, ReceiveMode, Refusal, Settlement, SubQueue};

use crate::broker::{Broker, QUEUE, START, send, token};

const LOCK_MS: u64 = 60_000;

#[tokio::test]
async fn a_lock_expires_when_the_clock_says_so() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let first = client.delivery().await;
    broker.clock.advance(LOCK_MS - 1);
    client.nothing().await;
    broker.clock.advance(1);
    let second = client.delivery().await;
    assert_eq!(second.message.view.delivery_count, 1);
    client.settle(token(&first), Settlement::Complete);
    let (_, response) = client.response().await;
    let Response::Settled(failures) = response else { panic!("{response:?}") };
    assert_eq!(failures[0].refusal, Refusal::MessageLockLost);
}

#[tokio::test]
async fn scheduled_messages_wake_a_queue_that_nobody_looks_at_after_a_restart() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    let Command::Send { mut messages } = send("later") else { unreachable!() };
    messages[0].scheduled_enqueue_time = Some(START.plus_ms(3_600_000));
    client.submit(Command::Send { messages });
    client.response().await;
    broker.namespace.shutdown().await;

    let shard = peeklock_storage::Store::acquire(&broker.store, peeklock_storage::ShardId(0)).unwrap();
    let broker = Broker::over(broker.store, shard, broker.clock, 0, 2).await;
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().scheduled, 1);
    crate::broker::quiet().await;
    broker.clock.advance(3_600_000);
    crate::broker::quiet().await;
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.scheduled, counts.active), (0, 1));
}
