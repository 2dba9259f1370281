use std::sync::Arc;

use bytes::Bytes;

use super::MemoryStore;
use crate::{Batch, Error, Key, Limits, PartitionId, Pressure, Shard, ShardId, Space, Store};

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
async fn operations_of_a_batch_see_the_earlier_ones() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    let mut batch = Batch::new();
    for number in 1..=5 {
        batch.put(head(number), Bytes::from_static(b"x"));
    }
    batch.delete_range(Space::Head, QUEUE, 2..=4);
    batch.put(head(3), Bytes::from_static(b"again"));
    batch.delete(head(5));
    shard.submit(batch).await.unwrap();

    let values = shard.read((1..=5).map(head).collect()).await.unwrap();
    let found: Vec<_> = values.iter().map(|value| value.as_deref()).collect();
    assert_eq!(found, [Some(&b"x"[..]), None, Some(b"again"), None, None]);
}

#[tokio::test]
#[expect(clippy::reversed_empty_ranges, reason = "an empty range must be harmless")]
async fn an_empty_range_removes_nothing() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    let mut batch = put(head(1), "x");
    batch.delete_range(Space::Head, QUEUE, 5..=1);
    shard.submit(batch).await.unwrap();
    assert_eq!(store.snapshot().len(), 1);
}

#[tokio::test]
async fn a_scan_pages_through_one_partition_only() {
    let store = MemoryStore::new();
    store.set_page_entries_max(2);
    let shard = acquire(&store).await;
    let mut batch = put(Key::new(Space::Head, PartitionId(8), 2), "other");
    for number in [1, 2, 9] {
        batch.put(head(number), Bytes::from_static(b"x"));
    }
    shard.submit(batch).await.unwrap();

    let first = shard.scan(Space::Head, QUEUE, 0).await.unwrap();
    assert_eq!(first.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 2]);
    let rest = shard.scan(Space::Head, QUEUE, first.next.unwrap()).await.unwrap();
    assert_eq!(rest.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [9]);
    assert_eq!(rest.next, None);
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
async fn a_crash_loses_what_was_held_and_keeps_the_rest() {
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
async fn a_second_owner_fences_the_first() {
    let store = MemoryStore::new();
    let first = acquire(&store).await;
    let second = acquire(&store).await;
    assert!(matches!(first.submit(put(head(1), "x")).await, Err(Error::Fenced { .. })));
    assert!(matches!(first.read(vec![head(1)]).await, Err(Error::Fenced { .. })));
    second.submit(put(head(1), "x")).await.unwrap();
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
        matches!(shard.submit(put(head(2), "x")).await, Err(Error::Full { .. })),
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
async fn a_full_store_refuses_bodies_and_takes_removals() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    let body = Key::new(Space::Body, QUEUE, 1);
    shard.submit(put(body, "x")).await.unwrap();
    let mut pressure = shard.pressure();
    store.set_pressure(Pressure::Full);
    pressure.changed().await.unwrap();
    assert!(matches!(shard.submit(put(body, "y")).await, Err(Error::Full { .. })));
    shard.resume(QUEUE);
    let mut removal = Batch::new();
    removal.delete(body);
    shard.submit(removal).await.unwrap();
    assert!(store.snapshot().is_empty());
}

#[tokio::test]
async fn sizes_beyond_the_limits_are_refused() {
    let store = MemoryStore::new();
    let shard = acquire(&store).await;
    store.set_limits(Limits { value_bytes_max: 3, batch_bytes_max: 5 });
    assert!(matches!(shard.submit(put(head(1), "four")).await, Err(Error::TooLarge { .. })));
    let mut batch = put(head(1), "abc");
    batch.put(head(2), Bytes::from_static(b"def"));
    assert!(matches!(shard.submit(batch).await, Err(Error::TooLarge { .. })));
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
