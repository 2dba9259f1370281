//! Repeated power cuts during load, with a real daemon on a real directory: unsynced data is lost in part, accepted
//! messages are not lost. `PEEKLOCK_TEST_SEED` repeats the times and the losses.
//!
//! The directory is a FUSE file system, which requires `/dev/fuse` and the right to mount. Without them the test prints
//! that and ends; `PEEKLOCK_REQUIRE_FUSE=1` makes that a failure.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Helpers of tests, outside #[test].

#[path = "power_cut/nodes.rs"]
mod nodes;
#[path = "power_cut/volatile_disk.rs"]
mod volatile_disk;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use peeklock_tests::daemon::Daemon;
use peeklock_tests::load::{CONFIG, Journal, run_until_killed};
use peeklock_tests::seed;
use rand::RngExt;

use self::volatile_disk::VolatileDisk;

const ROUNDS: u32 = 20;
/// Number of rounds in which the disk is unmounted while files are being closed, and number of files.
const CLOSING_ROUNDS: u64 = 100;
const CLOSING_FILES: u32 = 50;

/// Small segments, so that rolling, freeing and cleaning happen between two cuts.
const STORAGE: &str = "\n[storage]\nsegment_size = \"1 MiB\"\n";

/// A daemon and the disk with its data directory. Dropping it, even in a failed test, kills the daemon and unmounts the
/// disk.
struct Site {
    daemon: Daemon,
    disk: VolatileDisk,
}

impl Site {
    /// A site whose daemon is not started yet, or `None` if nothing can be mounted.
    fn stopped(config: &str) -> Option<Self> {
        let daemon = Daemon::stopped(config);
        let disk = mounted(&daemon.data_directory())?;
        Some(Self { daemon, disk })
    }

    /// Cuts the power and starts the daemon again.
    fn cut_power(&mut self, seed: u64) {
        self.daemon.kill();
        self.disk.cut_power(seed).unwrap();
        self.daemon.start();
        self.daemon.assert_sound();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The disk can't be unmounted while a process has a file open on it.
        self.daemon.kill();
        if let Err(error) = self.disk.detach() {
            eprintln!("the disk stays mounted: {error}");
        }
    }
}

/// A disk at `directory`, which must not exist, or `None` if nothing can be mounted.
fn mounted(directory: &Path) -> Option<VolatileDisk> {
    std::fs::create_dir(directory).unwrap();
    match VolatileDisk::mount(directory) {
        Ok(disk) => Some(disk),
        Err(error) => {
            let is_required = std::env::var_os("PEEKLOCK_REQUIRE_FUSE").is_some();
            assert!(!is_required, "can't mount a FUSE file system: {error}");
            eprintln!("SKIPPED: power cuts under a real daemon: can't mount a FUSE file system: {error}");
            None
        }
    }
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
}

#[test]
fn nothing_accepted_is_lost_and_nothing_completed_returns_over_twenty_power_cuts() {
    let mut random = seed::generator();
    let Some(mut site) = Site::stopped(&format!("{CONFIG}{STORAGE}")) else { return };
    site.daemon.start();
    let mut journal = Journal::default();
    for round in 0..ROUNDS {
        let (answers, loss) = (random.random_range(50..1_500), random.random());
        journal = run_until_killed(&mut site.daemon, journal, round, answers);
        site.cut_power(loss);
        journal.restarted(site.daemon.amqp());
        println!("round {round}: cut after {answers} answers, stored: {:?}", journal.stored());
    }
    journal.drain(site.daemon.amqp());
    journal.restarted(site.daemon.amqp());
    assert!(journal.stored().values().all(|stored| *stored == 0));
}

/// The very first start creates directories, certificates and the log: a cut in the middle must not prevent the next
/// start.
#[test]
fn a_power_cut_during_the_first_start_leaves_a_usable_directory() {
    let mut random = seed::generator();
    for _ in 0..ROUNDS {
        let Some(mut site) = Site::stopped(CONFIG) else { return };
        site.daemon.start();
        site.cut_power(random.random());
    }
}

/// A process that keeps all files of a directory open until it is killed.
fn holder(directory: &Path, files: u32) -> Child {
    let names: Vec<_> = (0..files).map(|number| directory.join(format!("{number}"))).collect();
    names.iter().for_each(|name| drop(std::fs::File::create(name).unwrap()));
    let child =
        Command::new("tail").arg("-f").args(&names).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.unwrap();
    let descriptors = format!("/proc/{}/fd", child.id());
    while std::fs::read_dir(&descriptors).unwrap().count() < usize::try_from(files).unwrap() {
        std::thread::yield_now();
    }
    child
}

#[test]
fn the_power_can_go_while_the_kernel_still_closes_files() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let Some(mut disk) = mounted(&data) else { return };
    for round in 0..CLOSING_ROUNDS {
        let mut holder = holder(&data, CLOSING_FILES);
        holder.kill().unwrap();
        holder.wait().unwrap();
        disk.cut_power(round).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

#[test]
fn a_test_that_fails_leaves_no_disk_mounted() {
    let Some(mut site) = Site::stopped(CONFIG) else { return };
    site.daemon.start();
    let data = site.daemon.data_directory();
    assert!(is_mounted(&data));
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _site = site;
        panic!("on purpose");
    }));
    assert!(failure.is_err());
    assert!(!is_mounted(&data) && !data.exists());
}
