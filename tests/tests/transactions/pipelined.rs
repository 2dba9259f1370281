//! Frames of transactions in one write, so that none of their operations is answered before the last of them arrives.

use peeklock_tests::client::{Client, disposition, transactional};
use peeklock_tests::codec::{Value, code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::management::token;
use super::stage::{CONFIG, COORDINATOR, LINK, accepted, assert_accepted, controller, fill, refused, text};

/// The handle of a second link to the same queue.
const OTHER: u32 = LINK + 1;
/// Handles of links to the management node.
const MANAGEMENT: u32 = LINK + 2;

/// A client with links to the queue `one`, for receiving, sending and management.
fn attached(daemon: &Daemon) -> Client {
    let mut client = controller(daemon);
    client.attach_receiver(LINK, "one", 10).unwrap().unwrap();
    client.attach_sender(OTHER, "one").unwrap().unwrap();
    client.attach_management(MANAGEMENT, "one").unwrap();
    client
}

/// The same, with the ids of all messages received.
fn received(daemon: &Daemon, messages: &[&str]) -> (Client, Vec<u32>) {
    fill(daemon, messages);
    let mut client = attached(daemon);
    let ids = messages.iter().map(|_| client.receive(LINK).unwrap().id).collect();
    (client, ids)
}

/// Accepts a delivery in a transaction, without waiting.
fn accept(client: &mut Client, delivery: u32, settled: bool, id: &[u8]) {
    let state = transactional(id, Some(accepted()));
    client.say(&disposition(true, delivery, delivery, settled, state)).unwrap();
}

/// The bodies of the messages that exist now, as the client itself is told.
fn browsed(client: &mut Client) -> Vec<Vec<u8>> {
    let messages = client.browse(MANAGEMENT).unwrap();
    messages.iter().map(|message| peeklock_tests::client::body(message)).collect()
}

#[test]
fn a_delivery_goes_from_a_roll_back_into_the_next_transaction() {
    let mut daemon = Daemon::with_config(CONFIG);
    let (mut client, deliveries) = received(&daemon, &["a"]);
    let [first, second] = [client.declare(COORDINATOR).unwrap(), client.declare(COORDINATOR).unwrap()];
    client.hold();
    accept(&mut client, deliveries[0], false, &first);
    let rollback = client.discharge_later(COORDINATOR, &first, true).unwrap();
    accept(&mut client, deliveries[0], false, &second);
    let commit = client.discharge_later(COORDINATOR, &second, false).unwrap();
    for discharge in [rollback, commit] {
        assert_accepted(&client.outcome(discharge, true).unwrap());
    }
    let outcome = client.outcome(deliveries[0], false).unwrap();
    assert_eq!(*outcome.field(0), Value::Binary(second));
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn a_delivery_is_completed_right_behind_a_roll_back() {
    let mut daemon = Daemon::with_config(CONFIG);
    let (mut client, deliveries) = received(&daemon, &["a"]);
    let id = client.declare(COORDINATOR).unwrap();
    client.hold();
    accept(&mut client, deliveries[0], false, &id);
    client.discharge_later(COORDINATOR, &id, true).unwrap();
    assert_accepted(&client.complete(deliveries[0]).unwrap());
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn a_request_right_behind_operations_and_their_discharge_sees_the_commit() {
    let mut daemon = Daemon::with_config(CONFIG);
    let (mut client, deliveries) = received(&daemon, &["old"]);
    let id = client.declare(COORDINATOR).unwrap();
    client.hold();
    for body in ["1", "2", "3"] {
        client.transfer_in(OTHER, &text(body), 0, false, transactional(&id, None)).unwrap();
    }
    accept(&mut client, deliveries[0], false, &id);
    client.discharge_later(COORDINATOR, &id, false).unwrap();
    // The request is written with them.
    assert_eq!(browsed(&mut client), [b"1", b"2", b"3"]);
    daemon.assert_sound();
}

/// The lock of a session ends with its receiver: the commit comes first.
#[test]
fn the_end_of_a_session_receiver_right_behind_a_discharge_comes_after_the_commit() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = controller(&daemon);
    client.attach_sender(OTHER, "sessions").unwrap().unwrap();
    let mut properties = vec![Value::Null; 10];
    properties.push(Value::string("s"));
    let message = [Value::composite(code::PROPERTIES, properties).encode(), data_message(b"a")].concat();
    assert_accepted(&client.send(OTHER, &message).unwrap());
    client.attach_session(LINK, "sessions", "s", 1).unwrap().unwrap();
    let delivery = client.receive(LINK).unwrap().id;
    let id = client.declare(COORDINATOR).unwrap();
    client.hold();
    accept(&mut client, delivery, false, &id);
    let discharge = client.discharge_later(COORDINATOR, &id, false).unwrap();
    client.say(&Value::composite(code::DETACH, vec![Value::Uint(LINK), Value::Bool(true)])).unwrap();
    assert_accepted(&client.outcome(discharge, true).unwrap());
    assert_eq!(bodies(&daemon, "sessions"), [""; 0]);
    daemon.assert_sound();
}

/// With the state or without, in the same write as the outcome or later (JMS and generic clients).
#[test]
fn deliveries_that_the_client_settles_after_their_outcome_stay_part_of_the_transaction() {
    for fail in [false, true] {
        let mut daemon = Daemon::with_config(CONFIG);
        let (mut client, deliveries) = received(&daemon, &["a", "b", "c", "d"]);
        let id = client.declare(COORDINATOR).unwrap();
        let without_state = |delivery| disposition(true, delivery, delivery, true, Value::Null);
        client.hold();
        deliveries[..2].iter().for_each(|delivery| accept(&mut client, *delivery, false, &id));
        accept(&mut client, deliveries[0], true, &id);
        client.say(&without_state(deliveries[1])).unwrap();
        for delivery in &deliveries[2..] {
            client.settle_in(*delivery, &id, accepted()).unwrap();
        }
        accept(&mut client, deliveries[2], true, &id);
        client.say(&without_state(deliveries[3])).unwrap();
        assert_eq!(browsed(&mut client).len(), 4, "none is settled before the end");
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        if fail {
            // Returned as if abandoned, and received again.
            let again: Vec<_> = (0..4).map(|_| client.receive(LINK).unwrap().body()).collect();
            assert_eq!(again.concat(), b"abcd");
        }
        assert_eq!(bodies(&daemon, "one").len(), if fail { 4 } else { 0 });
        daemon.assert_sound();
    }
}

#[test]
fn one_lost_lock_in_a_range_leaves_the_other_deliveries_to_the_client() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["a", "b", "c"]);
    let mut client = attached(&daemon);
    let first = client.receive(LINK).unwrap().id;
    let token = Value::Uuid(token(&mut client));
    client.receive(LINK).unwrap();
    // The second is completed by its token, of which the link is not told.
    let body = vec![
        (Value::string("lock-tokens"), Value::Array(vec![token])),
        (Value::string("disposition-status"), Value::string("completed")),
    ];
    let completed = client.request(MANAGEMENT, "com.microsoft:update-disposition", Value::Map(body));
    assert_eq!(completed.unwrap().0, 200);
    let id = client.declare(COORDINATOR).unwrap();
    let state = transactional(&id, Some(accepted()));
    client.say(&disposition(true, first, first + 2, false, state)).unwrap();
    let lost = client.outcome(first + 1, false).unwrap();
    assert_eq!(refused(&lost), "com.microsoft:message-lock-lost");
    let outcome = client.discharge(COORDINATOR, &id, false).unwrap();
    assert_eq!(refused(&outcome), "amqp:transaction:rollback");
    for delivery in [first, first + 2] {
        assert_accepted(&client.complete(delivery).unwrap());
    }
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}
