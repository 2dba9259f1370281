//! Peers that request messages and do not read them: in any mode, with any number of links and connections, all
//! together stay within `limits.memory_max`, and a polite client is served.

use std::time::Duration;

use peeklock_tests::client::Client;
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;

use super::memory::{CONFIG, MARGIN, MEMORY_MAX, MIB, assert_given_back, fill, growth, send_politely};

const MESSAGES: usize = 250;
const BODY_BYTES: usize = 900 * 1024;
/// Number of memory measurements while no peer reads, and the pause in between.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Runs an attack, and asserts that it uses bounded memory and does not prevent others from sending.
fn assert_bounded(attack: impl Fn(&Daemon) -> Vec<Client>) {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, MESSAGES, BODY_BYTES);
    let before = daemon.resident_bytes();
    let deaf = attack(&daemon);
    let mut most = 0;
    for _ in 0..LOOKS {
        most = most.max(growth(&daemon, before));
        std::thread::sleep(PAUSE);
    }
    send_politely(&daemon);
    most = most.max(growth(&daemon, before));
    assert!(most < MEMORY_MAX + MARGIN, "unread messages take {} MiB", most / MIB);
    drop(deaf);
    assert_given_back(&daemon, before);
    daemon.assert_sound();
}

#[test]
fn messages_without_locks_that_many_connections_do_not_read_stay_within_the_budget() {
    assert_bounded(|daemon| {
        let deaf = |_| {
            let mut client = Client::connect(daemon.amqp()).unwrap();
            client.attach_unlocked(0, "victim", 100).unwrap();
            client
        };
        (0..50).map(deaf).collect()
    });
}

#[test]
fn messages_without_locks_on_many_links_of_one_connection_stay_within_the_budget() {
    assert_bounded(|daemon| {
        let mut client = Client::connect(daemon.amqp()).unwrap();
        for link in 0..240 {
            // Once memory is used up, the connection may be closed because its peer does not read.
            if client.attach_unlocked(link, "victim", 1).is_err() {
                break;
            }
        }
        vec![client]
    });
}

#[test]
fn one_message_for_each_of_many_connections_stays_within_the_budget() {
    assert_bounded(|daemon| {
        let deaf = |_| {
            let mut client = Client::connect(daemon.amqp()).unwrap();
            client.attach_receiver(0, "victim", 1).unwrap().unwrap();
            client
        };
        (0..240).map(deaf).collect()
    });
}

/// Receives every message and defers it.
fn defer_all(daemon: &Daemon) {
    const MODIFIED: u64 = 0x26;
    let deferred = Value::composite(MODIFIED, vec![Value::Bool(false), Value::Bool(true)]);
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_receiver(0, "victim", 0).unwrap().unwrap();
    for _ in 0..MESSAGES {
        client.grant(0, 1).unwrap();
        let id = client.receive(0).unwrap().id;
        client.dispose(id, id, deferred.clone()).unwrap();
        client.outcome(id, false).unwrap();
    }
}

/// A request that receives and locks deferred messages.
fn deferred(numbers: impl Iterator<Item = usize>) -> Vec<u8> {
    let numbers = numbers.map(|number| Value::Long(i64::try_from(number).unwrap())).collect();
    let properties =
        vec![Value::Ulong(1), Value::Null, Value::Null, Value::Null, Value::string("receiver-1")];
    let operation = (Value::string("operation"), Value::string("com.microsoft:receive-by-sequence-number"));
    let body = vec![
        (Value::string("sequence-numbers"), Value::List(numbers)),
        (Value::string("receiver-settle-mode"), Value::Uint(1)),
    ];
    [
        Value::composite(code::PROPERTIES, properties).encode(),
        codec::section(code::APPLICATION_PROPERTIES, Value::Map(vec![operation])),
        codec::section(code::AMQP_VALUE, Value::Map(body)),
    ]
    .concat()
}

#[test]
fn deferred_messages_that_many_connections_do_not_read_stay_within_the_budget() {
    const CONNECTIONS: usize = 10;
    assert_bounded(|daemon| {
        defer_all(daemon);
        let each = MESSAGES / CONNECTIONS;
        let deaf = |connection| {
            let mut client = Client::connect(daemon.amqp()).unwrap();
            client.attach_management(0, "victim").unwrap();
            let first = connection * each + 1;
            client.transfer(0, &deferred(first..first + each), 0).unwrap();
            client
        };
        (0..CONNECTIONS).map(deaf).collect()
    });
}
