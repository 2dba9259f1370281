//! Conformance suite of all stores, including those of other crates. Each store runs it with its own [`Subject`].
#![expect(clippy::unwrap_used, reason = "tests, which other crates run on stores of theirs")]

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::samples::{QUEUE, body, complete, head, send, value};
use crate::{Batch, Error, Key, Lease, Limits, PartitionId, Pressure, Shard, ShardId, Space, Store};

/// A store under test.
#[expect(async_fn_in_trait, reason = "it is used in the tasks of tests only")]
pub trait Subject {
    /// An empty store with these limits.
    fn new(limits: Limits) -> Self;

    /// The store.
    fn store(&self) -> &dyn Store;

    /// Kills the process that has the store and starts another one.
    fn restart(&mut self);

    /// Fills the store until it has room for removals only.
    async fn fill(&self, lease: &Lease);

    /// Frees the room again.
    async fn make_room(&self, lease: &Lease);
}

/// Tests of the suite for a [`Subject`]. They pass at once if `$runs` is false.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_suite {
    ($subject:ty, $runs:expr, $($test:ident)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                if $runs {
                    $crate::conformance::$test::<$subject>().await;
                }
            }
        )*
    };
    ($subject:ty) => {
        $crate::conformance::suite!($subject, true);
    };
    ($subject:ty, $runs:expr) => {
        $crate::conformance::suite! { $subject, $runs,
            a_batch_sees_its_own_operations_and_survives_a_restart
            acknowledged_values_are_there_after_a_restart_and_removed_ones_are_not
            reads_answer_key_by_key_in_any_order
            scans_page_through_one_space_of_one_partition
            an_empty_batch_an_empty_range_and_a_removal_of_nothing_are_fine
            values_of_all_sizes_replace_each_other
            limits_are_kept_and_answers_stay_in_order
            batches_submitted_after_a_refused_batch_are_refused_too_until_the_owner_resumes
            a_resumption_does_not_overtake_earlier_batches
            acquiring_again_fences_the_earlier_lease_and_raises_the_epoch
            a_full_store_refuses_bodies_and_takes_removals
            partitions_are_listed_while_they_hold_values
        }
    };
}
pub use conformance_suite as suite;

const OTHER: PartitionId = PartitionId(2);
const LIMITS: Limits = Limits { value_bytes_max: 1 << 20, batch_bytes_max: 2 << 20 };
const SMALL: Limits = Limits { value_bytes_max: 1000, batch_bytes_max: 1500 };

fn put(key: Key, value: Bytes) -> Batch {
    let mut batch = Batch::new();
    batch.put(key, value);
    batch
}

async fn acquire(subject: &impl Subject) -> Lease {
    subject.store().acquire(ShardId(0)).await.unwrap()
}

/// Every live entry of both partitions, by scanning.
async fn contents(shard: &dyn Shard) -> BTreeMap<Key, Bytes> {
    let mut found = BTreeMap::new();
    for (space, partition) in Space::ALL.into_iter().flat_map(|space| [(space, QUEUE), (space, OTHER)]) {
        let mut from = Some(0);
        while let Some(number) = from {
            let page = shard.scan(space, partition, number).await.unwrap();
            assert!(page.damaged.is_empty() && page.next.is_none_or(|next| next > number));
            from = page.next;
            let entries = page.entries.into_iter();
            found.extend(entries.map(|entry| (Key::new(space, partition, entry.number), entry.value)));
        }
    }
    found
}

pub async fn a_batch_sees_its_own_operations_and_survives_a_restart<S: Subject>() {
    let mut subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    let mut batch = send(1);
    batch.delete(body(1));
    (2..=6).for_each(|number| batch.put(head(number), value(number, 5)));
    batch.delete_range(Space::Head, QUEUE, 0..=4);
    batch.put(head(2), value(7, 5));
    batch.put(head(2), value(8, 5));
    batch.delete(head(6));
    lease.submit(batch).await.unwrap();
    let expected = BTreeMap::from([(head(2), value(8, 5)), (head(5), value(5, 5))]);
    assert_eq!(contents(&*lease).await, expected);
    subject.restart();
    assert_eq!(contents(&*acquire(&subject).await).await, expected);
}

