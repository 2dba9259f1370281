//! Lack of room and recovery from it.

use super::*;
use crate::Pressure;
use crate::local::stepped::SteppedStore;

fn bounded() -> LocalOptions {
    LocalOptions { size_bytes_max: Some(8 * (8 << 10)), ..options() }
}

fn segment_bytes(disk: &SimulatedDisk) -> u64 {
    let is_counted =
        |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind != "hint" && kind != "new");
    disk.paths().iter().filter(|path| is_counted(path)).map(|path| disk.bytes(path).len() as u64).sum()
}

/// Number of messages that always fit into a bounded store, whatever state its background threads are in.
const FITTING: u64 = 31;

/// Sends until refused; returns the accepted numbers. A store from which everything was removed may still be freeing
/// room.
async fn fill(shard: &dyn Shard) -> u64 {
    for number in 1..=FITTING {
        assert!(send_patiently(shard, number).await);
    }
    for number in FITTING + 1..10_000 {
        match shard.submit(send(number)).await {
            Ok(()) => {}
            Err(Error::Full { .. }) => {
                shard.resume(QUEUE);
                return number - 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("never full");
}

#[tokio::test]
async fn a_full_store_refuses_messages_takes_removals_and_recovers() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, bounded()).unwrap();
    let mut pressure = shard.pressure();
    for round in 0..3 {
        let accepted = fill(&*shard).await;
        assert!(segment_bytes(&disk) <= 8 * (8 << 10), "round {round}: {} bytes", disk.size_bytes());
        // Garbage of an earlier round may free room before the check; the first round leaves none.
        if round == 0 {
            pressure.wait_for(|pressure| *pressure == Pressure::Full).await.unwrap();
        }
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len() as u64, 2 * accepted, "nothing is lost");
        for number in 1..=accepted {
            complete_patiently(&*shard, number, "a full store").await;
        }
        pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    }
    assert!(send_patiently(&*shard, 1).await);
    store.close();
    let (_store, shard) = open_with(&disk, bounded()).unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_full_store_that_is_mostly_garbage_cleans_itself() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = open_with(&disk, bounded()).unwrap();
    let accepted = fill(&*shard).await;
    for number in (1..=accepted).filter(|number| number % 4 != 0) {
        complete_patiently(&*shard, number, "a store of garbage").await;
    }
    let mut pressure = shard.pressure();
    pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    assert!(send_patiently(&*shard, 20_000).await);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len() as u64, 2 * (accepted / 4 + 1));
}

#[tokio::test]
async fn a_disk_filled_by_others_is_noticed_and_so_is_its_recovery() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 16 << 10, ..options() };
    let (store, shard) = open_with(&disk, options).unwrap();
    shard.submit(send(1)).await.unwrap();
    let mut pressure = shard.pressure();
    disk.set_size_bytes_max(Some(disk.size_bytes() + (10 << 10)));
    store.current().shared().keeper_wake.wake();
    pressure.wait_for(|pressure| *pressure == Pressure::Full).await.unwrap();
    assert!(matches!(shard.submit(send(2)).await, Err(Error::Full { .. })));
    shard.resume(QUEUE);
    let mut small = Batch::new();
    small.put(Key::new(Space::Meta, QUEUE, 1), value(1, 10));
    shard.submit(small).await.unwrap();
    shard.submit(complete(1)).await.unwrap();
    disk.set_size_bytes_max(None);
    pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.unwrap();
    shard.submit(send(3)).await.unwrap();
}

#[tokio::test]
async fn a_disk_without_any_room_refuses_and_loses_nothing() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 0, ..options() };
    let (store, shard) = open_with(&disk, options.clone()).unwrap();
    shard.submit(send(1)).await.unwrap();
    // The size of the disk is set when no file is being written.
    eventually("room is reserved", || is_reserved(&disk)).await;
    disk.set_size_bytes_max(Some(disk.size_bytes() + (9 << 10)));
    let mut accepted = 1;
    for number in 2..1000 {
        match shard.submit(send(number)).await {
            Ok(()) => accepted += 1,
            Err(Error::Full { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(accepted < 900);
    shard.resume(QUEUE);
    complete_patiently(&*shard, 1, "a full disk").await;
    let found = contents(&*shard, &[QUEUE]).await.unwrap();
    assert_eq!(found.len(), 2 * (accepted - 1));
    store.close();
    disk.set_size_bytes_max(None);
    let (_store, shard) = open_with(&disk, options).unwrap();
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), found);
}

#[tokio::test]
async fn growth_leaves_room_for_removals_when_no_other_segment_can_be_prepared() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 0, ..options() };
    let store = SteppedStore::open(disk.mount(), DIRECTORY, options).unwrap();
    fill_disk(&disk);
    let mut accepted = 0;
    loop {
        let sent = store.submit(send(accepted + 1));
        while store.write(1) > 0 {}
        match sent.await {
            Ok(()) => accepted += 1,
            Err(Error::Full { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    store.resume(QUEUE);
    assert!(accepted > 10);
    for number in 1..=5 {
        let completed = store.submit(complete(number));
        while store.write(1) > 0 {}
        completed.await.unwrap();
    }
    assert_eq!(contents(&store, &[QUEUE]).await.unwrap().len() as u64, 2 * (accepted - 5));
}

/// Opens the store without its threads, so that only the state before the first append is seen.
fn opened_with(disk: &SimulatedDisk, options: LocalOptions) -> (SteppedStore, Pressure) {
    let store = SteppedStore::open(disk.mount(), DIRECTORY, options).unwrap();
    let pressure = *store.pressure().borrow();
    (store, pressure)
}

#[tokio::test]
async fn a_store_knows_whether_there_is_room_before_it_takes_a_batch() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 16 << 10, ..options() };
    let (store, pressure) = opened_with(&disk, options.clone());
    assert_eq!(pressure, Pressure::Normal);
    drop(store);
    disk.set_size_bytes_max(Some(disk.size_bytes() + (15 << 10)));
    let (store, pressure) = opened_with(&disk, options.clone());
    assert_eq!(pressure, Pressure::Full, "less than the reserve is free");
    let refused = store.submit(send(1));
    while store.write(1) > 0 {}
    assert!(matches!(refused.await, Err(Error::Full { .. })));
    drop(store);
    disk.set_size_bytes_max(None);
    assert_eq!(opened_with(&disk, options).1, Pressure::Normal);
}

/// A message in another partition.
fn send_elsewhere(number: u64, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Body, PartitionId(2), number), value(number, bytes));
    batch
}

