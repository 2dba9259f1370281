//! `peeklock store salvage` on the data directory of a real daemon: readable messages are served afterwards, the old
//! files are kept, and the command may be killed at any time. `PEEKLOCK_TEST_SEED` repeats the times of the kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use peeklock_tests::client::Client;
use peeklock_tests::codec::{code, data_message};
use peeklock_tests::daemon::{Daemon, command};
use peeklock_tests::load::shown;
use peeklock_tests::seed;
use rand::RngExt;
use tempfile::TempDir;

const QUEUE: &str = "orders";
const MESSAGES: i64 = 30;
/// The message whose body is damaged.
const DAMAGED: i64 = 7;
const KILLS: u32 = 12;
/// Longest wait before the command is killed: about its duration.
const SALVAGE_MS_MAX: u64 = 60;
/// Exit code of a store with damage.
const DATA: i32 = 3;

/// The text at the start of message `number`.
fn name(number: i64) -> String {
    format!("message-{number}-of-the-test")
}

/// A data directory with one damaged body and a damaged list of segments: the daemon does not start on it.
fn damaged_directory() -> TempDir {
    let daemon = &mut Daemon::with_queues(&[QUEUE]);
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, QUEUE).unwrap().unwrap();
    for number in 1..=MESSAGES {
        let content = data_message(format!("{} {}", name(number), "x".repeat(300)).as_bytes());
        assert_eq!(client.send(0, &content).unwrap().code(), Some(code::ACCEPTED));
    }
    daemon.kill();
    let directory = tempfile::Builder::new().prefix("peeklock-rust-").tempdir().unwrap();
    copy(&daemon.data_directory(), &directory.path().join("data"));
    let data = directory.path().join("data");
    let content = name(DAMAGED).into_bytes();
    let hit =
        flip(&files(&data, "segment"), |bytes| bytes.windows(content.len()).position(|part| part == content));
    assert!(hit, "the content is in a segment");
    assert!(flip(&[data.join("MANIFEST")], |bytes| bytes.len().checked_sub(1)));
    directory
}

/// Files of a directory with this extension.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == extension)).collect()
}

/// Flips a byte in the first file for which `find` returns a position.
fn flip(files: &[PathBuf], find: impl Fn(&[u8]) -> Option<usize>) -> bool {
    files.iter().any(|path| {
        let mut bytes = fs::read(path).unwrap();
        let place = find(&bytes);
        place.is_some_and(|at| {
            bytes[at] ^= 0x20;
            fs::write(path, bytes).unwrap();
            true
        })
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// All files below a directory with their bytes, except lock files, which contain process ids.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(contents(&entry.path())),
            false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found.retain(|path, _| !path.ends_with("LOCK"));
    found
}

fn store(arguments: &[&str], data: &Path) -> (Option<i32>, String) {
    let mut command = command();
    command.arg("store").arg(arguments[0]).arg(data).args(&arguments[1..]);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Starts a daemon on a copy of the directory and asserts that it has all messages except the damaged one, with their
/// numbers.
fn assert_serves(data: &Path) {
    let mut daemon = Daemon::stopped(&format!("[[queues]]\nname = \"{QUEUE}\"\n"));
    copy(data, &daemon.data_directory());
    daemon.start();
    let expected = (1..=MESSAGES).filter(|number| *number != DAMAGED).map(|number| (name(number), number));
    assert_eq!(shown(daemon.amqp(), QUEUE), expected.collect::<Vec<_>>());
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, QUEUE).unwrap().unwrap();
    assert_eq!(client.send(0, &data_message(b"new")).unwrap().code(), Some(code::ACCEPTED));
    assert_eq!(shown(daemon.amqp(), QUEUE).last(), Some(&("new".to_owned(), MESSAGES + 1)));
    daemon.assert_sound();
}

#[test]
fn readable_messages_are_served_after_a_salvage() {
    let directory = damaged_directory();
    let data = directory.path().join("data");
    let damaged = contents(&data);
    let start = |data: &Path| {
        let mut command = command();
        command.args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"]).arg(data);
        command.stdin(Stdio::null()).output().unwrap().status.code()
    };
    assert_eq!(start(&data), Some(DATA), "the list of segments is damaged");
    assert_eq!(store(&["check"], &data).0, Some(DATA));
    let (status, text) = store(&["salvage", "--dry-run"], &data);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(contents(&data), damaged, "a dry run changes nothing");
    let (status, text) = store(&["salvage"], &data);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("lost: message {DAMAGED} of ")), "{text}");
    assert!(text.contains(&format!("kept: {} messages", MESSAGES - 1)), "{text}");
    let quarantine = data.join("quarantine/0001");
    for (path, bytes) in damaged.iter().filter(|(path, _)| path.parent() == Some(&*data)) {
        let kept = fs::read(quarantine.join(path.file_name().unwrap())).ok();
        let kept = kept.or_else(|| fs::read(path).ok());
        assert_eq!(kept.as_ref(), Some(bytes), "{} is kept", path.display());
    }
    let (status, text) = store(&["check"], &data);
    assert_eq!(status, Some(0), "{text}");
    assert!(store(&["salvage"], &data).1.contains("nothing is damaged"));
    assert_serves(&data);
}

#[test]
fn a_salvage_that_is_killed_is_completed_by_the_next() {
    let mut random = seed::generator();
    let directory = damaged_directory();
    let damaged = directory.path().join("data");
    for round in 0..KILLS {
        let data = directory.path().join(format!("round-{round}"));
        copy(&damaged, &data);
        let moment = Duration::from_millis(random.random_range(0..SALVAGE_MS_MAX));
        let mut command = command();
        let mut child = command.args(["store", "salvage"]).arg(&data).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        let is_marked = data.join("salvage.new/COMPLETE").exists();
        let (status, text) = store(&["salvage"], &data);
        assert_eq!(status, Some(0), "killed after {moment:?}: {text}");
        let (status, text) = store(&["check"], &data);
        assert_eq!(status, Some(0), "killed after {moment:?}: {text}");
        assert_serves(&data);
        println!("round {round}: killed after {moment:?}, in the midst of the exchange: {is_marked}");
    }
}
