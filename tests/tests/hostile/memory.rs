//! Authorized peers that make the broker hold as much memory as possible: all together stay within `limits.memory_max`,
//! a polite client is served, and the memory of closed connections is released.

use std::io;
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, PATIENCE, flow, transfer};
use peeklock_tests::codec::{self, Value, code, data_message, frame};
use peeklock_tests::daemon::Daemon;

pub(super) const MIB: u64 = 1 << 20;
/// Limit of the broker's memory for messages under way.
pub(super) const MEMORY_MAX: u64 = 64 * MIB;
/// Additional memory of the broker: buffers of the sockets' tasks, freed pages that the allocator has not returned yet,
/// and caches of the store.
pub(super) const MARGIN: u64 = 96 * MIB;
pub(super) const CONFIG: &str = r#"
[amqp]
reassembly_size_max = "16 MiB"
[limits]
memory_max = "64 MiB"
[[queues]]
name = "victim"
[[queues]]
name = "polite"
"#;

fn impatient(address: std::net::SocketAddr) -> Client {
    let mut client = Client::connect(address).unwrap();
    client.stream().set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    client
}

/// Begins a large delivery on each of its links, and continues all of them as long as the broker reads.
fn half_send(daemon: &Daemon) -> Client {
    const LINKS: u32 = 16;
    const PIECE: usize = 200 * 1024;
    let mut client = impatient(daemon.amqp());
    for link in 0..LINKS {
        client.attach_sender(link, "victim").unwrap().unwrap();
    }
    let piece = vec![0; PIECE];
    let mut pieces = (0..4).flat_map(|_| 0..LINKS);
    let _ = pieces.try_for_each(|link| client.write(&frame(0, &transfer(link, link, 0, true), &piece)));
    client
}

/// Requests much more than it reads.
fn ask(daemon: &Daemon, requests: u32) -> Client {
    let mut client = impatient(daemon.amqp());
    client.attach_management(0, "victim").unwrap();
    let asked = peek();
    let _ = (0..requests).try_for_each(|_| client.transfer(0, &asked, 0).map(drop));
    client
}

fn peek() -> Vec<u8> {
    let reply_to = Value::string("receiver-1");
    let properties = vec![Value::Ulong(1), Value::Null, Value::Null, Value::Null, reply_to];
    let operation = (Value::string("operation"), Value::string("com.microsoft:peek-message"));
    let body = vec![
        (Value::string("from-sequence-number"), Value::Long(1)),
        (Value::string("message-count"), Value::Int(1_000)),
    ];
    [
        Value::composite(code::PROPERTIES, properties).encode(),
        codec::section(code::APPLICATION_PROPERTIES, Value::Map(vec![operation])),
        codec::section(code::AMQP_VALUE, Value::Map(body)),
    ]
    .concat()
}

pub(super) fn fill(daemon: &Daemon, messages: usize, body_bytes: usize) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, "victim").unwrap().unwrap();
    let message = data_message(&vec![1; body_bytes]);
    for _ in 0..messages {
        assert_eq!(client.send(0, &message).unwrap().code(), Some(code::ACCEPTED));
    }
}

/// Sends a message of nearly a megabyte like the SDKs: again when the broker is busy, over a new connection when the
/// current one was closed in the middle of a frame.
pub(super) fn send_politely(daemon: &Daemon) {
    let start = Instant::now();
    while !try_to_send(daemon).unwrap_or(false) {
        assert!(start.elapsed() < PATIENCE, "never accepted");
    }
}

fn try_to_send(daemon: &Daemon) -> io::Result<bool> {
    let mut client = Client::connect(daemon.amqp())?;
    client.attach_sender(0, "polite")?.expect("the queue is there");
    let outcome = client.send(0, &data_message(&vec![7; 900 * 1024]))?;
    let text = format!("{outcome:?}");
    let is_accepted = outcome.code() == Some(code::ACCEPTED);
    assert!(is_accepted || text.contains("com.microsoft:server-busy"), "{text}");
    Ok(is_accepted)
}

pub(super) fn growth(daemon: &Daemon, before: u64) -> u64 {
    daemon.resident_bytes().saturating_sub(before)
}

/// Waits until the broker has released all memory except a margin.
pub(super) fn assert_given_back(daemon: &Daemon, before: u64) {
    let start = Instant::now();
    while growth(daemon, before) > MARGIN {
        let growth = growth(daemon, before) / MIB;
        assert!(start.elapsed() < PATIENCE, "{growth} MiB stay after all has been closed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn half_sent_messages_of_many_connections_stay_within_the_budget_and_a_polite_client_gets_through() {
    let mut daemon = Daemon::with_config(CONFIG);
    let before = daemon.resident_bytes();
    let half_senders: Vec<Client> = (0..24).map(|_| half_send(&daemon)).collect();
    let most = growth(&daemon, before);
    assert!(most < MEMORY_MAX + MARGIN, "half-sent messages take {} MiB", most / MIB);
    send_politely(&daemon);
    drop(half_senders);
    assert_given_back(&daemon, before);
    daemon.assert_sound();
}

#[test]
fn answers_that_many_connections_do_not_read_stay_within_the_budget_and_a_polite_client_gets_through() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, 20, 200 * 1024);
    let before = daemon.resident_bytes();
    let rude: Vec<Client> = (0..12).map(|_| ask(&daemon, 100)).collect();
    let most = growth(&daemon, before);
    assert!(most < MEMORY_MAX + MARGIN, "unread answers take {} MiB", most / MIB);
    send_politely(&daemon);
    peek_politely(&daemon).unwrap();
    drop(rude);
    assert_given_back(&daemon, before);
    daemon.assert_sound();
}

/// Peeks like the SDKs: again when the broker is busy.
fn peek_politely(daemon: &Daemon) -> io::Result<()> {
    let mut client = Client::connect(daemon.amqp())?;
    client.attach_management(0, "victim")?;
    let start = Instant::now();
    loop {
        let body = Value::Map(vec![
            (Value::string("from-sequence-number"), Value::Long(1)),
            (Value::string("message-count"), Value::Int(1)),
        ]);
        let (status, _) = client.request(0, "com.microsoft:peek-message", body)?;
        if status == 200 {
            return Ok(());
        }
        assert_eq!(status, 503);
        assert!(start.elapsed() < PATIENCE, "never answered");
        // Each refusal uses credit of the response link: a thousand of them arrive within seconds.
        client.grant(1, 1_000)?;
    }
}

#[test]
fn messages_that_many_connections_do_not_read_stay_within_the_budget() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, 250, 900 * 1024);
    let before = daemon.resident_bytes();
    let deaf: Vec<Client> = (0..40)
        .map(|_| {
            let mut client = Client::connect(daemon.amqp()).unwrap();
            client.attach_receiver(0, "victim", 0).unwrap().unwrap();
            client.say(&flow(0, 0, u32::MAX, false, false)).unwrap();
            client
        })
        .collect();
    send_politely(&daemon);
    let most = growth(&daemon, before);
    assert!(most < MEMORY_MAX + MARGIN, "unread messages take {} MiB", most / MIB);
    drop(deaf);
    assert_given_back(&daemon, before);
    daemon.assert_sound();
}
