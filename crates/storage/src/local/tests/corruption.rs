//! One test per kind of damage: cut off where a crash may have torn a write, refused everywhere else.

mod closed;

use std::path::{Path, PathBuf};

use super::*;
use crate::Place;
use crate::local::check_on;
use crate::local::format::FRAME_HEADER_BYTES;

fn paths(disk: &SimulatedDisk, kind: &str) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.extension().is_some_and(|found| found == kind)).collect()
}

fn flip(disk: &SimulatedDisk, path: &Path, offset: u64) {
    let mut bytes = disk.bytes(path);
    bytes[usize::try_from(offset).unwrap()] ^= 0x10;
    disk.set_bytes(path, bytes);
}

/// The file and offset in the error of opening.
fn refusal(disk: &SimulatedDisk) -> (String, u64) {
    match try_open(disk) {
        Err(Error::Corrupt { place: Place { unit, offset }, .. }) => {
            (Path::new(&unit).file_name().unwrap().to_string_lossy().into_owned(), offset)
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    }
}

/// A killed store whose active segment holds messages 1 to `count`, each in its own frame; returns the frames' offsets.
async fn killed_with(disk: &SimulatedDisk, count: u64) -> Vec<u64> {
    let (store, shard) = open_with(disk, LocalOptions { segment_bytes: 64 << 10, ..options() }).unwrap();
    let mut offsets = vec![64];
    for number in 1..=count {
        shard.submit(send(number)).await.unwrap();
        let frame = u64::from(FRAME_HEADER_BYTES) + 2 * 32 + 20 + 300;
        offsets.push(offsets.last().unwrap() + frame.next_multiple_of(8));
    }
    disk.kill();
    drop(store);
    offsets
}

/// A store with several sealed segments, closed.
async fn closed_with_segments(disk: &SimulatedDisk, count: u64) {
    let (store, shard) = open(disk);
    for number in 1..=count {
        shard.submit(send(number)).await.unwrap();
    }
    store.close();
}

async fn numbers(shard: &dyn Shard) -> Vec<u64> {
    shard.scan(Space::Body, QUEUE, 0).await.unwrap().entries.into_iter().map(|entry| entry.number).collect()
}

#[tokio::test]
async fn a_last_write_torn_at_any_byte_is_cut_off() {
    let pristine = SimulatedDisk::new();
    let offsets = killed_with(&pristine, 3).await;
    let path = PathBuf::from("/data/0000000001.segment");
    let bytes = pristine.bytes(&path);
    let (start, end) = (offsets[2], offsets[3] - 4);
    for cut in start..end {
        let disk = copy_without(&pristine, Path::new(""));
        let mut torn = bytes.clone();
        torn[usize::try_from(cut).unwrap()..].fill(0);
        disk.set_bytes(&path, torn);
        let (store, shard) = open(&disk);
        assert_eq!(numbers(&*shard).await, [1, 2], "cut at {cut}");
        shard.submit(send(9)).await.unwrap();
        store.close();
        assert_eq!(numbers(&*open(&disk).1).await, [1, 2, 9], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_flipped_byte_in_any_frame_but_the_last_costs_one_value_or_is_refused() {
    let pristine = SimulatedDisk::new();
    let offsets = killed_with(&pristine, 3).await;
    let path = PathBuf::from("/data/0000000001.segment");
    let files: Vec<_> =
        pristine.paths().into_iter().map(|path| (path.clone(), pristine.bytes(&path))).collect();
    let padding = 4;
    for frame in 0..2 {
        for offset in offsets[frame]..offsets[frame + 1] - padding {
            flip(&pristine, &path, offset);
            let places: Vec<u64> = check_on(pristine.mount(), DIRECTORY)
                .unwrap()
                .damage
                .iter()
                .map(|damage| damage.offset)
                .collect();
            assert_eq!(places.len(), 1, "byte {offset}");
            assert!(
                (offsets[frame]..=offset).contains(&places[0]),
                "byte {offset} was reported at {places:?}"
            );
            if let Ok((store, shard)) = try_open(&pristine) {
                let damaged = frame as u64 + 1;
                let mut unread = 0;
                for number in 1..=3 {
                    for key in [head(number), body(number)] {
                        let length = if key.space == Space::Head { 20 } else { 300 };
                        let right = Ok(vec![Some(value(number, length))]);
                        let read = shard.read(vec![key]).await;
                        // The key itself may be damaged: then the value is missing under its real key.
                        assert!(read == right || number == damaged, "byte {offset}: {key:?} {read:?}");
                        assert!(matches!(read, Err(Error::Corrupt { .. }) | Ok(_)), "byte {offset}");
                        assert!(read == right || read.is_err() || read == Ok(vec![None]), "byte {offset}");
                        unread += u32::from(read != right);
                    }
                }
                assert_eq!(unread, 1, "byte {offset}");
                pristine.kill();
                drop((store, shard));
            } else {
                let (file, found) = refusal(&pristine);
                assert_eq!(file, "0000000001.segment");
                assert!((offsets[frame]..=offset).contains(&found), "byte {offset} was reported at {found}");
            }
            for other in pristine.paths() {
                pristine.remove_file(&other);
            }
            restore(&pristine, &files);
        }
    }
    assert_eq!(numbers(&*open(&pristine).1).await, [1, 2, 3]);
}

/// Restores the files to their previous contents.
fn restore(disk: &SimulatedDisk, files: &[(PathBuf, Vec<u8>)]) {
    let mount = disk.mount();
    for (path, bytes) in files {
        mount.create(path).unwrap();
        disk.set_bytes(path, bytes.clone());
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_last_frame_costs_one_value_after_a_clean_close() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 2).await;
    let path = PathBuf::from("/data/0000000001.segment");
    flip(&disk, &path, 64 + 200);
    for hint in paths(&disk, "hint") {
        disk.remove_file(&hint);
    }
    let (store, shard) = open(&disk);
    let at = 64 + 40 + 32 + 20;
    let refused = shard.read(vec![body(1)]).await;
    assert!(matches!(&refused, Err(Error::Corrupt { place, .. }) if place.offset == at), "{refused:?}");
    assert_eq!(shard.read(vec![head(1), head(2), body(2)]).await.unwrap().len(), 3);
    // The log continues, and the damage is neither lost nor copied under a valid checksum.
    shard.submit(send(9)).await.unwrap();
    store.close();
    for _ in 0..2 {
        let (store, shard) = open(&disk);
        assert_eq!(shard.read(vec![body(9)]).await.unwrap(), [Some(value(9, 300))]);
        assert!(matches!(shard.read(vec![body(1)]).await, Err(Error::Corrupt { .. })));
        store.close();
    }
}

#[tokio::test]
async fn a_damaged_small_value_hides_no_others_in_a_scan() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 3).await;
    let path = PathBuf::from("/data/0000000001.segment");
    let frame = (40_u64 + 2 * 32 + 20 + 300).next_multiple_of(8);
    let at = 64 + frame + 40;
    flip(&disk, &path, at + 32 + 3);
    for hint in paths(&disk, "hint") {
        disk.remove_file(&hint);
    }
    for _ in 0..2 {
        let (store, shard) = open(&disk);
        let page = shard.scan(Space::Head, QUEUE, 0).await.unwrap();
        assert_eq!(page.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(page.damaged.len(), 1);
        let damaged = &page.damaged[0];
        assert_eq!((damaged.number, damaged.unverified.len()), (2, 20));
        assert!(matches!(&damaged.error, Error::Corrupt { place, .. } if place.offset == at), "{damaged:?}");
        store.close();
    }
}

#[tokio::test]
async fn a_flipped_byte_in_a_segment_header_is_refused() {
    for offset in [0, 9, 13, 20, 63] {
        let disk = SimulatedDisk::new();
        closed_with_segments(&disk, 60).await;
        let path = paths(&disk, "segment").swap_remove(1);
        flip(&disk, &path, offset);
        assert_eq!(refusal(&disk), (path.file_name().unwrap().to_string_lossy().into_owned(), 0));
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_manifest_is_refused() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    flip(&disk, Path::new("/data/MANIFEST"), 30);
    assert_eq!(refusal(&disk).0, "MANIFEST");
}

#[tokio::test]
async fn a_missing_manifest_beside_segments_is_refused() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    disk.remove_file(Path::new("/data/MANIFEST"));
    assert_eq!(refusal(&disk), ("MANIFEST".to_owned(), 0));
}

#[tokio::test]
async fn any_missing_segment_is_refused() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    let segments = paths(&disk, "segment");
    assert!(segments.len() >= 3);
    for path in segments {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(refusal(&copy_without(&disk, &path)), (name, 0));
    }
}

/// The same files on a new disk, except one.
fn copy_without(disk: &SimulatedDisk, left_out: &Path) -> SimulatedDisk {
    let copy = copy(disk);
    if copy.paths().iter().any(|path| path == left_out) {
        copy.remove_file(left_out);
    }
    copy
}

#[tokio::test]
async fn a_truncated_segment_is_refused() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    let path = paths(&disk, "segment").swap_remove(0);
    let mut bytes = disk.bytes(&path);
    bytes.truncate(4000);
    disk.set_bytes(&path, bytes);
    assert_eq!(refusal(&disk).1, 4000);
}

#[tokio::test]
async fn segments_that_changed_places_are_refused() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    let segments = paths(&disk, "segment");
    let (first, second) = (disk.bytes(&segments[0]), disk.bytes(&segments[1]));
    disk.set_bytes(&segments[0], second);
    disk.set_bytes(&segments[1], first);
    assert_eq!(refusal(&disk).1, 0);
}