/// Together in one frame, and one after the other; what builds on the large one is refused with it.
#[tokio::test]
async fn a_batch_larger_than_a_segment_that_has_no_room_is_refused_alone() {
    for batches_max in [usize::MAX, 1] {
        let disk = SimulatedDisk::new();
        let store = SteppedStore::open(disk.mount(), DIRECTORY, bounded()).unwrap();
        let answers = [
            store.submit(send(1)),
            store.submit(send_elsewhere(1, 60 << 10)),
            store.submit(send_elsewhere(2, 100)),
            store.submit(send(2)),
        ];
        while store.write(batches_max) > 0 {}
        let [before, large, behind, after] = answers;
        before.await.unwrap();
        assert!(matches!(large.await, Err(Error::Full { .. })));
        assert!(matches!(behind.await, Err(Error::Full { .. })));
        after.await.unwrap();
        assert_eq!(*store.pressure().borrow(), Pressure::Normal);
        store.resume(PartitionId(2));
        for number in 3..=FITTING {
            let sent = store.submit(send(number));
            while store.write(1) > 0 {}
            sent.await.unwrap();
        }
        assert_eq!(contents(&store, &[QUEUE]).await.unwrap().len() as u64, 2 * FITTING);
    }
}

/// Whether there is room for one more manifest.
fn is_reserved(disk: &SimulatedDisk) -> bool {
    disk.paths().iter().any(|path| path.ends_with("RESERVE") && !disk.bytes(path).is_empty())
}

/// Completes a message; retries when there was no room for removals in time, since the threads that free room may wait
/// long for a processor.
async fn complete_patiently(shard: &dyn Shard, number: u64, what: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while let Err(error) = shard.submit(complete(number)).await {
        assert!(matches!(error, Error::Full { .. }), "{what}: {error}");
        assert!(std::time::Instant::now() < deadline, "{what}: message {number} is never completed");
        shard.resume(QUEUE);
    }
}

/// Leaves no free byte on the disk.
fn fill_disk(disk: &SimulatedDisk) {
    disk.set_size_bytes_max(Some(disk.size_bytes()));
}

#[tokio::test]
async fn a_store_starts_on_a_disk_without_a_free_byte_gives_and_settles() {
    for (is_closed, is_reserve_lost) in [(true, false), (false, false), (false, true)] {
        let what = format!("closed {is_closed}, reserve lost {is_reserve_lost}");
        let disk = SimulatedDisk::new();
        let options = LocalOptions { reserve_bytes: 1, ..options() };
        let (mut store, mut shard) = open_with(&disk, options.clone()).unwrap();
        for number in 1..=60 {
            shard.submit(send(number)).await.unwrap();
        }
        eventually("room is reserved", || is_reserved(&disk)).await;
        for round in 0..4 {
            if is_closed {
                store.close();
            } else {
                disk.kill();
            }
            drop(store);
            if is_reserve_lost {
                disk.remove_file(std::path::Path::new("/data/RESERVE"));
            }
            fill_disk(&disk);
            (store, shard) =
                open_with(&disk, options.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
            let left = 60 - 10 * round;
            assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2 * left, "{what}, round {round}");
            for number in 1..=10 {
                let number = 10 * round as u64 + number;
                complete_patiently(&*shard, number, &what).await;
            }
        }
        let mut refused = false;
        for number in 100..200 {
            refused |= shard.submit(send(number)).await.is_err();
        }
        assert!(refused, "{what}");
        shard.resume(QUEUE);
        disk.set_size_bytes_max(None);
        assert!(send_patiently(&*shard, 300).await);
        store.close();
        let (_store, shard) = open_with(&disk, options).unwrap();
        assert_eq!(shard.read(vec![body(300), body(41), body(1)]).await.unwrap().iter().flatten().count(), 2);
    }
}

#[tokio::test]
async fn dead_segments_are_freed_on_a_full_disk() {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { reserve_bytes: 1, ..options() };
    let (_store, shard) = open_with(&disk, options).unwrap();
    for number in 1..=100 {
        assert!(send_patiently(&*shard, number).await);
    }
    eventually("room is reserved", || is_reserved(&disk)).await;
    fill_disk(&disk);
    for number in 1..=100 {
        complete_patiently(&*shard, number, "a full disk").await;
    }
    // Only the segments of the completed messages, which are reused, provide room.
    for number in 101..=150 {
        assert!(send_patiently(&*shard, number).await);
    }
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 100);
}
