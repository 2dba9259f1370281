//! Failures of the file system while a backup is written or restored.

use super::*;
use crate::local::{Call, Event};

const EIO: i32 = 5;
const EEXIST: i32 = 17;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EVENTS: [Event; 4] = [Event::Fail(EIO), Event::Fail(EMFILE), Event::Fail(ENOSPC), Event::FailLate(EIO)];

/// Makes an attempt for every call that it makes, in which this call fails, in every way. Each has a directory of its own
/// in `root`, which is complete (`verify`) or empty afterwards.
fn let_each_call_fail(
    disk: &SimulatedDisk,
    root: &str,
    attempt: impl Fn(&str) -> Result<(), Error>,
    verify: impl Fn(&str) -> Result<(), Error>,
) {
    let mut failed = 0;
    for event in EVENTS {
        for pass in 0.. {
            let (target, what) = (format!("{root}/{pass} {event:?}"), format!("call {pass}, {event:?}"));
            disk.plan(None, "", pass, event);
            let result = attempt(&target);
            let is_end = disk.faults_left() > 0;
            disk.clear_faults();
            match result {
                Ok(()) => verify(&target).unwrap_or_else(|error| panic!("{what}: {error}")),
                Err(error) => {
                    failed += 1;
                    assert_eq!(files(disk, &target), Vec::<PathBuf>::new(), "{what}: {error}");
                }
            }
            if is_end {
                break;
            }
        }
    }
    assert!(failed > 50, "{failed} attempts failed");
}

#[tokio::test]
async fn a_link_that_is_made_and_reported_as_failed_does_not_cost_the_data_directory_its_segment() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=100 {
        shard.submit(step(number)).await.unwrap();
    }
    drop((store, shard));
    let pinned = PinnedPlan::of_stopped_on(disk.mount(), DIRECTORY).unwrap();
    for (errno, target) in [(EIO, "/backup/eio"), (EEXIST, "/backup/eexist")] {
        disk.plan(Some(Call::Link), "", 0, Event::FailLate(errno));
        write(&disk, pinned.plan(), target).unwrap();
        assert_eq!(disk.faults_left(), 0);
        check(&disk, target).unwrap();
    }
    drop(pinned);
    let (_store, shard) = open(&disk);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2 * waiting_after(100).len());
}

#[tokio::test]
async fn of_two_backups_to_one_directory_at_once_one_is_refused_and_the_source_stays_intact() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=100 {
        shard.submit(step(number)).await.unwrap();
    }
    let pinned = store.pin().unwrap();
    for round in 0..50 {
        let target = format!("/backup/{round}");
        let both: Vec<_> = std::thread::scope(|scope| {
            let run = || write(&disk, pinned.plan(), &target);
            [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap()).into()
        });
        assert_eq!(both.iter().filter(|one| one.is_ok()).count(), 1, "round {round}: {both:?}");
        check(&disk, &target).unwrap();
    }
    drop((pinned, store, shard));
    drop(PinnedPlan::of_stopped_on(disk.mount(), DIRECTORY).unwrap());
}

#[tokio::test]
async fn whichever_call_fails_a_backup_is_complete_or_leaves_nothing_and_its_source_is_intact() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(step(number)).await.unwrap();
    }
    drop((store, shard));
    let pinned = PinnedPlan::of_stopped_on(disk.mount(), DIRECTORY).unwrap();
    let attempt = |target: &str| write(&disk, pinned.plan(), target).map(drop);
    let_each_call_fail(&disk, BACKUP, attempt, |target| check(&disk, target));
    drop(pinned);
    drop(PinnedPlan::of_stopped_on(disk.mount(), DIRECTORY).unwrap());
}

#[tokio::test]
async fn whichever_call_fails_a_restore_is_complete_or_leaves_nothing_and_its_backup_is_intact() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(step(number)).await.unwrap();
    }
    write(&disk, store.pin().unwrap().plan(), BACKUP).unwrap();
    drop((store, shard));
    let attempt = |target: &str| restore_on(disk.mount(), BACKUP, target, &mut |_| {}).map(drop);
    let verify = |target: &str| PinnedPlan::of_stopped_on(disk.mount(), target).map(drop);
    let_each_call_fail(&disk, RESTORED, attempt, verify);
    check(&disk, BACKUP).unwrap();
}
