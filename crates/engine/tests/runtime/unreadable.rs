//! Stored bytes that the device can't read at present: only a checksum proves damage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{QueueOptions, ReceiveMode, Refusal, SubQueue};
use peeklock_storage::{
    DamagedEntry, Error, Key, Lease, MemoryStore, Page, PartitionId, Place, Read, Scan, Shard, ShardId,
    Space, Store, read, scan,
};

use crate::broker::{Broker, Client, QUEUE, START, TestClock, quiet, send, token};
use crate::forwarding::client_of;
use crate::wrapped::forward;

/// Longer than all pauses before a message is given up.
const PATIENCE_MS: u64 = 2_000;
const FOR_GOOD: u32 = u32::MAX;

/// A shard over a device that fails to read some keys for a number of attempts.
struct Flaky {
    shard: Arc<dyn Shard>,
    failures: Mutex<BTreeMap<Key, u32>>,
    /// Whether reads fail before they reach the store.
    is_unavailable: Mutex<bool>,
}

fn unreadable(key: Key) -> Error {
    Error::Unreadable {
        place: Place { unit: "7.segment".to_owned(), offset: key.number },
        reason: "test".to_owned(),
    }
}

impl Flaky {
    fn fail(&self, key: Key, attempts: u32) {
        self.failures.lock().unwrap().insert(key, attempts);
    }

    fn fails(&self, key: Key) -> bool {
        let mut failures = self.failures.lock().unwrap();
        let left = failures.get_mut(&key).filter(|left| **left > 0);
        left.map(|left| *left -= u32::from(*left != FOR_GOOD)).is_some()
    }
}

impl Shard for Flaky {
    forward!(shard: submit, resume, partitions, limits, pressure);

    fn read(&self, keys: Vec<Key>) -> Read {
        if *self.is_unavailable.lock().unwrap() {
            let (notifier, answer) = read();
            notifier.resolve(Err(Error::Unavailable { reason: "test".to_owned() }));
            return answer;
        }
        let Some(key) = keys.iter().copied().find(|key| self.fails(*key)) else {
            return self.shard.read(keys);
        };
        let (notifier, answer) = read();
        notifier.resolve(Err(unreadable(key)));
        answer
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        let failing: Vec<u64> = {
            let keys: Vec<Key> = self.failures.lock().unwrap().keys().copied().collect();
            let keys = keys.into_iter().filter(|key| (key.space, key.partition) == (space, partition));
            keys.filter(|key| self.fails(*key)).map(|key| key.number).collect()
        };
        let (notifier, answer) = scan();
        let shard = Arc::clone(&self.shard);
        tokio::spawn(async move {
            let page = shard.scan(space, partition, from).await.map(|page| {
                let fails = |number: &u64| failing.contains(number);
                let (damaged, entries): (Vec<_>, Vec<_>) =
                    page.entries.into_iter().partition(|entry| fails(&entry.number));
                let damaged = damaged.into_iter().map(|entry| DamagedEntry {
                    number: entry.number,
                    unverified: entry.value,
                    error: unreadable(Key::new(space, partition, entry.number)),
                });
                Page { entries, damaged: damaged.collect(), next: page.next }
            });
            notifier.resolve(page);
        });
        answer
    }
}

async fn broker() -> (Broker, Arc<Flaky>, PartitionId) {
    let (broker, flaky, partition, _) = leased().await;
    (broker, flaky, partition)
}

async fn leased() -> (Broker, Arc<Flaky>, PartitionId, Lease) {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let flaky = Arc::new(Flaky {
        shard: Arc::clone(lease.shard()),
        failures: Mutex::default(),
        is_unavailable: Mutex::default(),
    });
    let lease = lease.over(Arc::clone(&flaky) as Arc<dyn Shard>);
    let broker = Broker::over(store, lease.clone(), TestClock::new(START), 0, 1).await;
    let partition = PartitionId(broker.client().queue.0);
    (broker, flaky, partition, lease)
}

/// The store refuses a batch, so that the entity is reloaded.
async fn refuse_a_batch(broker: &Broker, client: &mut Client) {
    broker.store.fail_next(Error::Full { reason: "test".to_owned() });
    let tag = client.send("refused");
    assert_eq!(client.response().await, (tag, Response::Sent(Err(Refusal::StorageFull))));
    quiet().await;
}

#[tokio::test]
async fn an_entity_is_busy_until_it_can_be_read_back() {
    let (broker, flaky, partition) = broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    flaky.fail(Key::new(Space::Meta, partition, 16), 20);
    refuse_a_batch(&broker, &mut client).await;
    for _ in 0..20 {
        let tag = client.send("too early");
        assert_eq!(client.response().await, (tag, Response::Sent(Err(Refusal::Unavailable))));
        broker.clock.advance(5_000);
        quiet().await;
    }
    assert_eq!(client.sent("two").await.0, 2);
    assert_eq!(client.browsed(SubQueue::Main).await, ["one", "two"]);
    assert_eq!(broker.namespace.damage(), []);
    assert!(!broker.namespace.describe(QUEUE).unwrap().is_damaged);
}

