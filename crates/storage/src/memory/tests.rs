use std::sync::Arc;

use bytes::Bytes;

use super::MemoryStore;
use crate::conformance::Subject;
use crate::{Batch, Error, Key, Lease, Limits, PartitionId, Pressure, Shard, ShardId, Space, Store};

const QUEUE: PartitionId = PartitionId(7);

fn head(number: u64) -> Key {
    Key::new(Space::Head, QUEUE, number)
}

fn put(key: Key, value: &'static str) -> Batch {
    let mut batch = Batch::new();
    batch.put(key, Bytes::from_static(value.as_bytes()));
    batch
}

async fn acquire(store: &MemoryStore) -> Arc<dyn Shard> {
    Arc::clone(store.acquire(ShardId(0)).await.unwrap().shard())
}

#[tokio::test]
async fn held_batches_become_durable_one_by_one() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    store.hold();
    let first = shard.submit(put(head(1), "a"));
    let mut second = shard.submit(put(head(2), "b"));
    assert!(store.snapshot().is_empty());

    assert!(store.release_one());
    first.await.unwrap();
    assert_eq!(store.snapshot().len(), 1);
    let pending = std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut second).poll(context).is_pending())
    });
    assert!(pending.await, "only one batch was released");

    store.release_all();
    second.await.unwrap();
    shard.submit(put(head(3), "c")).await.unwrap();
    assert_eq!(store.snapshot().len(), 3);
}

#[tokio::test]
async fn a_crash_loses_held_batches_and_keeps_the_rest() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    shard.submit(put(head(1), "durable")).await.unwrap();
    store.hold();
    let lost = shard.submit(put(head(2), "lost"));
    store.crash();

    assert!(matches!(lost.await, Err(Error::InDoubt { .. })));
    assert!(matches!(shard.submit(put(head(3), "late")).await, Err(Error::InDoubt { .. })));
    let again = acquire(&store).await;
    let values = again.read(vec![head(1), head(2)]).await.unwrap();
    assert_eq!(values, [Some(Bytes::from_static(b"durable")), None]);
}

#[tokio::test]
async fn a_lost_lease_says_why_once_and_a_later_epoch_is_higher() {
    let store = MemoryStore::new();
    let first = store.acquire(ShardId(0)).await.unwrap();
    assert_eq!(first.loss(), None);
    store.lose(Error::InDoubt { reason: "test".to_owned() });
    store.lose(Error::Stopped { reason: "too late".to_owned() });
    assert!(matches!(first.lost().await, Error::InDoubt { .. }));
    assert!(matches!(first.lost().await, Error::InDoubt { .. }), "again");
    let second = store.acquire(ShardId(0)).await.unwrap();
    assert_eq!((first.epoch().0 + 1, second.loss()), (second.epoch().0, None));
    second.shard().submit(put(head(1), "x")).await.unwrap();
    let third = store.acquire(ShardId(0)).await.unwrap();
    assert!(matches!(second.lost().await, Error::Fenced { .. }));
    drop(store);
    assert_eq!(third.loss(), None);
}

#[tokio::test]
async fn a_store_that_is_unavailable_for_a_moment_keeps_its_lease() {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let shard = lease.shard();
    store.fail_next(Error::Unavailable { reason: "test".to_owned() });
    assert!(matches!(shard.submit(put(head(1), "x")).await, Err(Error::Unavailable { .. })));
    assert!(
        matches!(shard.submit(put(head(2), "x")).await, Err(Error::Unavailable { .. })),
        "halted until it resumes"
    );
    shard.resume(QUEUE);
    shard.submit(put(head(1), "x")).await.unwrap();
    assert_eq!(lease.loss(), None);
}

#[tokio::test]
async fn failures_asked_for_come_in_order() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    store.fail_next(Error::Full { reason: "test".to_owned() });
    store.fail_next(Error::InDoubt { reason: "test".to_owned() });
    assert!(matches!(shard.submit(put(head(1), "x")).await, Err(Error::Full { .. })));
    assert!(matches!(shard.submit(put(head(1), "x")).await, Err(Error::InDoubt { .. })));
    assert!(matches!(shard.submit(put(head(1), "x")).await, Err(Error::InDoubt { .. })));
    assert!(store.snapshot().is_empty());
}

#[tokio::test]
async fn a_refused_batch_halts_its_partition_until_it_resumes() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    store.hold();
    store.fail_next(Error::Full { reason: "test".to_owned() });
    let refused = shard.submit(put(head(1), "x"));
    let built_on_it = shard.submit(put(head(2), "x"));
    let elsewhere = shard.submit(put(Key::new(Space::Head, PartitionId(8), 1), "x"));
    store.release_all();
    assert!(matches!(refused.await, Err(Error::Full { .. })));
    assert!(matches!(built_on_it.await, Err(Error::Full { .. })));
    elsewhere.await.unwrap();
    assert!(matches!(shard.submit(put(head(3), "x")).await, Err(Error::Full { .. })));
    shard.resume(QUEUE);
    shard.submit(put(head(1), "x")).await.unwrap();
}

/// The conformance suite of all stores.
struct MemorySubject(MemoryStore);

impl Subject for MemorySubject {
    fn new(limits: Limits) -> Self {
        let store = MemoryStore::new();
        store.set_limits(limits);
        Self(store)
    }

    fn store(&self) -> &dyn Store {
        &self.0
    }

    fn restart(&mut self) {
        self.0.crash();
    }

    async fn fill(&self, _: &Lease) {
        self.0.set_pressure(Pressure::Full);
    }

    async fn make_room(&self, _: &Lease) {
        self.0.set_pressure(Pressure::Normal);
    }
}

crate::conformance::suite!(MemorySubject);
