//! One turn of an actor does a bounded amount of work: other requests and other tasks have their turn in between.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, LockToken, NewMessage, QueueOptions, QueuePath, Settlement};
use peeklock_storage::{MemoryStore, ShardId, Store};

use crate::broker::{Broker, START, TestClock, peek};

/// More than one call visits.
const SESSIONS: usize = 10_000;
/// Requests, each of which looks up ten thousand locks.
const SETTLEMENTS: usize = 20;
const TOKENS: u128 = 10_000;

#[tokio::test]
async fn a_long_listing_does_not_hold_up_other_requests() {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let broker = Broker::reading(store, lease, TestClock::new(START), 0, 1, None, options).await;
    let mut client = broker.client();
    let message = |number| NewMessage {
        session_id: Some(format!("s{number:05}").into()),
        content: Bytes::from_static(b"x"),
        ..NewMessage::default()
    };
    client.submit(Command::Send { messages: (0..SESSIONS).map(message).collect() });
    assert!(matches!(client.response().await, (_, Response::Sent(Ok(_)))));
    let skip = u32::try_from(SESSIONS - 1).unwrap();
    let list = Command::ListSessions { queue: client.queue, updated_after: None, skip, top: 10 };
    let listing = client.submit(list);
    let Command::Peek { from, bytes_max, source, session, .. } = peek(QueuePath::main(client.queue)) else {
        panic!("a peek")
    };
    let peeking = client.submit(Command::Peek { from, count_max: 0, bytes_max, source, session });
    assert_eq!(client.response().await, (peeking, Response::Received(Ok(Vec::new()))));
    assert_eq!(client.response().await, (listing, Response::Sessions(Ok(vec!["s09999".into()]))));
}

#[tokio::test]
async fn requests_that_only_look_something_up_are_spread_over_turns() {
    let broker = Broker::start(0).await;
    let mut client = broker.client();
    for _ in 0..SETTLEMENTS {
        let tokens = (0..TOKENS).map(LockToken).collect();
        let settlement = Settlement::Complete;
        client.submit(Command::Settle { queue: client.queue, tokens, settlement });
    }
    let mut answered = Vec::new();
    while answered.iter().sum::<usize>() < SETTLEMENTS {
        tokio::task::yield_now().await;
        answered.push(std::iter::from_fn(|| client.outputs.try_recv().ok()).count());
    }
    assert!(answered.iter().all(|count| *count < SETTLEMENTS / 2), "{answered:?}");
}