/// Neither joint steps of other entities nor other participants wait for an entity that can't be reloaded.
#[tokio::test]
async fn joint_steps_do_not_wait_for_an_entity_that_can_not_be_read_back() {
    let (broker, flaky, partition) = broker().await;
    for name in ["other", "target"] {
        broker.namespace.declare(name, QueueOptions::default()).await.unwrap();
    }
    let (mut client, mut other) = (broker.client(), client_of(&broker, "other"));
    client.sent("one").await;
    flaky.fail(Key::new(Space::Meta, partition, 16), FOR_GOOD);
    refuse_a_batch(&broker, &mut client).await;
    for (entities, expected) in
        [(&[QUEUE, "other"][..], Err(Refusal::Unavailable)), (&["target", "other"], Ok(()))]
    {
        let mut transaction = broker.namespace.begin_transaction();
        for entity in entities {
            transaction.add(&client_of(&broker, entity).handle, send("joint"));
        }
        transaction.commit(other.mailbox.clone(), 1);
        quiet().await;
        let Ok(Output::Response { response: Response::Done(outcome), .. }) = other.outputs.try_recv() else {
            panic!("no answer");
        };
        assert_eq!(outcome, expected);
        other.sent("alone").await;
    }
}

/// A briefly unavailable store loses no message: neither one whose body is being read, nor a refused one, which
/// the sender may send again.
#[tokio::test]
async fn a_store_that_is_unavailable_for_a_moment_is_asked_again() {
    let (broker, flaky, _) = broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    broker.store.fail_next(Error::Unavailable { reason: "test".to_owned() });
    let tag = client.send("two");
    assert_eq!(client.response().await, (tag, Response::Sent(Err(Refusal::StorageFailing))));
    quiet().await;
    assert_eq!(client.sent("two").await.0, 2);
    *flaky.is_unavailable.lock().unwrap() = true;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    for _ in 0..20 {
        quiet().await;
        broker.clock.advance(PATIENCE_MS);
    }
    client.nothing().await;
    assert_eq!(broker.namespace.damage(), []);
    *flaky.is_unavailable.lock().unwrap() = false;
    broker.clock.advance(10 * PATIENCE_MS);
    for content in ["one", "two"] {
        assert_eq!(client.delivery().await.message.content, content);
    }
}

#[tokio::test]
async fn a_busy_entity_stops_at_shutdown() {
    let (broker, flaky, partition) = broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    flaky.fail(Key::new(Space::Meta, partition, 16), FOR_GOOD);
    refuse_a_batch(&broker, &mut client).await;
    broker.namespace.shutdown().await;
    let tag = client.send("late");
    assert_eq!(client.response().await, (tag, Response::Sent(Err(Refusal::Unavailable))));
}

#[tokio::test]
async fn facts_that_stay_unreadable_cost_their_message() {
    for (attempts, expected) in [(3, &["one", "two", "three"][..]), (FOR_GOOD, &["one", "three"])] {
        let (broker, flaky, partition) = broker().await;
        let mut client = broker.client();
        for content in ["one", "two", "three"] {
            client.sent(content).await;
        }
        flaky.fail(Key::new(Space::Head, partition, 2), attempts);
        refuse_a_batch(&broker, &mut client).await;
        for _ in 0..8 {
            broker.clock.advance(PATIENCE_MS);
            quiet().await;
        }
        assert_eq!(client.browsed(SubQueue::Main).await, expected);
        assert_eq!(broker.namespace.damage().len(), 3 - expected.len());
    }
}

#[tokio::test]
async fn a_content_is_read_again_before_it_costs_its_message() {
    for (attempts, expected) in [(4, &["one", "two", "three"][..]), (FOR_GOOD, &["one", "three"])] {
        let (broker, flaky, partition) = broker().await;
        let mut client = broker.client();
        for content in ["one", "two", "three"] {
            client.sent(content).await;
        }
        flaky.fail(Key::new(Space::Body, partition, 2), attempts);
        client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
        for _ in 0..8 {
            quiet().await;
            broker.clock.advance(PATIENCE_MS);
        }
        let mut tokens = Vec::new();
        for content in expected {
            let delivery = client.delivery().await;
            assert_eq!(delivery.message.content, content);
            tokens.push(token(&delivery));
        }
        client.nothing().await;
        for token in tokens {
            client.completed(token).await;
        }
        let counts = broker.namespace.counts(QUEUE).unwrap();
        assert_eq!((counts.active, counts.quarantined), (0, 3 - expected.len() as u64));
        assert_eq!(broker.namespace.damage().len(), 3 - expected.len());
    }
}

#[tokio::test]
async fn a_start_repeats_failed_reads() {
    let (broker, flaky, partition, lease) = leased().await;
    broker.client().sent("one").await;
    broker.namespace.shutdown().await;
    let keys = [
        Key::new(Space::Meta, PartitionId(0), partition.0),
        Key::new(Space::Meta, partition, 16),
        Key::new(Space::Head, partition, 1),
    ];
    for key in keys {
        for (attempts, is_damaged) in [(2, false), (FOR_GOOD, true)] {
            flaky.fail(key, attempts);
            let clock = broker.clock.restarted();
            let starting = Broker::over_existing(broker.store.clone(), lease.clone(), clock, 2);
            let passing = async {
                loop {
                    quiet().await;
                    broker.clock.advance(10);
                }
            };
            let started = tokio::select! {
                started = starting => started,
                () = passing => unreachable!(),
            };
            assert_eq!(!started.namespace.damage().is_empty(), is_damaged, "{key:?}");
            started.namespace.shutdown().await;
        }
        flaky.fail(key, 0);
    }
}
