//! Damaged directories: all damage is reported, no wrong value is read, and salvage yields a store that opens.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::local::{Damage, DamageKind, Salvage, check_on};

const OTHER: PartitionId = PartitionId(2);

/// A history over two partitions with several segments, removals, overwritten values and cleaned copies; returns the
/// live entries.
async fn store_with_history(disk: &SimulatedDisk, is_closed: bool) -> BTreeMap<Key, Bytes> {
    let (store, shard) = open(disk);
    for number in 1..=70 {
        let mut batch = send(number);
        batch.put(Key::new(Space::Meta, QUEUE, 16), value(number, 12));
        batch.put(Key::new(Space::Head, OTHER, number), value(number, 24));
        shard.submit(batch).await.unwrap();
        if number % 3 != 0 {
            shard.submit(complete(number)).await.unwrap();
        }
        if number == 40 {
            while store.current().clean_now() {}
        }
    }
    let live = contents(&*shard, &[QUEUE, OTHER]).await.unwrap();
    if is_closed {
        store.close();
    } else {
        disk.kill();
    }
    live
}

fn is_right(key: Key, found: &[u8]) -> bool {
    match (key.space, key.partition) {
        // Overwritten repeatedly: any of its versions is valid.
        (Space::Meta, _) => (1..=70).any(|number| value(number, 12) == found),
        (Space::Head, OTHER) => value(key.number, 24) == found,
        (Space::Head, _) => value(key.number, 20) == found,
        (Space::Body, _) => value(key.number, 300) == found,
    }
}

#[derive(Debug, Clone)]
enum Harm {
    Flip { place: u32, bytes: u8 },
    Zero { place: u32, bytes: u16 },
    Cut { place: u32 },
    Lose,
}

fn harm() -> impl Strategy<Value = (u16, Harm)> {
    let harm = prop_oneof![
        6 => (any::<u32>(), 1..16u8).prop_map(|(place, bytes)| Harm::Flip { place, bytes }),
        2 => (any::<u32>(), 1..5000u16).prop_map(|(place, bytes)| Harm::Zero { place, bytes }),
        1 => any::<u32>().prop_map(|place| Harm::Cut { place }),
        1 => Just(Harm::Lose),
    ];
    (any::<u16>(), harm)
}

fn inflict(disk: &SimulatedDisk, file: u16, harm: &Harm) {
    let mut paths = disk.paths();
    paths.retain(|path| !path.ends_with("LOCK"));
    paths.sort();
    let path = paths.swap_remove(usize::from(file) % paths.len());
    let mut bytes = disk.bytes(&path);
    let len = bytes.len().max(1);
    let at = |place: u32| usize::try_from(place).unwrap() % len;
    match *harm {
        Harm::Flip { place, bytes: count } => {
            bytes.iter_mut().skip(at(place)).take(count.into()).for_each(|byte| *byte ^= 0x5a);
        }
        Harm::Zero { place, bytes: count } => {
            bytes.iter_mut().skip(at(place)).take(count.into()).for_each(|byte| *byte = 0);
        }
        Harm::Cut { place } => bytes.truncate(at(place)),
        Harm::Lose => return disk.remove_file(&path),
    }
    disk.set_bytes(&path, bytes);
}

/// Asserts that everything readable in an open store is correct; also returns the number of unreadable values.
async fn read_all(shard: &dyn Shard) -> (BTreeMap<Key, Bytes>, usize) {
    let (mut found, mut damaged) = (BTreeMap::new(), 0);
    for space in Space::ALL {
        for partition in [QUEUE, OTHER] {
            let mut from = Some(0);
            while let Some(number) = from {
                let page = shard.scan(space, partition, number).await.unwrap();
                damaged += page.damaged.len();
                from = page.next;
                for entry in page.entries {
                    let key = Key::new(space, partition, entry.number);
                    assert!(is_right(key, &entry.value), "{key:?} holds something else");
                    found.insert(key, entry.value);
                }
            }
        }
    }
    (found, damaged)
}

