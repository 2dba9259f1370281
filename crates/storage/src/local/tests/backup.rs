//! Backups of open and of closed stores, and their restoration.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::local::{
    BackupOptions, BackupPlan, BackupProgress, BackupReport, BackupWatch, PinnedPlan, check_backup_on,
    restore_on, write_backup_on,
};

mod failing;

const BACKUP: &str = "/backup";
const RESTORED: &str = "/restored";
/// Number of waiting messages at any time in the history of [`step`].
const WINDOW: u64 = 40;

/// Continues, or aborts the backup at a step or at its confirmation.
#[derive(Default)]
struct Watch {
    steps_left: Option<usize>,
    is_refusing: bool,
}

impl BackupWatch for Watch {
    fn progress(&mut self, _: BackupProgress) -> Result<(), Error> {
        match &mut self.steps_left {
            Some(0) => Err(stopped()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn confirm(&mut self) -> Result<(), Error> {
        if self.is_refusing { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> Error {
    Error::Unavailable { reason: "stopped by the test".to_owned() }
}

fn write(disk: &SimulatedDisk, plan: &BackupPlan, target: &str) -> Result<BackupReport, Error> {
    write_with(disk, plan, target, &BackupOptions::default(), &mut Watch::default())
}

fn write_with(
    disk: &SimulatedDisk,
    plan: &BackupPlan,
    target: &str,
    options: &BackupOptions,
    watch: &mut Watch,
) -> Result<BackupReport, Error> {
    write_backup_on(disk.mount(), Path::new(DIRECTORY), Path::new(target), plan, options, watch)
}

fn check(disk: &SimulatedDisk, backup: &str) -> Result<(), Error> {
    check_backup_on(disk.mount(), backup, &mut |_| {}).map(|_| ())
}

/// Restores and opens a backup; returns the numbers of its heads.
async fn restored(disk: &SimulatedDisk, backup: &str, target: &str) -> Vec<u64> {
    let mut visited = 0;
    restore_on(disk.mount(), backup, target, &mut |key| visited += usize::from(key.space == Space::Head))
        .unwrap();
    let store = LocalStore::open_on(disk.mount(), target, options()).unwrap();
    let shard = acquire(&store).unwrap();
    let found = contents(&*shard, &[QUEUE]).await.unwrap();
    let heads: Vec<u64> = found.keys().filter(|key| key.space == Space::Head).map(|key| key.number).collect();
    for number in &heads {
        assert_eq!(found[&head(*number)], value(*number, 20));
        assert_eq!(found[&body(*number)], value(*number, 300), "a message without its content");
    }
    assert_eq!((found.len(), visited), (2 * heads.len(), heads.len()));
    heads
}

/// One commit: message `number` arrives, the one `WINDOW` before it is removed; every tenth stays.
fn step(number: u64) -> Batch {
    let mut batch = send(number);
    if let Some(done) = number.checked_sub(WINDOW).filter(|done| *done > 0 && done % 10 != 0) {
        batch.delete(head(done));
        batch.delete(body(done));
    }
    batch
}

/// The waiting messages after commit `last` of that history.
fn waiting_after(last: u64) -> Vec<u64> {
    (1..=last).filter(|number| number % 10 == 0 || number + WINDOW > last).collect()
}

fn files(disk: &SimulatedDisk, directory: &str) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.starts_with(directory)).collect()
}

#[tokio::test]
async fn a_backup_holds_all_that_was_acknowledged_and_nothing_later() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=200 {
        shard.submit(step(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    for number in 201..=400 {
        shard.submit(step(number)).await.unwrap();
    }
    let report = write(&disk, pinned.plan(), BACKUP).unwrap();
    assert!(report.segments_linked > 0 && report.bytes_copied > 0, "{report:?}");
    check(&disk, BACKUP).unwrap();
    assert_eq!(restored(&disk, BACKUP, RESTORED).await, waiting_after(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_under_load_and_cleaning_each_hold_the_state_of_one_commit() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let (done, over) = (Arc::clone(&acknowledged), Arc::clone(&is_over));
    let load = tokio::spawn(async move {
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            number += 1;
            shard.submit(step(number)).await.unwrap();
            done.store(number, Ordering::SeqCst);
        }
    });
    for round in 0..12 {
        let (backup, target) = (format!("/backup-{round}"), format!("/restored-{round}"));
        eventually("some more messages", || acknowledged.load(Ordering::SeqCst) > 150 * (round + 1)).await;
        let before = acknowledged.load(Ordering::SeqCst);
        let pinned = store.pin().unwrap();
        let after = acknowledged.load(Ordering::SeqCst) + 1;
        write(&disk, pinned.plan(), &backup).unwrap();
        drop(pinned);
        let heads = restored(&disk, &backup, &target).await;
        let last = *heads.last().unwrap();
        assert!((before..=after).contains(&last), "round {round}: {last} is not in {before}..={after}");
        assert_eq!(heads, waiting_after(last), "round {round}");
    }
    is_over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    for round in 0..12 {
        check(&disk, &format!("/backup-{round}")).unwrap();
    }
}

#[tokio::test]
async fn files_that_a_backup_shares_are_never_filled_again() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=200 {
        shard.submit(send(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    let report = write(&disk, pinned.plan(), BACKUP).unwrap();
    assert!(report.segments_linked >= 5, "{report:?}");
    drop(pinned);
    for number in 1..=200 {
        shard.submit(complete(number)).await.unwrap();
    }
    for number in 201..=600 {
        shard.submit(send(number)).await.unwrap();
        shard.submit(complete(number)).await.unwrap();
    }
    check(&disk, BACKUP).unwrap();
    // Nor after a restart of the broker.
    drop((store, shard));
    let (_store, shard) = open(&disk);
    for number in 601..=1000 {
        shard.submit(send(number)).await.unwrap();
        shard.submit(complete(number)).await.unwrap();
    }
    assert_eq!(restored(&disk, BACKUP, RESTORED).await, (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_spare_with_a_second_name_is_not_filled_again() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let is_spare = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "spare");
    let mut number = 0;
    while !disk.paths().iter().any(is_spare) {
        number += 1;
        shard.submit(send(number)).await.unwrap();
        shard.submit(complete(number)).await.unwrap();
    }
    drop((store, shard));
    let mut linked = Vec::new();
    for spare in disk.paths().into_iter().filter(is_spare) {
        let name = PathBuf::from("/elsewhere").join(spare.file_name().unwrap());
        disk.mount().link(&spare, &name).unwrap();
        linked.push((name.clone(), disk.bytes(&name)));
    }
    let (_store, shard) = open(&disk);
    for number in number + 1..number + 400 {
        shard.submit(send(number)).await.unwrap();
    }
    for (name, bytes) in linked {
        assert!(disk.bytes(&name) == bytes, "{} was overwritten", name.display());
    }
}

#[tokio::test]
async fn a_pinned_plan_keeps_dead_segments_until_it_is_dropped() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=200 {
        shard.submit(send(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    let held = files(&disk, DIRECTORY).len();
    let mut batch = Batch::new();
    batch.delete_range(Space::Head, QUEUE, 0..=u64::MAX);
    batch.delete_range(Space::Body, QUEUE, 0..=u64::MAX);
    shard.submit(batch).await.unwrap();
    let live = || store.current().shared().state().segments.in_order().count();
    eventually("the segments are dead", || live() < 5).await;
    write(&disk, pinned.plan(), BACKUP).unwrap();
    assert_eq!(restored(&disk, BACKUP, RESTORED).await, (1..=200).collect::<Vec<_>>());
    drop(pinned);
    eventually("the files are gone", || files(&disk, DIRECTORY).len() < held / 2).await;
}

#[tokio::test]
async fn a_stopped_or_crashed_store_is_backed_up_as_it_would_open() {
    for crash in [false, true] {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        for number in 1..=100 {
            shard.submit(step(number)).await.unwrap();
        }
        assert!(matches!(PinnedPlan::of_stopped_on(disk.mount(), DIRECTORY), Err(Error::Fenced { .. })));
        if crash {
            disk.kill();
        }
        drop((store, shard));
        let pinned = PinnedPlan::of_stopped_on(disk.mount(), DIRECTORY).unwrap();
        write(&disk, pinned.plan(), BACKUP).unwrap();
        drop(pinned);
        assert_eq!(restored(&disk, BACKUP, RESTORED).await, waiting_after(100), "crash: {crash}");
        drop(open(&disk));
    }
}

#[tokio::test]
async fn a_backup_that_fails_at_any_step_leaves_its_target_empty() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=100 {
        shard.submit(step(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    let options = BackupOptions::default();
    let steps = pinned.plan().segments() + 1;
    for steps_left in 0..steps {
        let mut watch = Watch { steps_left: Some(steps_left), ..Watch::default() };
        write_with(&disk, pinned.plan(), BACKUP, &options, &mut watch).unwrap_err();
        assert_eq!(files(&disk, BACKUP), Vec::<PathBuf>::new(), "after {steps_left} steps");
    }
    let mut refusing = Watch { is_refusing: true, ..Watch::default() };
    write_with(&disk, pinned.plan(), BACKUP, &options, &mut refusing).unwrap_err();
    assert_eq!(files(&disk, BACKUP), Vec::<PathBuf>::new());
    write(&disk, pinned.plan(), BACKUP).unwrap();
    let second = write(&disk, pinned.plan(), BACKUP).unwrap_err();
    assert!(second.to_string().contains("is not empty"), "{second}");
    check(&disk, BACKUP).unwrap();
}

#[tokio::test]
async fn a_backup_leaves_the_requested_space_free() {
    let disk = SimulatedDisk::new();
    // If only a reserve is left, the cleaner's copies would use the room left for the backup.
    let (store, shard) = open_with(&disk, LocalOptions { reserve_bytes: 0, ..options() }).unwrap();
    for number in 1..=100 {
        shard.submit(step(number)).await.unwrap();
    }
    // So would a segment that the keeper prepares later.
    super::growth::settle(&store);
    let pinned = store.pin().unwrap();
    // Without pauses, in which the keeper could write a hint into that room.
    let copying = BackupOptions { is_linking: false, disk_share_percent: 100, ..BackupOptions::default() };
    disk.set_size_bytes_max(Some(disk.size_bytes() + pinned.plan().bytes() + 2048));
    let reserve = BackupOptions { free_bytes_min: 64 << 10, ..copying.clone() };
    for options in [reserve, copying] {
        let result = write_with(&disk, pinned.plan(), BACKUP, &options, &mut Watch::default());
        if options.free_bytes_min > 0 {
            assert!(matches!(result, Err(Error::Full { .. })), "{result:?}");
            assert_eq!(files(&disk, BACKUP), Vec::<PathBuf>::new());
        } else {
            assert_eq!(result.unwrap().segments_linked, 0);
        }
    }
    shard.submit(complete(100)).await.unwrap();
}

#[tokio::test]
async fn damage_anywhere_in_a_backup_is_refused_before_anything_is_restored() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(step(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    let copying = BackupOptions { is_linking: false, ..BackupOptions::default() };
    write_with(&disk, pinned.plan(), BACKUP, &copying, &mut Watch::default()).unwrap();
    for path in files(&disk, BACKUP) {
        let bytes = disk.bytes(&path);
        // Frames end at multiples of 8: the padding after their last record is unused.
        for offset in (0..bytes.len()).step_by(97).chain([0, 9, 70]) {
            disk.rot(&path, offset as u64);
            let result = restore_on(disk.mount(), BACKUP, RESTORED, &mut |_| {});
            let is_padding = result.is_ok() && bytes[offset] == 0;
            assert!(
                is_padding
                    || matches!(&result, Err(Error::Corrupt { place, .. }) if Path::new(&place.unit) == path),
                "{} at {offset}: {result:?}",
                path.display()
            );
            if !is_padding {
                assert_eq!(files(&disk, RESTORED), Vec::<PathBuf>::new());
            }
            files(&disk, RESTORED).iter().for_each(|path| disk.remove_file(path));
            disk.rot(&path, offset as u64);
        }
    }
    disk.remove_file(Path::new("/backup/BACKUP"));
    let incomplete = restore_on(disk.mount(), BACKUP, RESTORED, &mut |_| {}).unwrap_err();
    assert!(incomplete.to_string().contains("no complete backup"), "{incomplete}");
}

#[tokio::test]
async fn a_restored_store_is_later_than_its_backup_and_goes_on() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=100 {
        shard.submit(step(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    write(&disk, pinned.plan(), BACKUP).unwrap();
    let report = restore_on(disk.mount(), BACKUP, RESTORED, &mut |_| {}).unwrap();
    assert_eq!(report.epoch, 2);
    let again = restore_on(disk.mount(), BACKUP, RESTORED, &mut |_| {}).unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
    for round in 0..3 {
        let store = LocalStore::open_on(disk.mount(), RESTORED, options()).unwrap();
        let shard = acquire(&store).unwrap();
        for number in 101 + round * 100..=200 + round * 100 {
            shard.submit(step(number)).await.unwrap();
        }
        let heads = contents(&*shard, &[QUEUE]).await.unwrap();
        let heads: Vec<u64> =
            heads.keys().filter(|key| key.space == Space::Head).map(|key| key.number).collect();
        assert_eq!(heads, waiting_after(200 + round * 100));
    }
    check(&disk, BACKUP).unwrap();
}

#[tokio::test]
async fn a_backup_is_no_data_directory() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=100 {
        shard.submit(step(number)).await.unwrap();
    }
    write(&disk, store.pin().unwrap().plan(), BACKUP).unwrap();
    let store = LocalStore::open_on(disk.mount(), BACKUP, options()).unwrap();
    let refused = acquire(&store).err().unwrap();
    assert!(refused.to_string().contains("peeklock store restore"), "{refused}");
    check(&disk, BACKUP).unwrap();
}

#[test]
fn a_plan_survives_its_way_as_bytes() {
    let disk = SimulatedDisk::new();
    let (store, _shard) = open(&disk);
    let pinned = store.pin().unwrap();
    let bytes = pinned.plan().encode();
    assert_eq!(BackupPlan::decode(&bytes).as_ref(), Some(pinned.plan()));
    for len in 0..bytes.len() {
        assert_eq!(BackupPlan::decode(&bytes[..len]), None, "length {len}");
    }
}
