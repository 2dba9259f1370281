//! Failing writes and syncs, and crashes at critical points.

use super::*;
use crate::Store;
use crate::local::{Call, Event, Fault, check_on};

#[tokio::test]
async fn a_failed_sync_loses_the_lease_and_says_so() {
    let disk = SimulatedDisk::new();
    let store = LocalStore::open_on(disk.mount(), DIRECTORY, options()).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let shard = lease.shard();
    shard.submit(send(1)).await.unwrap();
    assert_eq!(lease.loss(), None);
    disk.inject(Fault::SyncError, "0000000001.segment");
    let commits: Vec<_> = (2..=8).map(|number| shard.submit(send(number))).collect();
    for commit in commits {
        assert!(matches!(commit.await, Err(Error::InDoubt { .. })));
    }
    assert!(matches!(lease.lost().await, Error::InDoubt { reason } if reason.contains("injected")));
    assert!(matches!(shard.submit(send(9)).await, Err(Error::InDoubt { .. })));
    assert!(matches!(shard.read(vec![body(1)]).await, Err(Error::InDoubt { .. })));
}

/// Writes to files without a name still succeed.
#[tokio::test]
async fn a_directory_that_is_removed_under_the_store_is_noticed() {
    let disk = SimulatedDisk::new();
    let store = LocalStore::open_on(disk.mount(), DIRECTORY, options()).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    lease.shard().submit(send(1)).await.unwrap();
    disk.paths().iter().for_each(|path| disk.remove_file(path));
    store.current().shared().keeper_wake.wake();
    assert!(matches!(lease.lost().await, Error::InDoubt { reason } if reason.contains("LOCK is missing")));
    assert!(lease.shard().submit(send(2)).await.is_err());
    store.close();
    assert_eq!(disk.paths(), Vec::<std::path::PathBuf>::new(), "nothing is written in its place");
}

/// As when a restored backup is moved to the place of the directory in use: its manifest is a good one.
#[tokio::test]
async fn a_directory_that_is_replaced_under_the_store_is_noticed() {
    let disk = SimulatedDisk::new();
    let store = LocalStore::open_on(disk.mount(), DIRECTORY, options()).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let lock = std::path::Path::new(DIRECTORY).join("LOCK");
    disk.remove_file(&lock);
    disk.mount().create(&lock).unwrap();
    store.current().shared().keeper_wake.wake();
    assert!(
        matches!(lease.lost().await, Error::InDoubt { reason } if reason.contains("replaced by another one"))
    );
    assert!(lease.shard().submit(send(2)).await.is_err());
}

#[tokio::test]
async fn a_manifest_that_is_removed_under_the_store_is_noticed() {
    let disk = SimulatedDisk::new();
    let store = LocalStore::open_on(disk.mount(), DIRECTORY, options()).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    disk.remove_file(&std::path::Path::new(DIRECTORY).join("MANIFEST"));
    store.current().shared().keeper_wake.wake();
    assert!(
        matches!(lease.lost().await, Error::InDoubt { reason } if reason.contains("MANIFEST is missing"))
    );
}

#[tokio::test]
async fn a_failed_or_short_write_kills_the_handle_and_applies_nothing() {
    for fault in [Fault::WriteError, Fault::ShortWrite] {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        shard.submit(send(1)).await.unwrap();
        disk.inject(fault, "0000000001.segment");
        assert!(matches!(shard.submit(send(2)).await, Err(Error::InDoubt { .. })), "{fault:?}");
        assert!(store.loss().is_some());
        drop(store);
        let (_store, shard) = open(&disk);
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn the_same_store_can_be_acquired_again_after_a_failed_sync() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    disk.inject(Fault::SyncError, "0000000001.segment");
    assert!(shard.submit(send(2)).await.is_err());
    let shard = acquire(&store).unwrap();
    // The write reached the disk's cache before the sync failed: in doubt, and durable in this case.
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 4);
    shard.submit(send(3)).await.unwrap();
}

