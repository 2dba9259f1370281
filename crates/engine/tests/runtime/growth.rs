//! The memory budget for the state of stored messages is used up.

use bytes::Bytes;
use peeklock_budget::Budget;
use peeklock_engine::runtime::{Response, SubscriptionRef};
use peeklock_engine::{
    Command, DeadLetter, Forwarding, NewMessage, Property, QueueOptions, ReceiveMode, Refusal, Rule,
    SequenceNumber, Settlement, SubQueue,
};
use peeklock_storage::{MemoryStore, ShardId, Store};

use crate::broker::{Broker, Client, QUEUE, START, quiet, refused, token};
use crate::forwarding::{client_of, contents};
use crate::topics::{client, with_subscriptions};

const LIMIT: usize = 1 << 20;
const DELAY_MS: u64 = 10_000;

async fn broker() -> (Broker, Budget) {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let budget = Budget::beside_state(64 << 20, 0, LIMIT);
    (Broker::within(store, lease, &budget, 0).await, budget)
}

async fn settled(client: &mut Client, token: peeklock_engine::LockToken, settlement: Settlement) -> bool {
    client.settle(token, settlement);
    match client.response().await.1 {
        Response::Settled(failures) if failures.is_empty() => true,
        Response::Settled(failures) => {
            assert_eq!(failures[0].refusal, Refusal::StateFull);
            false
        }
        other => panic!("{other:?}"),
    }
}

fn property(bytes: usize) -> Vec<Property> {
    vec![Property { name: "p".into(), value: Bytes::from(vec![b'v'; bytes]) }]
}

#[tokio::test]
async fn a_full_state_takes_nothing_that_adds_to_it_and_everything_else() {
    let (broker, budget) = broker().await;
    let mut sender = broker.client();
    for content in ["one", "two", "three"] {
        sender.sent(content).await;
    }
    budget.state().measured(LIMIT);
    let tag = sender.send("four");
    assert_eq!(sender.response().await, (tag, refused(Refusal::StateFull)));

    let mut receiver = broker.client();
    receiver.open(1, ReceiveMode::PeekLock, SubQueue::Main, 3);
    let tokens = [receiver.delivery().await, receiver.delivery().await, receiver.delivery().await]
        .map(|delivery| token(&delivery));
    let [completed, dead, kept] = tokens;
    receiver.completed(completed).await;
    let why = DeadLetter { reason: Some("bad".into()), description: None };
    assert!(
        settled(&mut receiver, dead, Settlement::DeadLetter { why: why.into(), modify: Vec::new() }).await
    );
    assert!(!settled(&mut receiver, kept, Settlement::Defer { modify: property(1 << 10) }).await);
    assert!(settled(&mut receiver, kept, Settlement::Defer { modify: property(100) }).await, "still locked");

    budget.state().measured(LIMIT / 2);
    assert_eq!(sender.sent("five").await.0, 4, "the refused message took no number");
}

#[tokio::test]
async fn a_full_state_takes_no_rules() {
    let (broker, budget) = broker().await;
    with_subscriptions(&broker, &["s"]).await;
    let SubscriptionRef { queue, .. } = broker.namespace.subscription("News", "s").unwrap();
    let mut topic = client(&broker, Some("s"));
    budget.state().measured(LIMIT);
    let rule = Rule { name: "more".into(), ..Rule::default_rule() };
    topic.submit(Command::AddRule { queue, rule });
    assert_eq!(topic.response().await.1, Response::Done(Err(Refusal::StateFull)));
}

/// Consuming from the target frees memory.
#[tokio::test]
async fn messages_that_are_forwarded_go_on_although_the_state_is_full() {
    let (broker, budget) = broker().await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    broker.client().sent("one").await;
    budget.state().measured(LIMIT);
    let forwarding = Forwarding { forward_to: Some("target".into()), ..Forwarding::default() };
    let options = QueueOptions { forwarding, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    quiet().await;
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, ["one"]);
    let mut target = client_of(&broker, "target");
    let tag = target.send("two");
    assert_eq!(target.response().await, (tag, refused(Refusal::StateFull)));
}

/// Schedules a message for `delay_ms` after the clock's start.
pub(crate) async fn schedule(topic: &mut Client, content: &'static str, delay_ms: u64) -> SequenceNumber {
    let message = NewMessage {
        content: content.into(),
        scheduled_enqueue_time: Some(START.plus_ms(delay_ms)),
        ..NewMessage::default()
    };
    topic.submit(Command::Send { messages: [message].into_iter().collect() });
    match topic.response().await.1 {
        Response::Sent(Ok(numbers)) => numbers[0],
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn cancel(topic: &mut Client, number: SequenceNumber) {
    topic.submit(Command::CancelScheduled { numbers: [number].into_iter().collect() });
    assert_eq!(topic.response().await.1, Response::Done(Ok(())));
}

/// Number of active messages of each subscription.
fn active(broker: &Broker) -> Vec<u64> {
    let subscriptions = broker.namespace.subscriptions_after("News", None, 2);
    subscriptions.iter().map(|one| one.counts.active).collect()
}

#[tokio::test]
async fn a_message_scheduled_on_a_topic_is_published_when_there_is_room_again() {
    let (broker, budget) = broker().await;
    with_subscriptions(&broker, &["a", "b"]).await;
    schedule(&mut client(&broker, None), "later", DELAY_MS).await;
    budget.state().measured(LIMIT);
    broker.clock.advance(DELAY_MS);
    quiet().await;
    assert_eq!(active(&broker), [0, 0]);
    budget.state().measured(0);
    broker.clock.advance(1_000);
    quiet().await;
    assert_eq!(active(&broker), [1, 1]);
}

/// The topic's only timer fires during the shortage, for a message that was cancelled.
#[tokio::test]
async fn a_shortage_that_is_over_before_a_message_is_due_does_not_delay_it() {
    let (broker, budget) = broker().await;
    with_subscriptions(&broker, &["a", "b"]).await;
    let mut topic = client(&broker, None);
    let cancelled = schedule(&mut topic, "never", DELAY_MS / 2).await;
    schedule(&mut topic, "later", DELAY_MS).await;
    cancel(&mut topic, cancelled).await;
    budget.state().measured(LIMIT);
    broker.clock.advance(DELAY_MS / 2);
    quiet().await;
    budget.state().measured(0);
    broker.clock.advance(DELAY_MS / 2);
    quiet().await;
    assert_eq!(active(&broker), [1, 1]);
}
