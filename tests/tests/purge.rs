//! Deleting many messages without receiving them, while others use the broker.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use peeklock_tests::client::{BATCH_FORMAT, Client};
use peeklock_tests::codec::{code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http::ask;

/// Messages in one transfer.
const BATCH: usize = 1_000;

fn fill(address: SocketAddr, target: &str, messages: usize, body_bytes: usize) {
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, target).unwrap().unwrap();
    let message = data_message(&data_message(&vec![7; body_bytes]));
    let batch = message.repeat(BATCH);
    for _ in 0..messages / BATCH {
        let id = client.transfer(0, &batch, BATCH_FORMAT).unwrap();
        assert_eq!(client.outcome(id, true).unwrap().code(), Some(code::ACCEPTED));
    }
}

/// Purges an entity; returns the number of deleted messages.
fn purge(address: SocketAddr, source: &str) -> u64 {
    let (status, answer) = ask(address, "POST", &format!("/{source}/messages/purge"), "", b"");
    assert_eq!(status, 200, "{answer}");
    let (_, json) = answer.split_once("{\"deleted\":").expect("a number of messages");
    json.trim_end_matches('}').parse().unwrap()
}

/// Sends messages one by one until `is_over`; returns the durations.
fn send_until(address: SocketAddr, target: &str, is_over: &AtomicBool) -> Vec<Duration> {
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, target).unwrap().unwrap();
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let before = Instant::now();
        assert_eq!(client.send(0, &data_message(b"x")).unwrap().code(), Some(code::ACCEPTED));
        times.push(before.elapsed());
    }
    times
}

/// Purges a queue or subscription while others send to these entities. Returns the number of deleted messages, the
/// duration, and the durations of the sends.
fn purge_beside(daemon: &Daemon, source: &str, targets: &[&str]) -> (u64, Duration, Vec<Vec<Duration>>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = targets
            .iter()
            .map(|target| scope.spawn(|| send_until(daemon.amqp(), target, &is_over)))
            .collect();
        let before = Instant::now();
        let deleted = purge(daemon.http(), source);
        let duration = before.elapsed();
        is_over.store(true, Ordering::Relaxed);
        (deleted, duration, others.into_iter().map(|other| other.join().unwrap()).collect())
    })
}

#[test]
fn others_are_served_between_the_batches_of_a_purge() {
    const MESSAGES: usize = 40_000;
    let mut daemon = Daemon::with_queues(&["full", "other"]);
    fill(daemon.amqp(), "full", MESSAGES, 1);
    let mut holder = Client::connect(daemon.amqp()).unwrap();
    holder.attach_receiver(0, "full", 1).unwrap().unwrap();
    let locked = holder.receive(0).unwrap();
    let (deleted, _, sends) = purge_beside(&daemon, "full", &["full", "other"]);
    assert!(deleted >= MESSAGES as u64 - 1, "{deleted}");
    assert!(sends.iter().all(|times| times.len() > 2), "{sends:?}");
    daemon.kill();
    daemon.start();
    let stay = 1 + sends[0].len() as u64 - (deleted - (MESSAGES as u64 - 1));
    assert_eq!(
        purge(daemon.http(), "full"),
        stay,
        "the locked message, and those sent after the purge began"
    );
    drop(locked);
    daemon.assert_sound();
}

/// Prints the duration of purging a million messages, of a queue and of a subscription whose topic has another one, and
/// the effect on others: `cargo test --release -p peeklock-tests --test purge -- --ignored --nocapture`.
#[test]
#[ignore = "takes a while, and measures"]
fn a_million_messages() {
    const MESSAGES: usize = 1_000_000;
    let config = "[[queues]]\nname = \"full\"\n[[queues]]\nname = \"other\"\n[[topics]]\nname = \"news\"\n\
                  [[topics.subscriptions]]\nname = \"one\"\n[[topics.subscriptions]]\nname = \"two\"\n";
    let mut daemon = Daemon::with_config(config);
    let p99 = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() * 99 / 100]
    };
    let is_over = AtomicBool::new(false);
    let alone = thread::scope(|scope| {
        let sends = scope.spawn(|| send_until(daemon.amqp(), "other", &is_over));
        thread::sleep(Duration::from_secs(3));
        is_over.store(true, Ordering::Relaxed);
        sends.join().unwrap()
    });
    println!("another queue, alone: p99 {:?} of {} sends", p99(alone.clone()), alone.len());
    for (target, source) in [("full", "full"), ("news", "news/subscriptions/one")] {
        fill(daemon.amqp(), target, MESSAGES, 100);
        let before_bytes = daemon.resident_bytes();
        let (deleted, duration, mut sends) = purge_beside(&daemon, source, &["other", target]);
        assert!(deleted >= MESSAGES as u64);
        let (same, other) = (sends.pop().unwrap(), sends.pop().unwrap());
        println!(
            "{source}: {deleted} messages in {duration:?}; another queue p99 {:?} of {} sends, the same p99 {:?} of {}; \
             {} MiB resident before, {} after",
            p99(other.clone()),
            other.len(),
            p99(same.clone()),
            same.len(),
            before_bytes >> 20,
            daemon.resident_bytes() >> 20,
        );
    }
    daemon.assert_sound();
}
