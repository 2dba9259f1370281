//! Peers with every right that keep messages in transactions which they never end.

use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, PATIENCE};
use peeklock_tests::codec::{self, Value, code, data_message, frame};
use peeklock_tests::daemon::Daemon;

const MIB: u64 = 1 << 20;
/// What the broker may hold for messages under way.
const MEMORY_MAX: u64 = 64 * MIB;
/// See `memory.rs`.
const MARGIN: u64 = 96 * MIB;
const CONFIG: &str = r#"
[amqp]
reassembly_size_max = "16 MiB"
[limits]
memory_max = "64 MiB"
[[queues]]
name = "victim"
[[queues]]
name = "polite"
"#;

const COORDINATOR: u64 = 0x30;
const DECLARE: u64 = 0x31;
const TRANSACTIONAL_STATE: u64 = 0x34;

/// Sends as many messages of 900 KB in one transaction as the broker reads, and goes on without an end.
fn keep_in_a_transaction(daemon: &Daemon) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.stream().set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    client.attach_sender(0, "victim").unwrap().unwrap();
    let source = Value::composite(code::SOURCE, vec![Value::string("controller")]);
    let target = Value::composite(COORDINATOR, vec![Value::Null]);
    let name = Value::string("coordinator");
    let mut attach = vec![name, Value::Uint(1), Value::Bool(false), Value::Null, Value::Null, source, target];
    attach.extend([Value::Null, Value::Null, Value::Uint(0)]);
    client.say(&Value::composite(code::ATTACH, attach)).unwrap();
    let declare = codec::section(code::AMQP_VALUE, Value::composite(DECLARE, vec![Value::Null]));
    let declared = client.send(1, &declare).unwrap();
    let Value::Binary(txn_id) = declared.field(0).clone() else { panic!("{declared:?}") };
    let message = data_message(&vec![7; 900 * 1024]);
    for id in 1_000..1_099_u32 {
        let state = Value::composite(TRANSACTIONAL_STATE, vec![Value::Binary(txn_id.clone()), Value::Null]);
        let mut pieces = message.chunks(200 * 1024).peekable();
        while let Some(piece) = pieces.next() {
            let transfer = vec![
                Value::Uint(0),
                Value::Uint(id),
                Value::Binary(id.to_be_bytes().to_vec()),
                Value::Uint(0),
                Value::Bool(false),
                Value::Bool(pieces.peek().is_some()),
                Value::Null,
                state.clone(),
            ];
            if client.write(&frame(0, &Value::composite(code::TRANSFER, transfer), piece)).is_err() {
                return client;
            }
        }
    }
    client
}

#[test]
fn open_transactions_of_many_connections_stay_within_the_budget_and_a_polite_client_gets_through() {
    let mut daemon = Daemon::with_config(CONFIG);
    let before = daemon.resident_bytes();
    let rude: Vec<Client> = (0..16).map(|_| keep_in_a_transaction(&daemon)).collect();
    let most = daemon.resident_bytes().saturating_sub(before);
    assert!(most < MEMORY_MAX + MARGIN, "open transactions take {} MiB", most / MIB);
    // Long before any of them times out.
    let start = Instant::now();
    loop {
        let mut client = Client::connect(daemon.amqp()).unwrap();
        client.attach_sender(0, "polite").unwrap().unwrap();
        let outcome = client.send(0, &data_message(&vec![7; 900 * 1024]));
        if outcome.is_ok_and(|outcome| outcome.code() == Some(code::ACCEPTED)) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "never accepted");
    }
    drop(rude);
    daemon.assert_sound();
}
