//! The manual clock fires the partition's timers.

use peeklock_engine::runtime::Response;
use peeklock_engine::{
    Command, CreditLimit, NewMessage, Property, QueueOptions, ReceiveMode, Refusal, SequenceNumber,
    Settlement, SubQueue,
};
use peeklock_storage::Limits;

use crate::broker::{Broker, QUEUE, START, send, token};
use crate::forwarding::client_of;

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
async fn scheduled_messages_wake_an_unused_queue_after_a_restart() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    let Command::Send { mut messages } = send("later") else { unreachable!() };
    messages[0].scheduled_enqueue_time = Some(START.plus_ms(3_600_000));
    client.submit(Command::Send { messages });
    client.response().await;
    broker.namespace.shutdown().await;

    let shard = peeklock_storage::Store::acquire(&broker.store, peeklock_storage::ShardId(0)).await.unwrap();
    let broker = Broker::over(broker.store, shard, broker.clock, 0, 2).await;
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().scheduled, 1);
    crate::broker::quiet().await;
    broker.clock.advance(3_600_000);
    crate::broker::quiet().await;
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.scheduled, counts.active), (0, 1));
}

/// Each request lets a thousand messages expire before it is executed: hundreds of requests in one turn must not become one
/// endless turn with one enormous batch.
#[tokio::test]
async fn requests_that_let_much_expire_are_spread_over_turns() {
    const MESSAGES: usize = 20_000;
    const REQUESTS: usize = 40;
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    let message = NewMessage { time_to_live_ms: Some(1_000), ..NewMessage::default() };
    client.submit(Command::Send { messages: std::iter::repeat_n(message, MESSAGES).collect() });
    assert!(matches!(client.response().await.1, Response::Sent(Ok(_))));
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 0);
    let limit = CreditLimit { messages: 1, bytes: 0 };
    client.submit(Command::Credit { receiver, limit, drain: false });
    client.nothing().await;
    broker.store.hold();
    broker.clock.advance(1_000);
    let numbers = vec![SequenceNumber(u64::MAX)];
    for _ in 0..REQUESTS {
        client.submit(Command::CancelScheduled { numbers: numbers.clone() });
    }
    client.nothing().await;
    let batches = broker.store.held();
    assert!(batches > 1, "{batches}");
    broker.store.release_all();
    for _ in 0..REQUESTS {
        client.response().await;
    }
    client.nothing().await;
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 0);
}

/// A call of the timers that writes more than the store takes at once would be refused and repeated for ever.
#[tokio::test]
async fn messages_with_large_properties_whose_delays_end_together_come_back() {
    const COUNT: u64 = 80;
    let broker = Broker::start(0).await;
    broker.store.set_limits(Limits { value_bytes_max: 1 << 20, batch_bytes_max: 3 << 20 });
    broker.namespace.declare("large", QueueOptions::default()).await.unwrap();
    let mut client = client_of(&broker, "large");
    for _ in 0..COUNT {
        client.sent("x").await;
    }
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, COUNT);
    let until = START.plus_ms(1_000);
    let modify = vec![Property { name: "p".into(), value: vec![7; 60_000].into() }];
    let mut tokens = Vec::new();
    for _ in 0..COUNT {
        tokens.push(token(&client.delivery().await));
    }
    for token in tokens {
        client.settle(token, Settlement::Postpone { modify: modify.clone(), until });
        client.response().await;
    }
    client.tell(Command::CloseReceiver { receiver });
    broker.clock.advance(1_000);
    client.nothing().await;
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, COUNT);
    for _ in 0..COUNT {
        assert_eq!(client.delivery().await.message.view.delivery_count, 1);
    }
}
