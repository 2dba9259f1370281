//! A power cut at each call of a salvage, or an error at each call that changes something. Afterwards no value is lost
//! that was readable before, none of the old files is lost, and the directory never opens in the middle of the
//! exchange. The losses of a power cut are determined by `PEEKLOCK_STORAGE_SEED`. To a salvage, an error of the device
//! while reading the damaged store is damage; any other error ends it.

use std::path::{Path, PathBuf};

use super::*;
use crate::local::{Call, Event, Salvage};

/// `EIO`: the device's error.
const EIO: i32 = 5;
/// Missing permissions and descriptors, which prove nothing about stored bytes.
const OTHER_ERRORS: [i32; 2] = [13, 24];
/// The last calls of a salvage, which exchange the stores: several power cuts are tried at each of them.
const EXCHANGE_CALLS: u64 = 100;
const EXCHANGE_POWER_CUTS: u64 = 8;
/// Calls that change files or names.
const CHANGES: [Call; 9] = [
    Call::MakeDirectory,
    Call::OpenDirectory,
    Call::SyncDirectory,
    Call::Create,
    Call::Rename,
    Call::Remove,
    Call::Write,
    Call::Sync,
    Call::Allocate,
];
/// A message that a broker accepts between two attempts.
const ACCEPTED_BETWEEN: u64 = 1_000;

/// A closed store with several segments, of which either the manifest or a single body is damaged.
async fn damaged_store(is_manifest: bool) -> (SimulatedDisk, BTreeMap<Key, Bytes>) {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=40 {
        shard.submit(send(number)).await.unwrap();
        if number % 4 != 0 {
            shard.submit(complete(number)).await.unwrap();
        }
    }
    let mut live = contents(&*shard, &[QUEUE]).await.unwrap();
    store.close();
    if is_manifest {
        let path = Path::new("/data/MANIFEST");
        disk.rot(path, disk.bytes(path).len() as u64 - 1);
    } else {
        let lost = live.remove(&body(8)).unwrap();
        let (path, at) = place_of(&disk, &lost);
        disk.rot(&path, at);
    }
    (disk, live)
}

/// The location of a value's bytes.
fn place_of(disk: &SimulatedDisk, value: &Bytes) -> (PathBuf, u64) {
    let found = segments(disk).into_iter().find_map(|path| {
        let bytes = disk.bytes(&path);
        let at = bytes.windows(value.len()).position(|part| part == &value[..])?;
        Some((path, at as u64))
    });
    found.unwrap()
}

fn segments(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "segment"));
    paths
}

/// Does the work of the salvage command.
fn salvage(disk: &SimulatedDisk) -> Result<(), Error> {
    let salvage = Salvage::begin_on(disk.mount(), DIRECTORY)?;
    if salvage.report().damage.is_empty() {
        return Ok(());
    }
    let quarantine = salvage.quarantine()?;
    salvage.rewrite(&quarantine, |_| true, Vec::new(), options())
}

/// All readable values, without the damaged ones.
async fn readable(disk: &SimulatedDisk) -> Result<BTreeMap<Key, Bytes>, Error> {
    let (store, shard) = try_open(disk)?;
    let found = contents(&*shard, &[QUEUE]).await?;
    store.close();
    Ok(found)
}

/// Asserts that every segment of the damaged store still exists under its name, in any directory.
fn assert_kept(pristine: &SimulatedDisk, disk: &SimulatedDisk, what: &str) {
    let kept: Vec<(PathBuf, Vec<u8>)> =
        disk.paths().into_iter().map(|path| (path.clone(), disk.bytes(&path))).collect();
    for old in segments(pristine) {
        let (name, bytes) = (old.file_name(), pristine.bytes(&old));
        let is_kept = kept.iter().any(|(path, found)| path.file_name() == name && *found == bytes);
        assert!(is_kept, "{what}: {} is lost", old.display());
    }
}

