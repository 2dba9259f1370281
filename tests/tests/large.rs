//! Many concurrent large messages within the memory budget: each is completed, none is lost, the process does not grow.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::thread;
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, transfer};
use peeklock_tests::codec::{Value, code, data_message, frame};
use peeklock_tests::daemon::Daemon;

const MIB: usize = 1 << 20;
/// Time limit for the whole test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(400);

/// Payload of a sent frame.
const PIECE_BYTES: usize = 200 << 10;

/// The body shared by all messages: no two kilobytes of it are equal.
fn body(bytes: usize) -> Vec<u8> {
    let mut body = vec![7; bytes];
    for (position, kilobyte) in body.chunks_exact_mut(1024).enumerate() {
        kilobyte[..8].copy_from_slice(&position.to_be_bytes());
    }
    body
}

/// The bytes before the body: a data section with the number of the message, and the header of another one.
fn front(number: usize, body_bytes: usize) -> Vec<u8> {
    let length = u32::try_from(body_bytes).unwrap().to_be_bytes();
    [&data_message(&number.to_be_bytes()), &[0x00, 0x53, 0x75, 0xb0][..], &length].concat()
}

fn connect(daemon: &Daemon) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    client.stream().set_write_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Sends a message until it is accepted, like the SDKs when the broker is busy; returns the number of refusals. The
/// body is not copied as a whole, because twenty clients would use more memory than the broker.
fn send(client: &mut Client, number: usize, body: &[u8]) -> u32 {
    let start = Instant::now();
    for id in 0.. {
        client.write(&frame(0, &transfer(0, id, 0, true), &front(number, body.len()))).unwrap();
        let mut pieces = body.chunks(PIECE_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let more = pieces.peek().is_some();
            client.write(&frame(0, &transfer(0, id, 0, more), piece)).unwrap();
        }
        let outcome = client.outcome(id, true).unwrap();
        if outcome.code() == Some(code::ACCEPTED) {
            return id;
        }
        let text = format!("{outcome:?}");
        assert!(text.contains("server-busy") && start.elapsed() < PATIENCE, "{text}");
        thread::sleep(Duration::from_millis(200));
    }
    unreachable!()
}

/// Receives the message with this number, compares it and completes it.
fn receive(client: &mut Client, number: usize, body: &[u8]) {
    let front = front(number, body.len());
    let mut left = body;
    let mut is_first = true;
    loop {
        let frame = client.wait(|frame| frame.is(code::TRANSFER).then(|| frame.clone())).unwrap();
        let mut payload = &frame.payload[..];
        if std::mem::take(&mut is_first) {
            let position = payload.windows(front.len()).position(|window| window == front);
            payload = &payload[position.expect("its own message") + front.len()..];
        }
        let (same, rest) = left.split_at(payload.len());
        assert!(payload == same, "{} bytes before the end", left.len());
        left = rest;
        if *frame.field(5) != Value::Bool(true) {
            break;
        }
    }
    assert_eq!(left.len(), 0);
    assert_eq!(client.complete(0).unwrap().code(), Some(code::ACCEPTED));
}

/// The result of sending and receiving concurrently.
#[derive(Debug)]
struct Run {
    /// Number of refusals as busy.
    refusals: u32,
    /// The peak of the process's memory in MiB, and its memory before.
    peak_mib: usize,
    idle_mib: usize,
}

/// This many senders and receivers, each on a connection and a queue of its own, concurrently, with one message each.
fn run(limits: &str, peers: usize, bytes: usize) -> Run {
    let kilobytes = bytes.div_ceil(1024) + 1;
    let options = format!("max_message_size_in_kilobytes = {kilobytes}\nlock_duration = \"PT5M\"\n");
    let queue = |number: usize| format!("[[queues]]\nname = \"q{number}\"\n{options}");
    // The clients send no heartbeats while they wait.
    let amqp = "[amqp]\nidle_time_out = \"PT1H\"\n";
    let config = format!("{limits}{amqp}{}", (0..peers).map(queue).collect::<String>());
    let mut daemon = Daemon::with_config(&config);
    let idle_mib = usize::try_from(daemon.resident_bytes()).unwrap() / MIB;
    let body = body(bytes);
    let refusals = thread::scope(|scope| {
        let (daemon, body) = (&daemon, &body);
        let senders: Vec<_> = (0..peers)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = connect(daemon);
                    client.attach_receiver(0, &format!("q{number}"), 1).unwrap().unwrap();
                    receive(&mut client, number, body);
                });
                scope.spawn(move || {
                    let mut client = connect(daemon);
                    client.attach_sender(0, &format!("q{number}")).unwrap().unwrap();
                    send(&mut client, number, body)
                })
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    let peak_mib = usize::try_from(daemon.peak_bytes()).unwrap() / MIB;
    daemon.assert_sound();
    Run { refusals, peak_mib, idle_mib }
}

/// In proportion to the defaults: a message is nearly a quarter of the budget, and all together are five times the
/// budget.
#[test]
fn twenty_large_messages_at_once_stay_within_the_budget_and_each_is_completed() {
    let run = run("[limits]\nmemory_max = \"64 MiB\"\n", 20, 15 * MIB);
    assert_eq!(run.refusals, 0, "those that wait for their turn are not given up");
    // The initial memory, the pages of the program and freed pages that the allocator has not returned yet.
    assert!(run.peak_mib - run.idle_mib < 64 + 192, "{run:?}");
}

/// Prints the figures for 100 MB each: `cargo test --release -p peeklock-tests --test large -- --ignored --nocapture`.
#[test]
#[ignore = "4 GB over loopback"]
fn twenty_messages_of_100_megabytes_at_once_by_default() {
    let start = Instant::now();
    let run = run("", 20, 102_399 * 1024);
    println!("{run:?} in {:?}", start.elapsed());
    assert!(run.peak_mib - run.idle_mib < 1024 + 512);
}
