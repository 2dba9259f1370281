//! Repeated SIGKILL under load while the cleaner copies live records out of mostly dead segments: the store can be
//! opened at the next start, nothing accepted is lost, and nothing completed comes back. `PEEKLOCK_TEST_SEED` repeats
//! the times of the kills.

#![allow(clippy::unwrap_used)] // Helpers of tests, outside #[test].

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, PATIENCE};
use peeklock_tests::codec::{Value, code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::load::{CONFIG, Journal, run_until_killed_after};
use peeklock_tests::seed;
use rand::RngExt;

const ROUNDS: u32 = 8;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Small segments, a cleaner that needs hundreds of milliseconds for one, and a queue for garbage.
const STORAGE: &str = "
[storage]
segment_size = \"1 MiB\"
cleaning_rate = \"1 MiB\"
";
const GARBAGE: &str = "garbage";
/// Number of messages that make enough garbage for the cleaner, how many are sent at a time, and their size; a fraction
/// of them is kept.
const GARBAGE_MESSAGES: u32 = 384;
const AT_A_TIME: u32 = 32;
const GARBAGE_BYTES: usize = 20_000;
const KEPT_EVERY: u32 = 10;
/// Longest wait between the start of a copy and the kill: about as long as copying and installing take.
const COPY_MS_MAX: u64 = 700;

/// Segments of a data directory that are smaller than filled ones: the cleaner's copies.
fn copies(data: &Path) -> BTreeMap<PathBuf, u64> {
    let entries = std::fs::read_dir(data).unwrap().filter_map(Result::ok);
    let sizes = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())));
    let is_segment = |path: &Path| path.extension().is_some_and(|kind| kind == "segment");
    sizes.filter(|(path, bytes)| is_segment(path) && *bytes < SEGMENT_BYTES).collect()
}

/// Sends many messages and completes most of them, until the daemon is killed.
fn litter(address: SocketAddr) -> io::Result<()> {
    let mut client = Client::connect(address)?;
    client.attach_sender(0, GARBAGE)?.unwrap();
    client.attach_receiver(1, GARBAGE, GARBAGE_MESSAGES)?.unwrap();
    let message = data_message(&vec![b'x'; GARBAGE_BYTES]);
    for number in 0..GARBAGE_MESSAGES {
        if number % AT_A_TIME == 0 {
            (0..AT_A_TIME).try_for_each(|_| client.transfer(0, &message, 0).map(drop))?;
        }
        let delivery = client.receive(1)?;
        if number % KEPT_EVERY != 0 {
            client.dispose(delivery.id, delivery.id, Value::composite(code::ACCEPTED, Vec::new()))?;
        }
    }
    Ok(())
}

/// Makes garbage and waits until the cleaner writes a new copy.
fn await_copy(daemon: &Daemon) {
    let (data, address) = (daemon.data_directory(), daemon.amqp());
    let before = copies(&data);
    // The kill may interrupt it.
    std::thread::spawn(move || litter(address));
    let begin = Instant::now();
    while !copies(&data).keys().any(|path| !before.contains_key(path)) {
        assert!(begin.elapsed() < PATIENCE, "the cleaner finds nothing to do:\n{}", daemon.log());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_lost_when_the_daemon_is_killed_while_the_cleaner_works() {
    let mut random = seed::generator();
    let garbage = format!("[[queues]]\nname = \"{GARBAGE}\"\n");
    let mut daemon = Daemon::with_config(&format!("{CONFIG}{garbage}{STORAGE}"));
    let data = daemon.data_directory();
    let mut journal = Journal::default();
    let mut unfinished = 0;
    for round in 0..ROUNDS {
        let answers = random.random_range(50..300);
        let moment = Duration::from_millis(random.random_range(0..COPY_MS_MAX));
        journal = run_until_killed_after(&mut daemon, journal, round, answers, |daemon| {
            await_copy(daemon);
            std::thread::sleep(moment);
        });
        let left = copies(&data);
        daemon.start();
        daemon.assert_sound();
        journal.restarted(daemon.amqp());
        // Files not listed in the manifest are removed at the start.
        let removed = left.keys().filter(|path| !path.exists()).count();
        unfinished += u32::from(removed > 0);
        println!("round {round}: killed {moment:?} after a copy began, stored: {:?}", journal.stored());
    }
    println!("{unfinished} of {ROUNDS} kills came before the copy counted");
}
