use super::*;
use crate::Store;

#[tokio::test]
async fn acknowledged_values_exist_after_a_clean_close() {
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
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected, "again, now without the startup cache");
}

#[tokio::test]
async fn one_sync_makes_everything_that_waits_durable() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, LocalOptions::default()).unwrap();
    shard.submit(send(1)).await.unwrap();
    // The keeper's syncs must not be counted: it has prepared the segment requested by the writer and finished that
    // round.
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
    // One for the frame being written when the disk was frozen, one for all batches that came meanwhile.
    assert!(disk.syncs() - before <= 2, "{} syncs", disk.syncs() - before);
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
async fn a_local_store_has_one_shard() {
    let disk = SimulatedDisk::new();
    let (store, _shard) = open(&disk);
    assert!(matches!(store.acquire_now(ShardId(1)), Err(Error::Unavailable { .. })));
}

#[tokio::test]
async fn a_second_process_gets_an_error_with_the_directory() {
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
async fn the_startup_cache_goes_once_every_partition_was_scanned() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=40 {
        shard.submit(send(number)).await.unwrap();
    }
    store.close();
    let (store, shard) = open(&disk);
    assert!(!store.current().shared().startup_cache().is_empty());
    shard.scan(Space::Head, QUEUE, 0).await.unwrap();
    assert!(store.current().shared().startup_cache().is_empty());
}

/// A scan finds all values, however few are kept in memory.
#[tokio::test]
async fn no_more_is_kept_than_there_is_room_for() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=40 {
        shard.submit(send(number)).await.unwrap();
    }
    let before = shard.scan(Space::Head, QUEUE, 0).await.unwrap();
    store.close();
    for (startup_cache_bytes_max, is_empty) in [(0, true), (1 << 20, false)] {
        let options = LocalOptions { startup_cache_bytes_max, ..options() };
        let store = LocalStore::open_on(disk.mount(), DIRECTORY, options).unwrap();
        let shard = acquire(&store).unwrap();
        assert_eq!(
            store.current().shared().startup_cache().is_empty(),
            is_empty,
            "{startup_cache_bytes_max}"
        );
        assert_eq!(shard.scan(Space::Head, QUEUE, 0).await.unwrap(), before);
        store.close();
    }
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
