//! Bodies while the process's memory budget is used up.

use std::sync::Arc;

use peeklock_budget::{Budget, Owner, Share};
use peeklock_engine::runtime::Output;
use peeklock_engine::{Forwarding, QueueOptions, ReceiveMode, SubQueue};
use peeklock_storage::{MemoryStore, ShardId, Store};

use crate::broker::{Broker, Client, QUEUE, quiet};
use crate::slow_reads::SlowReads;

const LIMIT: usize = 1 << 20;
/// Several fit, but not while another owner uses the whole budget.
const MESSAGE_BYTES: usize = 100 << 10;
/// Interval at which the actors retry.
const LOOK_MS: u64 = 50;

async fn broker(cached: usize) -> (Broker, Arc<SlowReads>, Budget) {
    let store = MemoryStore::new();
    let (slow, lease) = SlowReads::over(store.acquire(ShardId(0)).await.unwrap());
    let budget = Budget::new(LIMIT);
    let broker = Broker::within(store, lease, &budget, cached).await;
    (broker, slow, budget)
}

/// A share that uses the whole budget.
fn hog(budget: &Budget) -> Share {
    let mut share = budget.share(Owner::HttpRequests);
    share.set(LIMIT);
    share
}

async fn send(client: &mut Client, messages: usize) {
    for _ in 0..messages {
        client.sent(&"m".repeat(MESSAGE_BYTES)).await;
    }
}

/// Advances the clock, completes pending reads and returns all outputs that have arrived.
async fn arrived(broker: &Broker, slow: &SlowReads, client: &mut Client) -> Vec<Output> {
    broker.clock.advance(LOOK_MS);
    slow.release().await;
    client.all().await
}

#[tokio::test]
async fn contents_are_read_only_when_there_is_memory_for_them() {
    for mode in [ReceiveMode::PeekLock, ReceiveMode::ReceiveAndDelete] {
        let (broker, slow, budget) = broker(0).await;
        let mut client = broker.client();
        send(&mut client, 20).await;
        let others = hog(&budget);
        client.open(1, mode, SubQueue::Main, 100);
        client.nothing().await;
        broker.clock.advance(LOOK_MS);
        client.nothing().await;
        assert_eq!(slow.held(), 0, "nothing is read");
        assert!(budget.is_contended());
        drop(others);
        // The outputs are kept unread, so their memory stays counted.
        let mut unread = Vec::new();
        for _ in 0..10 {
            unread.extend(arrived(&broker, &slow, &mut client).await);
        }
        assert!((3..15).contains(&unread.len()), "{} messages came", unread.len());
        assert!(budget.used_bytes() <= LIMIT, "{} bytes", budget.used_bytes());
        let mut count = unread.len();
        while count < 20 {
            unread.clear();
            unread = arrived(&broker, &slow, &mut client).await;
            assert!(!unread.is_empty(), "{count} messages came");
            count += unread.len();
        }
        drop(unread);
        assert_eq!(budget.used_bytes(), 0);
        assert!(!budget.is_contended());
    }
}

#[tokio::test]
async fn a_mailbox_that_is_full_gets_no_message() {
    let (broker, slow, budget) = broker(LIMIT).await;
    let mut client = broker.client();
    let account = client.mailbox.account();
    for receiver in 1..=5 {
        client.open(receiver, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    }
    client.nothing().await;
    account.set_full(true);
    let mut sender = broker.client();
    for _ in 0..5 {
        sender.sent("small").await;
    }
    let outputs = arrived(&broker, &slow, &mut client).await;
    let delivered = outputs.iter().filter(|output| matches!(output, Output::Delivery(_))).count();
    let closed = outputs.iter().filter(|output| matches!(output, Output::ReceiverClosed { .. })).count();
    assert_eq!((delivered, closed), (0, 5), "{outputs:?}");
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 5);
    assert_eq!(budget.used_by(Owner::Deliveries), 0);
}

#[tokio::test]
async fn messages_on_their_way_to_another_entity_are_counted_and_wait_for_memory() {
    let (broker, slow, budget) = broker(0).await;
    let mut source = broker.client();
    send(&mut source, 20).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let others = hog(&budget);
    let forwarding = Forwarding { forward_to: Some("target".into()), ..Forwarding::default() };
    let options = QueueOptions { forwarding, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    quiet().await;
    broker.clock.advance(LOOK_MS);
    quiet().await;
    assert_eq!(slow.held(), 0, "nothing is read");
    drop(others);
    // The target's batch stays in progress.
    broker.store.hold();
    for _ in 0..10 {
        broker.clock.advance(LOOK_MS);
        slow.release().await;
    }
    let held = budget.used_by(Owner::Forwarding);
    assert!(held >= MESSAGE_BYTES && budget.used_bytes() <= LIMIT, "{held} bytes");
    broker.store.release_all();
    for _ in 0..20 {
        broker.clock.advance(LOOK_MS);
        slow.release().await;
        broker.store.release_all();
    }
    assert_eq!(broker.namespace.counts("target").unwrap().active, 20);
    quiet().await;
    assert_eq!(budget.used_bytes(), 0);
}