async fn salvaged(disk: &SimulatedDisk) -> BTreeMap<Key, Bytes> {
    let salvage = Salvage::begin_on(disk.mount(), DIRECTORY).unwrap();
    let quarantine = salvage.quarantine().unwrap();
    salvage.rewrite(&quarantine, |_| true, Vec::new(), options()).unwrap();
    assert!(disk.paths().iter().any(|path| path.starts_with(&quarantine)), "the old files are kept");
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    assert_eq!((report.damage, report.refusal), (Vec::new(), None));
    let (store, shard) = open(disk);
    let (found, damaged) = read_all(&*shard).await;
    assert_eq!(damaged, 0);
    shard.submit(send(1000)).await.unwrap();
    store.close();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn after_any_damage_nothing_wrong_is_read_and_salvage_leads_to_a_store_that_opens(
        harms in prop::collection::vec(harm(), 1..4),
        is_closed in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let disk = SimulatedDisk::new();
            let live = store_with_history(&disk, is_closed).await;
            for (file, harm) in &harms {
                inflict(&disk, *file, harm);
            }
            let report = check_on(disk.mount(), DIRECTORY);
            let Ok(report) = report else {
                // Without manifest and segments, the directory is not recognized as a store.
                assert!(matches!(report, Err(Error::Unavailable { .. })), "{report:?}");
                return;
            };
            match try_open(&disk) {
                Ok((store, shard)) => {
                    assert_eq!(report.refusal, None);
                    let (found, damaged) = read_all(&*shard).await;
                    let lost = live.keys().filter(|key| !found.contains_key(key)).count();
                    // Only a torn end may be lost without reported damage: it was never acknowledged, or it is the last
                    // frame of a log that was not closed.
                    assert!(lost == 0 || damaged > 0 || !report.damage.is_empty() || !is_closed, "{lost} lost");
                    store.close();
                }
                Err(Error::Corrupt { .. }) => {
                    assert!(report.refusal.is_some());
                    assert!(!report.damage.is_empty());
                    salvaged(&disk).await;
                }
                Err(other) => panic!("{other}"),
            }
        });
    }
}

fn names(damage: &[Damage]) -> Vec<(String, DamageKind)> {
    let name = |damage: &Damage| damage.file.file_name().unwrap().to_string_lossy().into_owned();
    damage.iter().map(|damage| (name(damage), damage.kind)).collect()
}

fn segments(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "segment"));
    paths.sort();
    paths
}

fn flip(disk: &SimulatedDisk, path: &Path, offset: usize) {
    let mut bytes = disk.bytes(path);
    bytes[offset] ^= 0x10;
    disk.set_bytes(path, bytes);
}

#[tokio::test]
async fn check_reports_all_damage_and_not_the_first() {
    let disk = SimulatedDisk::new();
    store_with_history(&disk, true).await;
    let files = segments(&disk);
    let (header, frame, missing) = (&files[0], &files[1], &files[2]);
    flip(&disk, header, 20);
    flip(&disk, frame, 64);
    disk.remove_file(missing);
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let found = names(&report.damage);
    for expected in [
        (name(header), DamageKind::Header),
        (name(frame), DamageKind::Frames),
        (name(missing), DamageKind::Missing),
    ] {
        assert_eq!(found.iter().filter(|one| **one == expected).count(), 1, "{expected:?} in {found:?}");
    }
    assert_eq!(found.len(), 3);
    assert!(report.refusal.is_some());
}

#[tokio::test]
async fn values_listed_in_hints_are_kept_without_their_segments() {
    let disk = SimulatedDisk::new();
    let live = store_with_history(&disk, true).await;
    disk.remove_file(&segments(&disk)[1]);
    let found = salvaged(&disk).await;
    for (key, value) in live.iter().filter(|(key, _)| key.space != Space::Body) {
        assert_eq!(found.get(key), Some(value), "{key:?} was in a hint");
    }
    assert!(found.len() < live.len(), "contents are gone with their file");
    assert!(found.keys().all(|key| live.contains_key(key)), "nothing comes back");
}

/// Every message that reappears after the loss of the segment that a killed broker wrote to last was reported as
/// possible before.
#[tokio::test]
async fn values_revived_by_a_lost_open_segment_are_in_doubt() {
    let pristine = SimulatedDisk::new();
    let (_store, shard) = open(&pristine);
    for number in 1..=40 {
        shard.submit(send(number)).await.unwrap();
    }
    for number in (1..=40).filter(|number| number % 3 != 0) {
        shard.submit(complete(number)).await.unwrap();
    }
    let live = contents(&*shard, &[QUEUE]).await.unwrap();
    pristine.kill();
    let mut has_come_back = false;
    for path in segments(&pristine).iter().rev().take(3) {
        for is_there in [false, true] {
            let disk = copy(&pristine);
            match is_there {
                false => disk.remove_file(path),
                true => disk.set_bytes(path, vec![7; disk.bytes(path).len()]),
            }
            let report = check_on(disk.mount(), DIRECTORY).unwrap();
            let found = salvaged(&disk).await;
            for key in found.keys().filter(|key| key.space == Space::Head && !live.contains_key(key)) {
                has_come_back = true;
                let is_told = report.may_return.iter().any(|doubt| {
                    doubt.partition == key.partition && (doubt.first..=doubt.last).contains(&key.number)
                });
                assert!(is_told, "{key:?} without {}", path.display());
            }
        }
    }
    assert!(has_come_back, "the open segments had removals");
}

