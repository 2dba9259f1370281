//! Too few descriptors and too little disk space: the broker refuses what it can't store, loses nothing and starts
//! again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, PATIENCE, body};
use peeklock_tests::codec::{Value, code, data_message};
use peeklock_tests::daemon::Daemon;

const QUEUE: &str = "load";
const CONFIG: &str = r#"
[[queues]]
name = "load"
lock_duration = "PT5M"
[storage]
segment_size = "1 MiB"
reserve = "1 MiB"
"#;
/// Five messages fill a segment.
const BODY_BYTES: usize = 200 << 10;
/// One message fills a segment.
const LARGE_BODY_BYTES: usize = 900 << 10;

fn message(number: u32) -> Vec<u8> {
    message_of(number, BODY_BYTES)
}

fn message_of(number: u32, body_bytes: usize) -> Vec<u8> {
    let mut body = vec![b'.'; body_bytes];
    body[..4].copy_from_slice(&number.to_le_bytes());
    data_message(&body)
}

fn number(message: &[u8]) -> u32 {
    let body = body(message);
    u32::from_le_bytes(*body.first_chunk().unwrap())
}

fn sender(daemon: &Daemon) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, QUEUE).unwrap().unwrap();
    client
}

fn is_accepted(outcome: &Value) -> bool {
    outcome.code() == Some(code::ACCEPTED)
}

/// Sends a message repeatedly until it is accepted.
fn send_patiently(client: &mut Client, number: u32) {
    send_until_accepted(client, number, &message(number));
}

fn send_until_accepted(client: &mut Client, number: u32, message: &[u8]) {
    let start = Instant::now();
    while !is_accepted(&client.send(0, message).unwrap()) {
        assert!(start.elapsed() < PATIENCE, "message {number} is never accepted");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Receives and completes this many messages; returns their numbers.
fn receive(daemon: &Daemon, count: usize) -> BTreeSet<u32> {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_receiver(1, QUEUE, 0).unwrap().unwrap();
    let mut numbers = BTreeSet::new();
    while numbers.len() < count {
        client.grant(1, 1).unwrap();
        let delivery = client.receive(1).unwrap();
        numbers.insert(number(&delivery.message));
        assert!(is_accepted(&client.complete(delivery.id).unwrap()));
    }
    numbers
}

fn segments(daemon: &Daemon) -> usize {
    let entries = std::fs::read_dir(daemon.data_directory()).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "segment"))
        .count()
}

#[test]
fn a_long_log_needs_few_descriptors() {
    for (descriptors_max, messages, body_bytes) in
        [(64, 400, BODY_BYTES), (96, 600, BODY_BYTES), (256, 300, LARGE_BODY_BYTES)]
    {
        a_log_has_more_segments_than_descriptors(descriptors_max, messages, body_bytes);
    }
}

#[test]
fn a_log_of_a_thousand_segments_needs_few_descriptors() {
    a_log_has_more_segments_than_descriptors(1_024, 1_100, LARGE_BODY_BYTES);
}

fn a_log_has_more_segments_than_descriptors(descriptors_max: u32, messages: u32, body_bytes: usize) {
    let mut daemon = Daemon::stopped(CONFIG);
    daemon.set_descriptors_max(Some(descriptors_max));
    daemon.start();
    let mut client = sender(&daemon);
    let mut idle = Vec::new();
    let mut accepted = BTreeSet::new();
    for number in 0..messages {
        // Connections use all descriptors for a while.
        match number % 100 {
            40 => idle.extend((0..100).filter_map(|_| TcpStream::connect(daemon.amqp()).ok())),
            60 => idle.clear(),
            _ => {}
        }
        if idle.is_empty() {
            send_until_accepted(&mut client, number, &message_of(number, body_bytes));
            accepted.insert(number);
        } else if is_accepted(&client.send(0, &message_of(number, body_bytes)).unwrap()) {
            accepted.insert(number);
        }
    }
    daemon.assert_sound();
    assert!(segments(&daemon) > usize::try_from(descriptors_max).unwrap(), "{} segments", segments(&daemon));
    daemon.kill();
    daemon.start();
    assert_eq!(receive(&daemon, accepted.len()), accepted);
    daemon.assert_sound();
}

/// A separate file system with a size of `mebibytes`.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if the machine does not permit mounting.
    fn mount(at: &Path, mebibytes: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={mebibytes}m,mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }

    /// Leaves no free byte.
    fn fill(&self) {
        use std::io::Write;
        let mut file =
            std::fs::File::options().create(true).append(true).open(self.0.join("filler")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_the_broker_neither_from_starting_nor_from_giving_and_settling() {
    let mut daemon = Daemon::stopped(CONFIG);
    let Some(disk) = SmallDisk::mount(&daemon.data_directory(), 32) else {
        eprintln!(
            "SKIPPED: mounting a tmpfs is not permitted here; the full disk was NOT tested on a real file system"
        );
        return;
    };
    daemon.start();
    let mut client = sender(&daemon);
    for number in 0..40 {
        send_patiently(&mut client, number);
    }
    let mut received = BTreeSet::new();
    for _ in 0..4 {
        daemon.kill();
        disk.fill();
        daemon.start();
        received.extend(receive(&daemon, 5));
        daemon.assert_sound();
    }
    let mut client = sender(&daemon);
    while is_accepted(&client.send(0, &message(99)).unwrap()) {}
    daemon.kill();
    disk.free();
    daemon.start();
    send_patiently(&mut sender(&daemon), 100);
    received.extend(receive(&daemon, 20));
    assert_eq!(received, (0..40).collect());
    daemon.assert_sound();
    daemon.kill();
}
