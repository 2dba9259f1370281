//! Authorized peers that keep messages in transactions that they do not end.

use peeklock_tests::client::Client;
use peeklock_tests::codec::{code, data_message};
use peeklock_tests::daemon::Daemon;

const MIB: u64 = 1 << 20;
/// Limit of the broker's memory for messages under way.
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
"#;

const COORDINATOR: u32 = 0;
const SENDER: u32 = 1;

/// Sends messages of 200 KB in one transaction, one after the other, until one is refused; returns the number accepted.
fn send_until_refused(client: &mut Client, txn_id: &[u8]) -> usize {
    let message = data_message(&vec![7; 200 * 1024]);
    for sent in 0..1_000 {
        let outcome = client.send_in(SENDER, &message, txn_id).expect("an answer long before the time-out");
        let text = format!("{outcome:?}");
        if text.contains("amqp:transaction:rollback") || text.contains("com.microsoft:server-busy") {
            return sent;
        }
        assert!(!text.contains("Symbol("), "{text}");
    }
    panic!("never refused");
}

/// A connection that uses its whole allowance is not read from, so its peer could not even end the transaction: it is
/// rolled back.
#[test]
fn transactions_that_take_too_much_memory_are_rolled_back_and_their_connections_go_on() {
    let config = format!("{CONFIG}[transactions]\nmessages = 1000\n");
    let mut daemon = Daemon::with_config(&config);
    let before = daemon.resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(daemon.amqp()).unwrap();
        client.attach_coordinator(COORDINATOR).unwrap().unwrap();
        client.attach_sender(SENDER, "victim").unwrap().unwrap();
        let txn_id = client.declare(COORDINATOR).unwrap();
        assert!(send_until_refused(&mut client, &txn_id) > 10);
        let most = daemon.resident_bytes().saturating_sub(before);
        assert!(most < MEMORY_MAX + MARGIN, "open transactions take {} MiB", most / MIB);
        let outcome = client.discharge(COORDINATOR, &txn_id, false).unwrap();
        assert!(
            format!("{outcome:?}").contains("amqp:transaction:rollback"),
            "never a part of it: {outcome:?}"
        );
        let plain = client.send(SENDER, &data_message(b"plain")).unwrap();
        assert_eq!(plain.code(), Some(code::ACCEPTED), "{plain:?}");
        clients.push(client);
    }
    daemon.assert_sound();
}
