//! Concurrent transactions: on the same lock, and in opposite directions between the same queues.

use std::net::SocketAddr;

use peeklock_tests::client::Client;
use peeklock_tests::codec::code;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::stage::{
    CONFIG, COORDINATOR, LINK, accepted, assert_accepted, assert_accepted_in, controller, fill, refused, text,
};

#[test]
fn of_two_transactions_that_complete_one_message_the_first_to_commit_wins() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["old"]);
    let mut client = controller(&daemon);
    client.attach_receiver(LINK, "one", 1).unwrap().unwrap();
    client.attach_sender(LINK + 1, "one").unwrap().unwrap();
    let delivery = client.receive(LINK).unwrap();
    let first = client.declare(COORDINATOR).unwrap();
    let second = client.declare(COORDINATOR).unwrap();
    for (id, name) in [(&first, "of the first"), (&second, "of the second")] {
        assert_accepted_in(&client.send_in(LINK + 1, &text(name), id).unwrap(), id);
        client.settle_in(delivery.id, id, accepted()).unwrap();
    }
    assert_accepted(&client.discharge(COORDINATOR, &second, false).unwrap());
    refused(&client.discharge(COORDINATOR, &first, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["of the second"]);
    daemon.assert_sound();
}

#[test]
fn a_message_completed_twice_in_one_transaction_is_completed_once_or_the_commit_fails_as_a_whole() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["old"]);
    let mut client = controller(&daemon);
    client.attach_receiver(LINK, "one", 1).unwrap().unwrap();
    client.attach_sender(LINK + 1, "one").unwrap().unwrap();
    let delivery = client.receive(LINK).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK + 1, &text("new"), &id).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    let is_committed = client.discharge(COORDINATOR, &id, false).unwrap().code() == Some(code::ACCEPTED);
    assert_eq!(bodies(&daemon, "one"), [if is_committed { "new" } else { "old" }]);
    daemon.assert_sound();
}

/// Moves messages from one queue to another, one in each transaction. It grants credit for these only: one more message
/// would stay locked after it has left, and another carrier would wait for that one.
fn carry(address: SocketAddr, from: &str, to: &str, count: u32) {
    let mut client = Client::connect(address).unwrap();
    client.attach_coordinator(COORDINATOR).unwrap().unwrap();
    client.attach_receiver(LINK, from, 0).unwrap().unwrap();
    client.attach_sender(LINK + 1, to).unwrap().unwrap();
    for _ in 0..count {
        client.grant(LINK, 1).unwrap();
        let delivery = client.receive(LINK).unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        assert_accepted_in(&client.send_in(LINK + 1, &text(&utf8(&delivery.body())), &id).unwrap(), &id);
        assert_accepted_in(&client.settle_in(delivery.id, &id, accepted()).unwrap(), &id);
        assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn transactions_that_cross_each_other_between_two_queues_all_commit() {
    const MESSAGES: usize = 8;
    let mut daemon = Daemon::with_config(CONFIG);
    let names: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    fill(&daemon, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let address = daemon.amqp();
    let carriers: Vec<_> = [("one", "two"), ("two", "one"), ("one", "two"), ("two", "one")]
        .into_iter()
        .map(|(from, to)| std::thread::spawn(move || carry(address, from, to, 50)))
        .collect();
    for carrier in carriers {
        carrier.join().expect("every transaction commits");
    }
    let mut left = [bodies(&daemon, "one"), bodies(&daemon, "two")].concat();
    left.sort();
    assert_eq!(left, names);
    daemon.assert_sound();
}
