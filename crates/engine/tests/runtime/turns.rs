//! One turn of an actor does a bounded amount of work: other requests and other tasks have their turn in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use peeklock_engine::runtime::{Response, Spans, Trace};
use peeklock_engine::{
    Command, LockToken, NewMessage, QueueOptions, QueuePath, Refusal, Rule, Settlement, SubscriptionOptions,
    Timestamp, TopicOptions,
};
use peeklock_storage::{Error, MemoryStore, ShardId, Store};

use crate::batches::Sizes;
use crate::broker::{Broker, Client, START, TestClock, peek, send};
use crate::forwarding::client_of;

/// More than one call visits.
const SESSIONS: usize = 10_000;
/// Begun in one turn, they take several.
const LISTINGS: usize = 4;
/// Requests, each of which looks up ten thousand locks.
const SETTLEMENTS: usize = 20;
const TOKENS: u128 = 10_000;
/// Together more copies than a turn may visit entries.
const SUBSCRIPTIONS: usize = 5;
const PUBLISHED: usize = 4_000;

fn of_session(number: usize) -> NewMessage {
    NewMessage {
        session_id: Some(format!("s{number:05}").into()),
        content: Bytes::from_static(b"x"),
        ..NewMessage::default()
    }
}

async fn with_many_sessions() -> (Broker, Client) {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let broker = Broker::reading(store, lease, TestClock::new(START), 0, 1, None, options).await;
    let mut client = broker.client();
    client.submit(Command::Send { messages: (0..SESSIONS).map(of_session).collect() });
    assert!(matches!(client.response().await, (_, Response::Sent(Ok(_)))));
    (broker, client)
}

/// Visits all sessions.
fn list(client: &mut Client) -> u64 {
    let skip = u32::try_from(SESSIONS - 1).unwrap();
    client.submit(Command::ListSessions { queue: client.queue, updated_since: None, skip, top: 10 })
}

/// Returns nothing.
fn browse(client: &mut Client) -> u64 {
    let Command::Peek { from, bytes_max, source, session, .. } = peek(QueuePath::main(client.queue)) else {
        panic!("a peek")
    };
    client.submit(Command::Peek { from, count_max: 0, bytes_max, source, session })
}

#[tokio::test]
async fn a_long_listing_does_not_hold_up_other_requests() {
    let (_broker, mut client) = with_many_sessions().await;
    let listing = list(&mut client);
    let peeking = browse(&mut client);
    assert_eq!(client.response().await, (peeking, Response::Received(Ok(Vec::new()))));
    assert_eq!(client.response().await, (listing, Response::Sessions(Ok(vec!["s09999".into()]))));
}

/// Otherwise the answer would be sent to a later request.
#[tokio::test]
async fn an_unfinished_listing_ends_when_the_state_is_read_back() {
    let (broker, mut client) = with_many_sessions().await;
    broker.store.fail_next(Error::Full { reason: "no space".to_owned() });
    client.submit(Command::Send { messages: [of_session(0)].into_iter().collect() });
    for _ in 0..LISTINGS {
        list(&mut client);
    }
    for _ in 0..=LISTINGS {
        let (_, response) = client.response().await;
        let refused =
            [Response::Sent(Err(Refusal::StorageFull)), Response::Sessions(Err(Refusal::StorageFull))];
        assert!(refused.contains(&response), "{response:?}");
    }
    for _ in 0..=LISTINGS {
        let updated_since = Some(Timestamp(1));
        client.submit(Command::ListSessions { queue: client.queue, updated_since, skip: 0, top: 10 });
    }
    for _ in 0..=LISTINGS {
        assert_eq!(client.response().await.1, Response::Sessions(Ok(Vec::new())));
    }
}

#[tokio::test]
async fn half_of_each_turn_is_for_new_requests() {
    let (_broker, mut client) = with_many_sessions().await;
    for _ in 0..2 * LISTINGS {
        list(&mut client);
    }
    let browsing = browse(&mut client);
    let mut listed = 0;
    while client.response().await.0 != browsing {
        listed += 1;
    }
    assert!(listed < LISTINGS, "{listed} listings were finished before");
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

/// A turn takes about 512 requests, whether or not they came in commands of many messages.
#[tokio::test]
async fn messages_that_are_sent_together_are_spread_over_turns() {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let sizes = Sizes::of(&lease);
    let broker = Broker::over(store, lease.over(sizes.clone()), TestClock::new(START), 0, 1).await;
    let mut client = broker.client();
    let before = sizes.batches();
    for _ in 0..24 {
        client.submit(Command::SendEach { messages: vec![NewMessage::default(); 64] });
    }
    for _ in 0..24 {
        assert!(matches!(client.response().await, (_, Response::SentEach(results)) if results.len() == 64));
    }
    assert_eq!(sizes.batches() - before, 3);
}

/// Waits at the first message of a publication until another task has run.
#[derive(Debug, Default)]
struct Other {
    was_awaited: AtomicBool,
    has_run: AtomicBool,
}

impl Spans for Other {
    fn trace(&self, _: &Bytes) -> Option<Box<dyn Trace>> {
        if !self.was_awaited.swap(true, Ordering::Relaxed) {
            let (other, result) = mpsc::channel();
            tokio::spawn(async move { other.send(()).unwrap() });
            let has_run = result.recv_timeout(Duration::from_secs(60)).is_ok();
            self.has_run.store(has_run, Ordering::Relaxed);
        }
        None
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_publication_does_not_hold_up_other_tasks() {
    let other = Arc::new(Other::default());
    let broker = Broker::with_spans(other.clone()).await;
    broker.namespace.declare("topic", TopicOptions::default()).await.unwrap();
    for number in 0..SUBSCRIPTIONS {
        let (name, rules) = (format!("s{number}"), vec![Rule::default_rule()]);
        let options = SubscriptionOptions::default();
        broker.namespace.create_subscription("topic", &name, options, rules).await.unwrap();
    }
    let mut client = client_of(&broker, "topic");
    let messages = (0..PUBLISHED).map(|_| NewMessage::default()).collect();
    client.submit(Command::Send { messages });
    assert!(matches!(client.response().await, (_, Response::Sent(Ok(_)))));
    assert!(other.has_run.load(Ordering::Relaxed), "another task waited for the publication");
}

/// Each of many tasks that are ready has one request: the runtime runs the actor after the first of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_of_tasks_that_are_ready_share_turns() {
    const TASKS: usize = 50;
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let sizes = Sizes::of(&lease);
    let broker = Broker::over(store, lease.over(sizes.clone()), TestClock::new(START), 0, 1).await;
    let start = Arc::new(tokio::sync::Barrier::new(TASKS));
    let before = sizes.batches();
    let clients = (0..TASKS).map(|_| {
        let (mut client, start) = (broker.client(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            client.submit(send("x"));
            assert!(matches!(client.response().await, (_, Response::Sent(Ok(_)))));
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let batches = sizes.batches() - before;
    assert!(batches <= TASKS / 10, "{batches} batches");
}
