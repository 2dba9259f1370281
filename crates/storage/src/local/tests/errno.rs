//! Errors of single calls around the manifest and the preparation of segments.

use super::*;
use crate::local::{Call, Event, check_on};

const EINTR: i32 = 4;
pub(super) const EIO: i32 = 5;
pub(super) const EACCES: i32 = 13;
const ENFILE: i32 = 23;
pub(super) const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
/// The server of a network file system does not know the file any more.
pub(super) const ESTALE: i32 = 116;
const EDQUOT: i32 = 122;
pub(super) const ERRNOS: [i32; 7] = [EINTR, EIO, EACCES, ENFILE, EMFILE, ENOSPC, EDQUOT];

/// Sends messages until the planned event occurred and some more segments were filled, or the handle is dead; returns
/// the number accepted.
async fn send_past_the_event(disk: &SimulatedDisk, shard: &dyn Shard) -> u64 {
    let mut after = 0;
    for number in 1.. {
        if !send_patiently(shard, number).await {
            return number - 1;
        }
        after += u64::from(disk.faults_left() == 0);
        if after == 60 {
            return number;
        }
        assert!(number < 3000, "the event is never met");
    }
    unreachable!()
}

async fn assert_holds(disk: &SimulatedDisk, accepted: u64, what: &str) {
    let (_store, shard) = try_open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = contents(&*shard, &[QUEUE]).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let missing = (1..=accepted).find(|number| !found.contains_key(&body(*number)));
    assert_eq!(missing, None, "{what}");
    assert!(found.len() as u64 <= 2 * accepted + 2, "{what}: only the last message may be in doubt");
    shard.submit(send(5000)).await.unwrap();
}