fn assert_same(found: &BTreeMap<Key, Bytes>, live: &BTreeMap<Key, Bytes>, what: &str) {
    let lost: Vec<_> = live.keys().filter(|key| !found.contains_key(key)).collect();
    let extra: Vec<_> = found.keys().filter(|key| !live.contains_key(key)).collect();
    assert!(lost.is_empty() && extra.is_empty(), "{what}: {lost:?} are lost, {extra:?} too many");
    assert!(found == live, "{what}: other values");
}

/// A planned event.
#[derive(Debug, Clone, Copy)]
struct Plan {
    call: Option<Call>,
    pass: u64,
    event: Event,
}

/// Runs a salvage with a planned event, starts a broker in between if `starts`, and completes the salvage; returns
/// whether the event occurred.
async fn interrupt(pristine: &SimulatedDisk, live: &BTreeMap<Key, Bytes>, plan: Plan, starts: bool) -> bool {
    let what = format!("{plan:?}, starts in between: {starts}");
    let disk = copy(pristine);
    disk.plan(plan.call, DIRECTORY, plan.pass, plan.event);
    let first = salvage(&disk);
    let is_met = disk.faults_left() == 0;
    assert!(first.is_ok() || is_met, "{what}: {first:?}");
    disk.clear_faults();
    assert_kept(pristine, &disk, &what);
    let mut live = live.clone();
    if starts && let Ok((store, shard)) = try_open(&disk) {
        let found = contents(&*shard, &[QUEUE]).await.unwrap();
        assert_same(&found, &live, &format!("{what}: opened"));
        shard.submit(send(ACCEPTED_BETWEEN)).await.unwrap();
        live = contents(&*shard, &[QUEUE]).await.unwrap();
        store.close();
    }
    salvage(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    if !starts {
        assert_kept(pristine, &disk, &what);
    }
    let found = readable(&disk).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(&found, &live, &what);
    is_met
}

/// Number of calls of an undisturbed salvage.
fn calls(pristine: &SimulatedDisk) -> u64 {
    let disk = copy(pristine);
    let before = disk.calls();
    salvage(&disk).unwrap();
    disk.calls() - before
}

#[tokio::test]
async fn nothing_is_lost_whatever_interrupts_a_salvage() {
    let seed = seed();
    for is_manifest in [true, false] {
        let (pristine, live) = damaged_store(is_manifest).await;
        let calls = calls(&pristine);
        for pass in 0..calls {
            let cuts = if pass + EXCHANGE_CALLS >= calls { EXCHANGE_POWER_CUTS } else { 1 };
            for cut in 0..cuts {
                let event = Event::PowerCut(seed.wrapping_add(pass * EXCHANGE_POWER_CUTS + cut));
                let plan = Plan { call: None, pass, event };
                interrupt(&pristine, &live, plan, (pass + cut) % 2 == 0).await;
            }
        }
        for call in CHANGES {
            for event in [Event::Fail(EIO), Event::FailLate(EIO)] {
                let mut pass = 0;
                while interrupt(&pristine, &live, Plan { call: Some(call), pass, event }, pass % 2 == 0).await
                {
                    pass += 1;
                }
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_be_opened_or_read_at_present_is_not_left_out_of_a_salvaged_store() {
    for is_manifest in [true, false] {
        let (pristine, live) = damaged_store(is_manifest).await;
        for errno in OTHER_ERRORS {
            for pass in 0..calls(&pristine) {
                let plan = Plan { call: None, pass, event: Event::Fail(errno) };
                interrupt(&pristine, &live, plan, pass % 2 == 0).await;
            }
        }
    }
}

#[tokio::test]
async fn a_store_whose_exchange_is_to_be_carried_on_does_not_open() {
    let (disk, live) = damaged_store(false).await;
    disk.plan(Some(Call::Rename), "quarantine", 0, Event::Fail(EIO));
    assert!(salvage(&disk).is_err());
    let refused = try_open(&disk).map(|_| ());
    assert!(
        matches!(&refused, Err(Error::Corrupt { place, .. }) if place.unit.ends_with("/COMPLETE")),
        "{refused:?}"
    );
    salvage(&disk).unwrap();
    assert_same(&readable(&disk).await.unwrap(), &live, "salvaged");
}