pub async fn acknowledged_values_are_there_after_a_restart_and_removed_ones_are_not<S: Subject>() {
    let mut subject = S::new(LIMITS);
    let mut expected = BTreeMap::new();
    for round in 0..3 {
        let lease = acquire(&subject).await;
        assert_eq!(contents(&*lease).await, expected, "round {round}");
        let numbers = 100 * round + 1..=100 * round + 100;
        for number in numbers.clone() {
            lease.submit(send(number)).await.unwrap();
        }
        for number in numbers.filter(|number| number % 3 != 0) {
            lease.submit(complete(number)).await.unwrap();
        }
        expected = contents(&*lease).await;
        subject.restart();
    }
    assert_eq!(expected.len(), 200);
}

pub async fn reads_answer_key_by_key_in_any_order<S: Subject>() {
    let subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    for number in 1..=60 {
        lease.submit(send(number)).await.unwrap();
    }
    let values = lease.read(vec![body(60), body(1), head(99), head(30), body(1), body(2)]).await.unwrap();
    let expected = [
        Some(value(60, 300)),
        Some(value(1, 300)),
        None,
        Some(value(30, 20)),
        Some(value(1, 300)),
        Some(value(2, 300)),
    ];
    assert_eq!(values, expected);
    assert_eq!(lease.read(Vec::new()).await.unwrap(), []);
}

pub async fn scans_page_through_one_space_of_one_partition<S: Subject>() {
    let subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    let mut batch = put(Key::new(Space::Head, OTHER, 2), value(1, 5));
    batch.put(body(5), value(2, 5));
    let numbers: Vec<u64> = (0..6_000).map(|number| 3 * number).chain([1 << 62, u64::MAX]).collect();
    numbers.iter().for_each(|number| batch.put(head(*number), value(*number, 9)));
    lease.submit(batch).await.unwrap();
    for from in [0, 4, 9_000, u64::MAX] {
        let (mut found, mut next) = (Vec::new(), Some(from));
        while let Some(number) = next {
            let page = lease.scan(Space::Head, QUEUE, number).await.unwrap();
            assert!(page.entries.iter().all(|entry| entry.value == value(entry.number, 9)));
            found.extend(page.entries.iter().map(|entry| entry.number));
            next = page.next;
        }
        let expected: Vec<u64> = numbers.iter().copied().filter(|number| *number >= from).collect();
        assert_eq!(found, expected, "from {from}");
    }
}

#[expect(clippy::reversed_empty_ranges, reason = "an empty range must be harmless")]
pub async fn an_empty_batch_an_empty_range_and_a_removal_of_nothing_are_fine<S: Subject>() {
    let subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    lease.submit(Batch::new()).await.unwrap();
    lease.submit(complete(5)).await.unwrap();
    assert!(contents(&*lease).await.is_empty());
    let mut batch = put(head(1), value(1, 5));
    batch.delete_range(Space::Head, QUEUE, 5..=1);
    batch.delete_range(Space::Body, QUEUE, 7..=900);
    lease.submit(batch).await.unwrap();
    assert_eq!(contents(&*lease).await.len(), 1);
}

pub async fn values_of_all_sizes_replace_each_other<S: Subject>() {
    let mut subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    let sizes = [0, 1, 1_024, 70_000, 1_025, 1 << 20, 3, 300];
    for space in Space::ALL {
        let key = |number| Key::new(space, QUEUE, number);
        for (at, len) in sizes.into_iter().enumerate() {
            let number = at as u64;
            lease.submit(put(key(7), value(number, len))).await.unwrap();
            lease.submit(put(key(8 + number), value(number, len))).await.unwrap();
            let read = lease.read(vec![key(7), key(8 + number)]).await.unwrap();
            assert_eq!(read, [Some(value(number, len)), Some(value(number, len))]);
        }
    }
    let expected = contents(&*lease).await;
    assert_eq!(expected.len(), 3 * (1 + sizes.len()));
    subject.restart();
    assert!(contents(&*acquire(&subject).await).await == expected);
}

pub async fn limits_are_kept_and_answers_stay_in_order<S: Subject>() {
    let subject = S::new(SMALL);
    let lease = acquire(&subject).await;
    assert_eq!(lease.limits(), SMALL);
    let too_large = lease.submit(put(body(1), value(1, 1001))).await;
    assert!(matches!(too_large, Err(Error::TooLarge { .. })));
    let mut batch = put(body(1), value(1, 1000));
    batch.put(body(2), value(2, 600));
    lease.resume(QUEUE);
    assert!(matches!(lease.submit(batch).await, Err(Error::TooLarge { .. })));
    lease.resume(QUEUE);
    lease.submit(send(1)).await.unwrap();
    assert_eq!(contents(&*lease).await.len(), 2);
}