#[tokio::test]
async fn a_missing_or_damaged_hint_is_rebuilt_from_its_segment() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    let hints = paths(&disk, "hint");
    assert!(hints.len() >= 2);
    disk.remove_file(&hints[0]);
    flip(&disk, &hints[1], 50);
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    assert_eq!(report.hints_missing, 2);
    let (store, shard) = open(&disk);
    assert_eq!(numbers(&*shard).await, (1..=60).collect::<Vec<_>>());
    store.close();
    assert_eq!(check_on(disk.mount(), DIRECTORY).unwrap().hints_missing, 0);
}

#[tokio::test]
async fn a_closed_segment_that_ends_before_its_seal_is_refused() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 2).await;
    paths(&disk, "hint").iter().for_each(|hint| disk.remove_file(hint));
    let path = PathBuf::from("/data/0000000001.segment");
    flip(&disk, &path, 64);
    assert_eq!(refusal(&disk), ("0000000001.segment".to_owned(), 64));
}

#[tokio::test]
async fn a_damaged_removal_in_a_sealed_segment_is_refused_when_its_hint_is_gone_too() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    shard.submit(complete(1)).await.unwrap();
    for number in 2..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    store.close();
    let path = paths(&disk, "segment").swap_remove(0);
    let removal = 64 + (40_u64 + 2 * 32 + 20 + 300).next_multiple_of(8) + 40;
    flip(&disk, &path, removal + 24);
    // The live records are in the hint.
    assert_eq!(check_on(disk.mount(), DIRECTORY).unwrap().refusal, None);
    disk.remove_file(&paths(&disk, "hint").swap_remove(0));
    assert_eq!(refusal(&disk), ("0000000001.segment".to_owned(), removal));
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    assert!(report.refusal.is_some());
    assert_eq!(report.damage[0].kind, crate::local::DamageKind::Removal);
    let [may_return] = report.may_return[..] else { panic!("{:?}", report.may_return) };
    assert_eq!((may_return.partition, may_return.count, may_return.first), (QUEUE, 1, 1));
}