#[tokio::test]
async fn a_lost_manifest_is_guessed_from_the_segments() {
    for is_closed in [true, false] {
        let disk = SimulatedDisk::new();
        let live = store_with_history(&disk, is_closed).await;
        disk.remove_file(Path::new("/data/MANIFEST"));
        let report = check_on(disk.mount(), DIRECTORY).unwrap();
        assert_eq!(names(&report.damage), [("MANIFEST".to_owned(), DamageKind::Manifest)]);
        assert!(!report.may_return.is_empty(), "the order of replay is a guess");
        let found = salvaged(&disk).await;
        assert!(live.keys().all(|key| found.contains_key(key)), "closed: {is_closed}");
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_manifest_costs_nothing_once_salvaged() {
    let disk = SimulatedDisk::new();
    let live = store_with_history(&disk, true).await;
    let len = disk.bytes(Path::new("/data/MANIFEST")).len();
    flip(&disk, Path::new("/data/MANIFEST"), len - 1);
    let report = check_on(disk.mount(), DIRECTORY).unwrap();
    assert!(report.may_return.is_empty(), "the report agrees with the segments");
    assert_eq!(salvaged(&disk).await, live);
}

#[tokio::test]
async fn an_interrupted_exchange_does_not_open_and_is_carried_on() {
    let pristine = SimulatedDisk::new();
    let live = store_with_history(&pristine, true).await;
    let old = segments(&pristine);
    disk_states(&pristine, &old, |disk| async move {
        assert!(matches!(try_open(&disk), Err(Error::Corrupt { .. })), "it must not open half exchanged");
        let salvage = Salvage::begin_on(disk.mount(), DIRECTORY).unwrap();
        assert_eq!(salvage.report().damage, Vec::new());
        drop(salvage);
        let (_store, shard) = open(&disk);
        read_all(&*shard).await.0
    })
    .await
    .into_iter()
    .for_each(|found| assert_eq!(found, live));
}

/// Runs `act` on states between the beginning of an exchange and its end.
async fn disk_states<T, F: Future<Output = T>>(
    pristine: &SimulatedDisk,
    old: &[PathBuf],
    act: impl Fn(SimulatedDisk) -> F,
) -> Vec<T> {
    let mut results = Vec::new();
    for moved in 1..=old.len() {
        let disk = SimulatedDisk::new();
        let mount = disk.mount();
        for path in pristine.paths() {
            mount.create(&path).unwrap();
            disk.set_bytes(&path, pristine.bytes(&path));
        }
        let salvage = Salvage::begin_on(disk.mount(), DIRECTORY).unwrap();
        let quarantine = salvage.quarantine().unwrap();
        salvage.rewrite(&quarantine, |_| true, Vec::new(), options()).unwrap();
        // Back to the state in which some of the old segments are in quarantine and all other steps are still to be
        // done.
        let new = Path::new("/data/salvage.new");
        let first_new = segments(&disk).into_iter().find(|path| path.parent() == Some(Path::new(DIRECTORY)));
        let id: u32 = first_new.unwrap().file_stem().unwrap().to_string_lossy().parse().unwrap();
        let all = disk.paths();
        for path in all.iter().filter(|path| path.parent() == Some(Path::new(DIRECTORY))) {
            if !path.ends_with("LOCK") {
                mount.rename(path, &new.join(path.file_name().unwrap())).unwrap();
            }
        }
        mount.create(&new.join("COMPLETE")).unwrap();
        disk.set_bytes(&new.join("COMPLETE"), format!("0001 {id}").into_bytes());
        let kept = Path::new("/data/quarantine/0001");
        for path in old.iter().skip(moved).map(PathBuf::as_path).chain([Path::new("/data/MANIFEST")]) {
            mount.rename(&kept.join(path.file_name().unwrap()), path).unwrap();
        }
        results.push(act(disk).await);
    }
    results
}
