use super::*;
use crate::{Limits, Store};

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_clean_close() {
    let disk = SimulatedDisk::new();
    let expected = {
        let (store, shard) = open(&disk);
        for number in 1..=100 {
            shard.submit(send(number)).await.unwrap();
        }
        for number in 1..=50 {
            shard.submit(complete(number)).await.unwrap();
        }
        let expected = contents(&*shard, &[QUEUE]).await.unwrap();
        store.close();
        expected
    };
    assert_eq!(expected.len(), 100);
    let (_store, shard) = open(&disk);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected, "again, now without warm values");
}

#[tokio::test]
async fn reads_answer_key_by_key_in_any_order() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    let keys = vec![body(60), body(1), head(99), head(30), body(1), body(2)];
    let values = shard.read(keys).await.unwrap();
    let expected = [
        Some(value(60, 300)),
        Some(value(1, 300)),
        None,
        Some(value(30, 20)),
        Some(value(1, 300)),
        Some(value(2, 300)),
    ];
    assert_eq!(values, expected);
}

#[tokio::test]
async fn one_sync_makes_everything_that_waits_durable() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, LocalOptions::default()).unwrap();
    shard.submit(send(1)).await.unwrap();
    // The keeper's syncs are not the ones to count: it has prepared what the writer asked for, and finished that round.
    let current = store.current();
    let rounds_seen = current.shared().pool.lock().rounds_done;
    eventually("the keeper has nothing left to do", || {
        let exchange = current.shared().pool.lock();
        exchange.prepared.len() >= exchange.prepared_target && exchange.rounds_done >= rounds_seen + 2
    })
    .await;
    let before = disk.syncs();
    let frozen = disk.freeze();
    let commits: Vec<_> = (2..=200).map(|number| shard.submit(send(number))).collect();
    drop(frozen);
    for commit in commits {
        commit.await.unwrap();
    }
    // One for what the writer had in hand when the disk stood still, one for all that came meanwhile.
    assert!(disk.syncs() - before <= 2, "{} syncs", disk.syncs() - before);
}

#[tokio::test]
async fn a_batch_sees_its_own_operations_and_survives_reopening() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let mut batch = send(1);
    batch.delete(body(1));
    batch.put(head(2), value(2, 5));
    batch.delete_range(Space::Head, QUEUE, 0..=u64::MAX);
    batch.put(head(2), value(7, 5));
    batch.put(head(2), value(8, 5));
    batch.delete(head(3));
    shard.submit(batch).await.unwrap();
    let expected = BTreeMap::from([(head(2), value(8, 5))]);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected);
    store.close();
    assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap(), expected);
}

#[tokio::test]
async fn a_value_larger_than_a_segment_gets_its_own() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    let mut batch = Batch::new();
    batch.put(body(2), value(2, 1 << 20));
    shard.submit(batch).await.unwrap();
    shard.submit(send(3)).await.unwrap();
    store.close();
    let (_store, shard) = open(&disk);
    let values = shard.read(vec![body(1), body(2), body(3)]).await.unwrap();
    assert_eq!(values, [Some(value(1, 300)), Some(value(2, 1 << 20)), Some(value(3, 300))]);
}

#[tokio::test]
async fn limits_are_kept_and_answers_stay_in_order() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { value_bytes_max: 1000, batch_bytes_max: 1500, ..options() };
    let (_store, shard) = open_with(&disk, options).unwrap();
    assert_eq!(shard.limits(), Limits { value_bytes_max: 1000, batch_bytes_max: 1500 });
    let mut batch = Batch::new();
    batch.put(body(1), value(1, 1001));
    assert!(matches!(shard.submit(batch).await, Err(Error::TooLarge { .. })));
    let mut batch = Batch::new();
    batch.put(body(1), value(1, 1000));
    batch.put(body(2), value(1, 600));
    shard.resume(QUEUE);
    assert!(matches!(shard.submit(batch).await, Err(Error::TooLarge { .. })));
    shard.resume(QUEUE);
    shard.submit(send(1)).await.unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_was_submitted_behind_a_refused_batch_is_refused_too_until_its_owner_resumes() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { value_bytes_max: 1000, batch_bytes_max: 1500, ..options() };
    let (_store, shard) = open_with(&disk, options).unwrap();
    let mut too_large = Batch::new();
    too_large.put(body(1), value(1, 1001));
    let other = Key::new(Space::Meta, PartitionId(2), 1);
    let mut elsewhere = Batch::new();
    elsewhere.put(other, value(2, 5));
    let refused = shard.submit(too_large);
    let behind = shard.submit(send(2));
    shard.submit(elsewhere).await.unwrap();
    shard.resume(QUEUE);
    shard.submit(send(3)).await.unwrap();
    assert!(matches!(refused.await, Err(Error::TooLarge { .. })));
    assert!(matches!(behind.await, Err(Error::Full { .. })));
    let found = contents(&*shard, &[QUEUE, PartitionId(2)]).await.unwrap();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [other, head(3), body(3)]);
}