#[tokio::test]
async fn a_flipped_byte_under_a_value_is_reported_by_read_and_check() {
    let disk = SimulatedDisk::new();
    closed_with_segments(&disk, 60).await;
    let path = paths(&disk, "segment").swap_remove(0);
    flip(&disk, &path, 64 + 40 + 32 + 20 + 32 + 150);
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    let damage: Vec<_> = report.damage.iter().map(|one| (&one.file, one.offset, one.kind, one.key)).collect();
    assert_eq!(damage, [(&path, 64 + 40 + 32 + 20, crate::local::DamageKind::Value, Some(body(1)))]);
    assert_eq!(report.refusal, None);
    // Sealed with an intact hint: opening does not read bodies, so the damage is found when that message is read.
    let (_store, shard) = open(&disk);
    match shard.read(vec![body(1)]).await {
        Err(Error::Corrupt { place, .. }) => {
            assert_eq!(place, Place { unit: path.display().to_string(), offset: 64 + 40 + 32 + 20 });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(shard.read(vec![body(2)]).await.unwrap(), [Some(value(2, 300))]);
}

#[tokio::test]
async fn bytes_of_a_recycled_segments_earlier_life_are_no_frames() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    // Segments are reused until one in use is full of frames of an earlier use.
    let is_stale = || {
        paths(&disk, "segment").into_iter().any(|path| {
            let bytes = disk.bytes(&path);
            let frames = (64..bytes.len() - 32).step_by(8).filter(|at| bytes[*at..at + 4] == *b"LFRM");
            frames.filter(|at| bytes[at + 24..at + 32] != bytes[16..24]).count() > 5
        })
    };
    let mut number = 0;
    while !is_stale() {
        assert!(number < 20_000, "no segment is ever filled again");
        for _ in 0..10 {
            number += 1;
            shard.submit(send(number)).await.unwrap();
            shard.submit(complete(number)).await.unwrap();
        }
    }
    shard.submit(send(number + 1)).await.unwrap();
    disk.kill();
    drop(store);
    let (_store, shard) = open(&disk);
    assert_eq!(numbers(&*shard).await, [number + 1]);
}

#[tokio::test]
async fn a_lost_first_frame_of_the_newest_segment_is_refused_if_later_ones_are_there() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    let newest: Vec<PathBuf> = {
        let current = store.current();
        let state = current.shared().state();
        state.segments.in_order().map(|segment| segment.file.path.clone()).collect()
    };
    disk.kill();
    drop(store);
    let salted = |path: &PathBuf| disk.bytes(path)[64..].iter().any(|byte| *byte != 0);
    let newest = newest.into_iter().rfind(salted).unwrap();
    flip(&disk, &newest, 64);
    refusal(&disk);
}

#[tokio::test]
async fn a_message_that_contains_a_copy_of_the_log_does_not_confuse_recovery() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, LocalOptions { segment_bytes: 64 << 10, ..options() }).unwrap();
    for number in 1..=5 {
        shard.submit(send(number)).await.unwrap();
    }
    let copy = Bytes::from(disk.bytes(Path::new("/data/0000000001.segment"))[..4096].to_vec());
    let mut batch = Batch::new();
    batch.put(body(6), copy.clone());
    shard.submit(batch).await.unwrap();
    let offset = store.current().shared().state().index.get(body(6)).unwrap().offset;
    disk.kill();
    drop(store);
    flip(&disk, Path::new("/data/0000000001.segment"), u64::from(offset) + 40);
    let (_store, shard) = open(&disk);
    assert_eq!(numbers(&*shard).await, [1, 2, 3, 4, 5], "the torn frame is removed, frames in it too");
}