#[tokio::test]
async fn writes_of_a_failed_sync_survive_a_power_cut_after_reopening() {
    for seed in 0..10 {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        shard.submit(send(1)).await.unwrap();
        disk.inject(Fault::SyncLost, "0000000001.segment");
        assert!(matches!(shard.submit(send(2)).await, Err(Error::InDoubt { .. })));
        drop(store);
        let (store, shard) = open(&disk);
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 4, "message 2 is read from the cache");
        shard.submit(send(3)).await.unwrap();
        disk.crash(seed);
        drop(store);
        let (_store, shard) = open(&disk);
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 6, "seed {seed}");
    }
}

#[tokio::test]
async fn a_frame_that_only_the_cache_held_is_gone_with_the_cache() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    disk.inject(Fault::SyncLost, "0000000001.segment");
    assert!(shard.submit(send(2)).await.is_err());
    drop(store);
    disk.drop_caches();
    let (store, shard) = open(&disk);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2);
    shard.submit(send(3)).await.unwrap();
    disk.crash(1);
    drop(store);
    assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_failed_sync_of_a_new_manifest_leaves_the_old_one_and_is_tried_again() {
    for fault in [Fault::SyncError, Fault::SyncLost] {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        disk.inject(fault, "MANIFEST");
        let mut number = 0;
        while disk.faults_left() > 0 {
            number += 1;
            assert!(number < 1000, "the manifest is written when segments fill");
            assert!(send_patiently(&*shard, number).await);
        }
        for later in number + 1..number + 100 {
            assert!(send_patiently(&*shard, later).await);
        }
        assert_eq!(store.loss(), None);
        disk.crash(number);
        drop(store);
        assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap().len() as u64, 2 * (number + 99));
    }
}

#[tokio::test]
async fn no_room_for_a_frame_refuses_bodies_and_keeps_removals_going() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=12 {
        shard.submit(send(number)).await.unwrap();
    }
    disk.inject(Fault::NoSpace, ".segment");
    let mut results = Vec::new();
    let mut number = 100;
    while disk.faults_left() > 0 {
        number += 1;
        results.push(shard.submit(send(number)).await);
        shard.resume(QUEUE);
    }
    assert!(
        results.iter().flatten().count() + 1 >= results.len(),
        "at most the one that met the fault is refused"
    );
    shard.submit(complete(1)).await.unwrap();
    eventually("room returned", || *shard.pressure().borrow() == crate::Pressure::Normal).await;
    shard.submit(send(50)).await.unwrap();
    let expected = contents(&*shard, &[QUEUE]).await.unwrap();
    disk.kill();
    drop(store);
    assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap(), expected);
}

#[tokio::test]
async fn a_crash_while_segments_roll_loses_nothing_acknowledged() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        for number in 1..=seed {
            shard.submit(send(number)).await.unwrap();
        }
        // The keeper may be at any point of preparing, sealing and writing hints.
        disk.crash(seed);
        drop(store);
        let (_store, shard) = open(&disk);
        let found = contents(&*shard, &[QUEUE]).await.unwrap();
        assert_eq!(found.len() as u64, 2 * seed, "seed {seed}");
    }
}

#[tokio::test]
async fn a_crash_during_the_very_first_start_leaves_a_usable_directory() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new();
        drop(open(&disk));
        disk.crash(seed);
        let (store, shard) = open(&disk);
        shard.submit(send(1)).await.unwrap();
        store.close();
        assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_torn_hint_after_a_crash_is_no_damage() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    disk.inject(Fault::ShortWrite, ".hint");
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    eventually("a hint was written", || disk.faults_left() == 0).await;
    disk.kill();
    drop(store);
    assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap().len(), 120);
}

#[tokio::test]
async fn check_reports_a_torn_tail_and_does_not_touch_it() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=3 {
        shard.submit(send(number)).await.unwrap();
    }
    disk.inject(Fault::ShortWrite, "0000000001.segment");
    assert!(shard.submit(send(4)).await.is_err());
    drop(store);
    let before = disk.bytes(std::path::Path::new("/data/0000000001.segment"));
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    assert_eq!((&report.damage[..], &report.refusal), (&[][..], &None));
    assert_eq!(report.torn_tail.map(|torn| torn.segment), Some(1));
    assert_eq!(report.keys.values().sum::<u64>(), 6);
    assert!(!report.is_closed);
    assert_eq!(disk.bytes(std::path::Path::new("/data/0000000001.segment")), before);
}