#[tokio::test]
async fn a_resumption_does_not_overtake_what_was_submitted_before_it() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { value_bytes_max: 1000, batch_bytes_max: 1500, ..options() };
    let (_store, shard) = open_with(&disk, options).unwrap();
    for round in 0..200 {
        let mut too_large = Batch::new();
        too_large.put(body(1), value(1, 1001));
        let refused = shard.submit(too_large);
        let behind = shard.submit(send(2));
        shard.resume(QUEUE);
        let after = shard.submit(send(3));
        assert!(refused.await.is_err());
        assert!(behind.await.is_err(), "round {round}");
        after.await.unwrap();
    }
}

#[tokio::test]
async fn acquiring_again_fences_the_earlier_lease_and_raises_the_epoch() {
    let disk = SimulatedDisk::new();
    let store = LocalStore::open_on(disk.mount(), DIRECTORY, options()).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let first = lease.shard();
    first.submit(send(1)).await.unwrap();
    let again = store.acquire(ShardId(0)).await.unwrap();
    let second = again.shard();
    assert!(matches!(lease.lost().await, Error::Fenced { .. }));
    assert_eq!(again.loss(), None);
    assert!(matches!(first.submit(send(2)).await, Err(Error::Fenced { .. })));
    assert!(matches!(first.read(vec![head(1)]).await, Err(Error::Fenced { .. })));
    assert_eq!(contents(&**second, &[QUEUE]).await.unwrap().len(), 2);
    assert_eq!(again.epoch().0, lease.epoch().0 + 1);
    assert!(store.acquire_now(ShardId(1)).is_err(), "one machine, one shard");
}

#[tokio::test]
async fn a_second_process_is_told_which_directory_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let _store = LocalStore::open(directory.path(), options()).unwrap();
    match LocalStore::open(directory.path(), options()) {
        Err(Error::Fenced { reason }) => {
            assert!(reason.contains(&directory.path().display().to_string()), "{reason}");
            assert!(reason.contains(&format!("process {}", std::process::id())), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_closed_store_says_so_and_frees_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path(), options()).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let shard = lease.shard();
    shard.submit(send(1)).await.unwrap();
    drop(store);
    assert!(matches!(lease.lost().await, Error::Stopped { .. }));
    assert!(matches!(shard.submit(send(2)).await, Err(Error::Stopped { .. })));
    assert!(matches!(shard.read(vec![head(1)]).await, Err(Error::Stopped { .. })));
    let store = LocalStore::open(directory.path(), options()).unwrap();
    let shard = acquire(&store).unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_empty_batch_and_a_removal_of_nothing_are_fine() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = open(&disk);
    shard.submit(Batch::new()).await.unwrap();
    shard.submit(complete(5)).await.unwrap();
    assert!(contents(&*shard, &[QUEUE]).await.unwrap().is_empty());
}

#[tokio::test]
async fn warm_values_go_once_every_partition_was_scanned() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=40 {
        shard.submit(send(number)).await.unwrap();
    }
    store.close();
    let (store, shard) = open(&disk);
    assert!(!store.current().shared().warm().is_empty());
    shard.scan(Space::Head, QUEUE, 0).await.unwrap();
    assert!(store.current().shared().warm().is_empty());
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for options in [
        LocalOptions { segment_bytes: 100, ..options() },
        LocalOptions { segment_bytes: u32::MAX, ..options() },
        LocalOptions { size_bytes_max: Some(40 << 10), ..options() },
        LocalOptions { value_bytes_max: 3, batch_bytes_max: 2, ..options() },
        LocalOptions { clean_bytes_per_second: 0, ..options() },
    ] {
        let opened = LocalStore::open_on(SimulatedDisk::new().mount(), DIRECTORY, options);
        assert!(matches!(opened, Err(Error::Unavailable { .. })));
    }
}

#[tokio::test]
async fn hints_remember_the_highest_number_of_every_partition_even_of_dead_puts() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    // Segment 1 keeps message 1; all others in it are dead when its hint is written or read again.
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    for number in 2..=60 {
        shard.submit(complete(number)).await.unwrap();
    }
    store.close();
    let ends = |store: &LocalStore| {
        let shard = store.current();
        let state = shard.shared().state();
        [Space::Head, Space::Body].map(|space| state.index.numbers_end(space, QUEUE))
    };
    // The second opening finds hints that were written after the messages had died.
    for _ in 0..2 {
        for path in disk.paths() {
            if path.extension().is_some_and(|kind| kind == "hint") {
                disk.remove_file(&path);
            }
        }
        let (store, _shard) = open(&disk);
        let scanned = ends(&store);
        assert!(scanned.iter().all(|end| *end > 2), "dead messages lie in the segments: {scanned:?}");
        store.close();
        let (store, _shard) = open(&disk);
        assert_eq!(ends(&store), scanned, "a number below may have an older version on disk");
        store.close();
    }
}