pub async fn batches_submitted_after_a_refused_batch_are_refused_too_until_the_owner_resumes<S: Subject>() {
    let subject = S::new(SMALL);
    let lease = acquire(&subject).await;
    let other = Key::new(Space::Meta, OTHER, 1);
    let refused = lease.submit(put(body(1), value(1, 1001)));
    let behind = lease.submit(send(2));
    lease.submit(put(other, value(2, 5))).await.unwrap();
    lease.resume(QUEUE);
    lease.submit(send(3)).await.unwrap();
    assert!(matches!(refused.await, Err(Error::TooLarge { .. })));
    assert!(matches!(behind.await, Err(Error::Full { .. })));
    let found = contents(&*lease).await;
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [other, head(3), body(3)]);
}

pub async fn a_resumption_does_not_overtake_earlier_batches<S: Subject>() {
    let subject = S::new(SMALL);
    let lease = acquire(&subject).await;
    for round in 0..200 {
        let refused = lease.submit(put(body(1), value(1, 1001)));
        let behind = lease.submit(send(2));
        lease.resume(QUEUE);
        let after = lease.submit(send(3));
        assert!(refused.await.is_err());
        assert!(behind.await.is_err(), "round {round}");
        after.await.unwrap();
    }
}

pub async fn acquiring_again_fences_the_earlier_lease_and_raises_the_epoch<S: Subject>() {
    let mut subject = S::new(LIMITS);
    let first = acquire(&subject).await;
    first.submit(send(1)).await.unwrap();
    let second = acquire(&subject).await;
    assert!(matches!(first.lost().await, Error::Fenced { .. }));
    assert!(matches!(first.submit(send(2)).await, Err(Error::Fenced { .. })));
    assert!(matches!(first.read(vec![head(1)]).await, Err(Error::Fenced { .. })));
    assert!(matches!(first.scan(Space::Head, QUEUE, 0).await, Err(Error::Fenced { .. })));
    assert_eq!(second.loss(), None);
    assert_eq!(contents(&*second).await.len(), 2);
    assert!(second.epoch() > first.epoch());
    subject.restart();
    assert!(acquire(&subject).await.epoch() > second.epoch(), "also across restarts");
}

pub async fn a_full_store_refuses_bodies_and_takes_removals<S: Subject>() {
    let subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    lease.submit(send(1)).await.unwrap();
    lease.submit(send(2)).await.unwrap();
    let mut pressure = lease.pressure();
    subject.fill(&lease).await;
    let refused = lease.submit(send(3));
    let behind = lease.submit(complete(1));
    assert!(matches!(refused.await, Err(Error::Full { .. })));
    assert!(matches!(behind.await, Err(Error::Full { .. })));
    lease.resume(QUEUE);
    lease.submit(complete(1)).await.unwrap();
    lease.submit(put(Key::new(Space::Meta, QUEUE, 1), value(1, 10))).await.unwrap();
    subject.make_room(&lease).await;
    pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    lease.submit(send(3)).await.unwrap();
    let mut found = contents(&*lease).await;
    found.retain(|key, _| key.space == Space::Head);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [head(2), head(3)]);
}

pub async fn partitions_are_listed_while_they_hold_values<S: Subject>() {
    let mut subject = S::new(LIMITS);
    let lease = acquire(&subject).await;
    assert_eq!(lease.partitions().await.unwrap(), []);
    let last = Key::new(Space::Meta, PartitionId(u64::MAX), u64::MAX);
    lease.submit(put(last, value(1, 5))).await.unwrap();
    lease.submit(send(1)).await.unwrap();
    lease.submit(put(Key::new(Space::Body, OTHER, 0), value(2, 3_000))).await.unwrap();
    let all =
        [(Space::Meta, last.partition), (Space::Head, QUEUE), (Space::Body, QUEUE), (Space::Body, OTHER)];
    assert_eq!(lease.partitions().await.unwrap(), all);
    subject.restart();
    let lease = acquire(&subject).await;
    assert_eq!(lease.partitions().await.unwrap(), all);
    lease.submit(complete(1)).await.unwrap();
    assert_eq!(lease.partitions().await.unwrap(), [all[0], all[3]]);
    acquire(&subject).await;
    assert!(lease.partitions().await.unwrap_err().is_loss());
}