#[tokio::test]
async fn an_error_before_the_manifests_rename_took_place_changes_nothing() {
    let steps = [
        (Call::OpenDirectory, "/data"),
        (Call::Create, "MANIFEST.new"),
        (Call::Write, "MANIFEST.new"),
        (Call::Sync, "MANIFEST.new"),
        (Call::Rename, "MANIFEST"),
    ];
    for (call, name) in steps {
        for errno in ERRNOS {
            if call == Call::Rename && [EINTR, EIO].contains(&errno) {
                continue;
            }
            for pass in [0, 1, 3] {
                let what = format!("{call:?} {errno} after {pass}");
                let disk = SimulatedDisk::new();
                let (store, shard) = open(&disk);
                let event = if pass == 1 { Event::FailLate(errno) } else { Event::Fail(errno) };
                let event = if call == Call::Rename { Event::Fail(errno) } else { event };
                disk.plan(Some(call), name, pass, event);
                let accepted = send_past_the_event(&disk, &*shard).await;
                assert_eq!(store.loss(), None, "{what}");
                disk.crash(pass);
                drop(store);
                assert_holds(&disk, accepted, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_the_directorys_sync_loses_no_segment_that_a_manifest_lists() {
    for errno in ERRNOS {
        for pass in 0..8 {
            for event in [Event::Fail(errno), Event::FailLate(errno)] {
                let what = format!("{event:?} after {pass}");
                let disk = SimulatedDisk::new();
                let (store, shard) = open(&disk);
                disk.plan(Some(Call::SyncDirectory), "/data", pass, event);
                let accepted = send_past_the_event(&disk, &*shard).await;
                store.close();
                if pass % 2 == 0 {
                    disk.crash(pass);
                } else {
                    disk.kill();
                }
                drop(store);
                assert_holds(&disk, accepted, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_the_rename_itself_loses_no_segment_that_a_manifest_lists() {
    for errno in [EINTR, EIO] {
        for pass in 0..4 {
            for event in [Event::Fail(errno), Event::FailLate(errno)] {
                let disk = SimulatedDisk::new();
                let (store, shard) = open(&disk);
                disk.plan(Some(Call::Rename), "MANIFEST", pass, event);
                let accepted = send_past_the_event(&disk, &*shard).await;
                disk.crash(pass);
                drop(store);
                assert_holds(&disk, accepted, &format!("{event:?} after {pass}")).await;
            }
        }
    }
}

/// Segment files that no manifest lists.
fn unlisted(disk: &SimulatedDisk, store: &LocalStore) -> Vec<String> {
    let current = store.current();
    let listed = |path: &std::path::Path| {
        let manifest = current.shared().manifest.lock().unwrap();
        manifest.segments.iter().any(|listed| current.shared().directory.segment_path(listed.id) == path)
    };
    let is_segment = |path: &std::path::Path| path.extension().is_some_and(|kind| kind == "segment");
    let paths = disk.paths().into_iter().filter(|path| is_segment(path) && !listed(path));
    paths.map(|path| path.display().to_string()).collect()
}

#[tokio::test]
async fn a_segment_that_cannot_be_prepared_leaves_no_file_behind() {
    // In the order of a new segment's calls: the filling, then the header and the sync of both.
    let steps = [
        (Call::Create, 0),
        (Call::Allocate, 0),
        (Call::Open, 0),
        (Call::Write, 0),
        (Call::Write, 1),
        (Call::Sync, 0),
        (Call::SyncDirectory, 0),
    ];
    for (call, pass) in steps {
        for event in [Event::Fail(EIO), Event::FailLate(ENOSPC)] {
            let disk = SimulatedDisk::new();
            let (store, shard) = open(&disk);
            for id in 2..=4 {
                let name = if call == Call::SyncDirectory {
                    "/data".to_owned()
                } else {
                    format!("{id:010}.segment")
                };
                disk.plan(Some(call), &name, if call == Call::SyncDirectory { id - 2 } else { pass }, event);
            }
            let mut number = 0;
            while disk.faults_left() > 0 {
                number += 1;
                assert!(number < 3000, "{call:?}: the events are never met");
                assert!(send_patiently(&*shard, number).await);
                // Otherwise the next segment would be needed at once, and not be filled.
                let current = store.current();
                let is_supplied = || {
                    let exchange = current.shared().pool.lock();
                    exchange.prepared.len() >= exchange.prepared_target
                };
                eventually("segments are prepared", is_supplied).await;
            }
            assert!(send_patiently(&*shard, number + 1).await);
            // One may be in preparation.
            let left = unlisted(&disk, &store);
            assert!(left.len() <= 1, "{call:?} {event:?}: {left:?}");
        }
    }
}

#[tokio::test]
async fn a_copy_that_cannot_be_made_durable_is_given_up_and_its_originals_stay() {
    for call in [Call::Create, Call::Write, Call::Sync] {
        for errno in ERRNOS {
            for event in [Event::Fail(errno), Event::FailLate(errno)] {
                let what = format!("{call:?}: {event:?}");
                let disk = SimulatedDisk::new();
                let (store, shard) = open(&disk);
                for number in 1..=60 {
                    shard.submit(send(number)).await.unwrap();
                }
                for number in (1..=60).filter(|number| number % 4 != 0) {
                    shard.submit(complete(number)).await.unwrap();
                }
                let expected = contents(&*shard, &[QUEUE]).await.unwrap();
                let is_sealed = || store.current().shared().pool.lock().unsealed.is_empty();
                eventually("full segments are sealed", is_sealed).await;
                // The next file is the copy, or a segment that the keeper prepares meanwhile.
                let id = store.current().shared().manifest.lock().unwrap().next_id;
                disk.plan(Some(call), &format!("{id:010}.segment"), 0, event);
                while store.current().clean_now() {}
                assert_eq!(store.loss(), None, "{what}");
                assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected, "{what}");
                disk.crash(1);
                drop(store);
                assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap(), expected, "{what}");
            }
        }
    }
}

/// Errors of the device do not prove that the bytes are lost; lost blocks and failed checksums of the file system do.
#[tokio::test]
async fn read_errors_of_the_device_are_no_proof_of_damage() {
    const EREMOTEIO: i32 = 121;
    const ENODATA: i32 = 61;
    const EUCLEAN: i32 = 117;
    for (errno, is_transient) in [(EIO, true), (EREMOTEIO, true), (ENODATA, false), (EUCLEAN, false)] {
        let disk = SimulatedDisk::new();
        let (_store, shard) = open(&disk);
        for number in 1..=3 {
            shard.submit(send(number)).await.unwrap();
        }
        let fail = || disk.plan(Some(Call::Read), ".segment", 0, Event::Fail(errno));
        fail();
        let read = shard.read(vec![body(2)]).await;
        match is_transient {
            true => assert!(matches!(read, Err(Error::Unreadable { .. })), "{errno}: {read:?}"),
            false => assert!(matches!(read, Err(Error::Corrupt { .. })), "{errno}: {read:?}"),
        }
        // One attempt for all together, then one for each.
        (0..4).for_each(|_| fail());
        let page = shard.scan(Space::Body, QUEUE, 0).await.unwrap();
        assert_eq!((page.entries.len(), page.damaged.len()), (0, 3), "{errno}");
        let all_may_pass = page.damaged.iter().all(|one| matches!(one.error, Error::Unreadable { .. }));
        assert_eq!(all_may_pass, is_transient, "{errno}");
        assert_eq!(shard.read(vec![body(2)]).await, Ok(vec![Some(value(2, 300))]), "{errno}");
    }
}

/// The directory may have been made by another program, which did not sync its name.
#[tokio::test]
async fn a_first_start_fails_if_the_name_of_the_directory_can_not_be_made_durable() {
    let parent = |call| (Some(call), "/");
    for ((call, name), event, is_refused) in [
        (parent(Call::OpenDirectory), Event::Fail(EMFILE), true),
        (parent(Call::OpenDirectory), Event::Fail(EACCES), false),
        (parent(Call::SyncDirectory), Event::FailLate(EIO), true),
        (parent(Call::SyncDirectory), Event::Fail(ENOSPC), true),
    ] {
        let disk = SimulatedDisk::new();
        disk.mount().make_directory(Path::new(DIRECTORY)).unwrap();
        disk.plan(call, name, 0, event);
        let opened = try_open(&disk);
        assert_eq!(disk.faults_left(), 0);
        assert_eq!(opened.is_err(), is_refused, "{call:?} {event:?}");
        drop(opened);
        let (store, shard) = open(&disk);
        if is_refused {
            shard.submit(send(1)).await.unwrap();
            disk.crash(1);
            drop((store, shard));
            let (_store, shard) = open(&disk);
            assert!(contents(&*shard, &[QUEUE]).await.unwrap().contains_key(&body(1)), "{call:?} {event:?}");
        }
    }
}

/// As a file system on a network does that repeats a call whose answer was lost.
#[tokio::test]
async fn a_manifest_that_was_renamed_although_an_error_was_reported_costs_no_segment() {
    const ENOENT: i32 = 2;
    for errno in ERRNOS.into_iter().chain([ENOENT]) {
        for pass in [0, 1, 3] {
            let what = format!("{errno} after {pass}");
            let disk = SimulatedDisk::new();
            let (store, shard) = open(&disk);
            disk.plan(Some(Call::Rename), "MANIFEST", pass, Event::FailLate(errno));
            let accepted = send_past_the_event(&disk, &*shard).await;
            disk.crash(pass);
            drop(store);
            assert_holds(&disk, accepted, &what).await;
        }
    }
}

/// Leaves no free byte, and nothing that the store could remove.
fn fill(disk: &SimulatedDisk) {
    let is_optional = |path: &&std::path::PathBuf| {
        path.ends_with("RESERVE") || path.extension().is_some_and(|kind| kind == "hint" || kind == "spare")
    };
    disk.paths().iter().filter(is_optional).for_each(|path| disk.remove_file(path));
    disk.set_size_bytes_max(Some(disk.size_bytes()));
}

/// A closed store with messages 1 to 5 whose next start can't make its manifest durable. The manifest can be read, and
/// a power cut would bring back the one before, which says where the log ends.
async fn closed_then_in_doubt() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=5 {
        shard.submit(send(number)).await.unwrap();
    }
    drop((store, shard));
    disk.plan(Some(Call::SyncDirectory), "/data", 0, Event::FailLate(EIO));
    assert!(try_open(&disk).is_err());
    assert_eq!(disk.faults_left(), 0);
    fill(&disk);
    disk
}

#[tokio::test]
async fn a_manifest_in_doubt_is_made_durable_on_a_full_disk_before_anything_is_accepted() {
    let disk = closed_then_in_doubt().await;
    let (store, shard) = open(&disk);
    shard.submit(complete(1)).await.unwrap();
    disk.crash(1);
    drop((store, shard));
    disk.set_size_bytes_max(None);

    let (_store, shard) = open(&disk);

    let found = contents(&*shard, &[QUEUE]).await.unwrap();
    assert_eq!((found.contains_key(&body(1)), found.len()), (false, 8));
}

#[tokio::test]
async fn the_manifest_in_doubt_is_never_missing_whatever_call_fails_while_its_name_is_renewed() {
    for event in [Event::Fail(EIO), Event::FailLate(EIO), Event::PowerCut(1), Event::PowerCut(4)] {
        for pass in 0.. {
            let what = format!("{event:?} at call {pass}");
            let disk = closed_then_in_doubt().await;
            disk.plan(None, "", pass, event);
            if let Ok((store, shard)) = try_open(&disk) {
                // The call may be one of the store's threads.
                let is_accepted = shard.submit(complete(1)).await.is_ok();
                let is_over = disk.faults_left() > 0;
                disk.crash(pass);
                drop((store, shard));
                disk.set_size_bytes_max(None);
                let (_store, shard) = open(&disk);
                let found = contents(&*shard, &[QUEUE]).await.unwrap();
                assert!(!is_accepted || found.len() == 8, "{what}: {} values", found.len());
                if is_over {
                    assert!(pass > 20, "{what}");
                    break;
                }
                continue;
            }
            check_on(disk.mount(), DIRECTORY).unwrap_or_else(|error| panic!("{what}: {error}"));
            disk.crash(pass);
            disk.set_size_bytes_max(None);
            let (_store, shard) = try_open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 10, "{what}");
        }
    }
}