#[tokio::test]
async fn check_refuses_a_directory_in_use_and_one_that_is_none() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    assert!(matches!(check_on(disk.mount(), DIRECTORY), Err(Error::Fenced { .. })));
    store.close();
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    assert_eq!((&report.damage[..], &report.refusal), (&[][..], &None));
    assert!(report.is_closed);
    assert_eq!((report.epoch, report.keys[&Space::Head], report.keys[&Space::Meta]), (1, 1, 0));
    assert!(report.live_bytes > 300 && report.dead_bytes > 0);
    assert!(matches!(check_on(disk.mount(), "/elsewhere"), Err(Error::Unavailable { .. })));
}

#[tokio::test]
async fn a_read_error_at_opening_is_reported_and_is_not_taken_for_the_end_of_the_log() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    disk.kill();
    drop(store);
    for pass in 0..40 {
        disk.plan(Some(Call::Read), ".segment", pass, Event::Fail(5));
        if let Err(error) = try_open(&disk) {
            assert!(matches!(error, Error::System { .. }), "read {pass}: {error}");
        }
        disk.kill();
    }
    assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap().len(), 120);
}

#[tokio::test]
async fn a_spare_that_cannot_be_opened_does_not_refuse_the_opening() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let mut number = 0;
    while !disk.paths().iter().any(|path| path.extension().is_some_and(|kind| kind == "spare")) {
        number += 1;
        assert!(number < 20_000, "no segment becomes a spare");
        shard.submit(send(number)).await.unwrap();
        shard.submit(complete(number)).await.unwrap();
    }
    store.close();
    drop(store);
    for call in [Call::Open, Call::Length] {
        disk.plan(Some(call), ".spare", 0, Event::Fail(5));
        let (store, shard) = open(&disk);
        shard.submit(send(1_000_000)).await.unwrap();
        store.close();
    }
}

#[tokio::test]
async fn the_blank_over_a_refused_frame_is_durable() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    disk.inject(Fault::NoSpace, "0000000001.segment");
    let syncs = disk.syncs();
    assert!(matches!(shard.submit(send(2)).await, Err(Error::Full { .. })));
    assert!(disk.syncs() > syncs, "the blank is synced before the refusal is answered");
    drop(store);
}

#[tokio::test]
async fn the_directories_made_at_the_first_start_survive_a_power_cut() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new();
        if seed % 2 == 0 {
            // An earlier process created them and was killed.
            for directory in ["/srv", "/srv/peeklock", "/srv/peeklock/data"] {
                disk.mount().make_directory(std::path::Path::new(directory)).unwrap();
            }
        }
        let store = LocalStore::open_on(disk.mount(), "/srv/peeklock/data", options()).unwrap();
        acquire(&store).unwrap().submit(send(1)).await.unwrap();
        disk.crash(seed);
        drop(store);
        let store = LocalStore::open_on(disk.mount(), "/srv/peeklock/data", options()).unwrap();
        let shard = acquire(&store).unwrap();
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2, "seed {seed}");
    }
}

#[tokio::test]
async fn damage_of_the_last_message_is_noticed_once_the_log_was_idle() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    let path = std::path::Path::new("/data/0000000001.segment");
    let frames =
        |bytes: &[u8]| (64..bytes.len() - 4).step_by(8).filter(|at| bytes[*at..at + 4] == *b"LFRM").count();
    eventually("the last frame has a successor", || frames(&disk.bytes(path)) == 2).await;
    disk.kill();
    drop(store);
    let (store, shard) = open(&disk);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2, "an empty frame is no message");
    shard.submit(send(2)).await.unwrap();
    eventually("the next one as well", || frames(&disk.bytes(path)) == 4).await;
    disk.kill();
    drop(store);
    let mut bytes = disk.bytes(path);
    bytes[64 + 424 + 40 + 40 + 32 + 20 + 32 + 5] ^= 1;
    disk.set_bytes(path, bytes);
    match try_open(&disk) {
        Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        Ok((_store, shard)) => {
            assert!(shard.read(vec![body(2)]).await.is_err(), "the message was cut off silently");
        }
    }
}
