//! Messages being forwarded when the store refuses a batch of their source.

use peeklock_budget::Budget;
use peeklock_engine::runtime::{Namespace, Response};
use peeklock_engine::{EntityStatus, Forwarding, QueueOptions, Refusal, SubQueue};
use peeklock_storage::{Error, MemoryStore, ShardId, Store};

use crate::broker::{Broker, Client, QUEUE, quiet};
use crate::forwarding::{contents, forwarding, to};

const TARGET: &str = "target";
const PAUSES_MS: u64 = 60_000;

async fn set_forwarding(namespace: &Namespace, forwards: bool) {
    let forwarding = if forwards { to(TARGET) } else { Forwarding::default() };
    namespace.declare(QUEUE, QueueOptions { forwarding, ..QueueOptions::default() }).await.unwrap();
    quiet().await;
}

fn refuse_next(broker: &Broker) {
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
}

/// A broker that forwards a message, whose store holds one batch that is not durable yet.
async fn with_a_message_on_its_way() -> (Broker, Client) {
    let broker = Broker::start(0).await;
    broker.namespace.declare(TARGET, QueueOptions::default()).await.unwrap();
    set_forwarding(&broker.namespace, true).await;
    let mut client = broker.client();
    broker.store.hold();
    client.send("one");
    quiet().await;
    assert!(broker.store.release_one(), "the message is accepted");
    assert!(matches!(client.response().await.1, Response::Sent(Ok(_))));
    quiet().await;
    assert_eq!(broker.store.held(), 1, "it continues");
    (broker, client)
}

async fn goes_on_once(broker: &Broker, client: &mut Client) {
    // Ends the forwarder and starts another.
    set_forwarding(&broker.namespace, false).await;
    set_forwarding(&broker.namespace, true).await;
    for _ in 0..4 {
        broker.clock.advance(PAUSES_MS);
        quiet().await;
    }
    assert_eq!(contents(broker, TARGET, SubQueue::Main).await, ["one"]);
    assert_eq!(contents(broker, QUEUE, SubQueue::Main).await, [""; 0]);
    client.sent("two").await;
    quiet().await;
    assert_eq!(contents(broker, TARGET, SubQueue::Main).await, ["one", "two"], "forwarding continues");
}

#[tokio::test]
async fn a_source_that_is_read_back_behind_a_message_on_its_way_does_not_send_it_again() {
    let (broker, mut client) = with_a_message_on_its_way().await;
    let lost = client.send("lost");
    quiet().await;
    assert!(broker.store.release_one(), "it is there");
    refuse_next(&broker);
    broker.store.release_all();
    assert_eq!(client.response().await, (lost, Response::Sent(Err(Refusal::StorageFull))));
    goes_on_once(&broker, &mut client).await;
}

#[tokio::test]
async fn a_message_whose_joint_batch_is_refused_goes_on_later() {
    let (broker, mut client) = with_a_message_on_its_way().await;
    refuse_next(&broker);
    broker.store.release_all();
    quiet().await;
    goes_on_once(&broker, &mut client).await;
}

/// Without memory for more state, a settlement with a long reason is refused; the description contains the target's name.
#[tokio::test]
async fn a_message_that_can_not_be_dead_lettered_for_lack_of_memory_is_dead_lettered_later() {
    const LIMIT: usize = 1 << 20;
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let budget = Budget::beside_state(64 << 20, 0, LIMIT);
    let broker = Broker::within(store, lease, &budget, 0).await;
    let target = "t".repeat(250);
    broker.namespace.declare(&target, QueueOptions::default()).await.unwrap();
    let waits = QueueOptions { status: EntityStatus::ReceiveDisabled, ..forwarding(to(&target)) };
    broker.namespace.declare(QUEUE, waits).await.unwrap();
    broker.client().sent("one").await;
    broker.namespace.delete(&target).await.unwrap();
    budget.state().measured(LIMIT);
    let goes = QueueOptions { status: EntityStatus::Active, ..forwarding(to(&target)) };
    broker.namespace.update(QUEUE, goes).await.unwrap();
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["one"]);
    budget.state().measured(0);
    broker.clock.advance(PAUSES_MS);
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["one"]);
}
