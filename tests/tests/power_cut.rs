//! Power cuts during load, again and again, with a real daemon on a real directory: whatever was not synced is lost in
//! part, what was accepted is there. `PEEKLOCK_TEST_SEED` repeats the moments and the losses.
//!
//! The directory is a FUSE file system, which takes `/dev/fuse` and the right to mount. Without them the test says so and
//! ends; `PEEKLOCK_REQUIRE_FUSE=1` makes that a failure.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Helpers of tests, outside #[test].

#[path = "power_cut/volatile_disk.rs"]
mod volatile_disk;

use peeklock_tests::daemon::Daemon;
use peeklock_tests::load::{CONFIG, Journal, run_until_killed};
use peeklock_tests::seed;
use rand::RngExt;

use self::volatile_disk::VolatileDisk;

const ROUNDS: u32 = 20;

/// Small segments: rolling, freeing and cleaning happen between two cuts.
const STORAGE: &str = "\n[storage]\nsegment_size = \"1 MiB\"\n";

/// A disk at the daemon's data directory, or `None` where nothing can be mounted.
fn mounted(daemon: &Daemon) -> Option<VolatileDisk> {
    let directory = daemon.data_directory();
    std::fs::create_dir(&directory).unwrap();
    match VolatileDisk::mount(&directory) {
        Ok(disk) => Some(disk),
        Err(error) => {
            let is_required = std::env::var_os("PEEKLOCK_REQUIRE_FUSE").is_some();
            assert!(!is_required, "can't mount a FUSE file system: {error}");
            eprintln!("SKIPPED: power cuts under a real daemon: can't mount a FUSE file system: {error}");
            None
        }
    }
}

#[test]
fn nothing_accepted_is_lost_and_nothing_completed_returns_over_twenty_power_cuts() {
    let mut random = seed::generator();
    let mut daemon = Daemon::stopped(&format!("{CONFIG}{STORAGE}"));
    let Some(mut disk) = mounted(&daemon) else { return };
    daemon.start();
    let mut journal = Journal::default();
    for round in 0..ROUNDS {
        let (answers, loss) = (random.random_range(50..1_500), random.random());
        journal = run_until_killed(&mut daemon, journal, round, answers);
        disk.cut_power(loss).unwrap();
        daemon.start();
        daemon.assert_sound();
        journal.restarted(daemon.amqp());
        println!("round {round}: cut after {answers} answers, stored: {:?}", journal.stored());
    }
    journal.drain(daemon.amqp());
    journal.restarted(daemon.amqp());
    assert!(journal.stored().values().all(|stored| *stored == 0));
}

/// The first start of all makes directories, certificates and the log: a cut in the midst must not keep the next start
/// from working.
#[test]
fn a_power_cut_during_the_first_start_leaves_a_usable_directory() {
    let mut random = seed::generator();
    for _ in 0..ROUNDS {
        let mut daemon = Daemon::stopped(CONFIG);
        let Some(mut disk) = mounted(&daemon) else { return };
        daemon.start();
        daemon.kill();
        disk.cut_power(random.random()).unwrap();
        daemon.start();
        daemon.assert_sound();
        daemon.kill();
    }
}
