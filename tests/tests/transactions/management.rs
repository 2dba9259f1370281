//! Requests to management nodes in transactions.

use peeklock_tests::client::Client;
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::stage::{CONFIG, COORDINATOR, LINK, assert_accepted, controller, fill, text};

/// The year 2100.
const LATER_MS: i64 = 4_102_444_800_000;

fn map(pairs: Vec<(&str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (Value::string(key), value)).collect())
}

/// A client with a link to the coordinator and, as [`LINK`] and the next, the management links of an entity.
fn managing(daemon: &Daemon, entity: &str) -> Client {
    let mut client = controller(daemon);
    client.attach_management(LINK, entity).unwrap();
    client
}

/// A request to schedule a message in the year 2100.
pub(super) fn schedule(body: &str) -> Value {
    let annotation = (Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(LATER_MS));
    let annotations = codec::section(code::MESSAGE_ANNOTATIONS, Value::Map(vec![annotation]));
    let message = [annotations, text(body)].concat();
    let entry = map(vec![("message-id", Value::string(body)), ("message", Value::Binary(message))]);
    map(vec![("messages", Value::List(vec![entry]))])
}

fn numbers(answer: &Value) -> Vec<i64> {
    match answer.get("sequence-numbers") {
        Some(Value::Array(numbers)) => numbers.iter().map(|number| number.integer().unwrap()).collect(),
        other => panic!("no sequence numbers but {other:?}"),
    }
}

fn cancel(numbers: &[i64]) -> Value {
    map(vec![("sequence-numbers", Value::Array(numbers.iter().copied().map(Value::Long).collect()))])
}

#[test]
fn scheduled_messages_come_with_the_commit_and_keep_their_numbers() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = managing(&daemon, "one");
    for fail in [true, false] {
        let id = client.declare(COORDINATOR).unwrap();
        let (status, answer) =
            client.request_in(LINK, "com.microsoft:schedule-message", schedule("later"), &id).unwrap();
        assert_eq!(status, 200);
        assert_eq!(bodies(&daemon, "one"), [""; 0]);
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        if !fail {
            let shown = client.browse(LINK).unwrap();
            assert_eq!(peeklock_tests::client::sequence_number(&shown[0]), numbers(&answer)[0]);
        }
    }
    assert_eq!(bodies(&daemon, "one"), ["later"]);
    daemon.assert_sound();
}

#[test]
fn a_cancellation_takes_effect_with_the_commit() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = managing(&daemon, "one");
    let (_, answer) = client.request(LINK, "com.microsoft:schedule-message", schedule("later")).unwrap();
    let numbers = numbers(&answer);
    for fail in [true, false] {
        let id = client.declare(COORDINATOR).unwrap();
        let body = cancel(&numbers);
        let (status, _) =
            client.request_in(LINK, "com.microsoft:cancel-scheduled-message", body, &id).unwrap();
        assert_eq!(status, 200);
        assert_eq!(bodies(&daemon, "one"), ["later"]);
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
    }
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn a_refused_request_makes_the_commit_fail() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = managing(&daemon, "one");
    let id = client.declare(COORDINATOR).unwrap();
    client.request_in(LINK, "com.microsoft:schedule-message", schedule("later"), &id).unwrap();
    let (status, _) =
        client.request_in(LINK, "com.microsoft:cancel-scheduled-message", cancel(&[999]), &id).unwrap();
    assert_eq!(status, 404);
    let outcome = client.discharge(COORDINATOR, &id, false).unwrap();
    assert_eq!(outcome.code(), Some(code::REJECTED));
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn a_disposition_by_the_management_node_takes_effect_with_the_commit() {
    for (status, left, dead) in
        [("completed", 0, 0), ("suspended", 0, 1), ("abandoned", 1, 0), ("defered", 1, 0)]
    {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["a"]);
        let mut client = managing(&daemon, "one");
        client.attach_receiver(LINK + 2, "one", 1).unwrap().unwrap();
        let token = token(&mut client);
        let body = || {
            map(vec![
                ("disposition-status", Value::string(status)),
                ("lock-tokens", Value::Array(vec![Value::Uuid(token)])),
            ])
        };
        for fail in [true, false] {
            let id = client.declare(COORDINATOR).unwrap();
            let (answer, _) =
                client.request_in(LINK, "com.microsoft:update-disposition", body(), &id).unwrap();
            assert_eq!(answer, 200, "{status}");
            assert_eq!(bodies(&daemon, "one"), ["a"], "{status}");
            assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        }
        assert_eq!(bodies(&daemon, "one").len(), left, "{status}");
        assert_eq!(bodies(&daemon, "one/$DeadLetterQueue").len(), dead, "{status}");
        // The lock no longer exists, for this way of settling either.
        let (again, _) = client.request(LINK, "com.microsoft:update-disposition", body()).unwrap();
        assert_eq!(again, 410, "{status}");
        daemon.assert_sound();
    }
}

/// The lock token of the next message: its delivery tag, the first three fields of which are little-endian.
pub(super) fn token(client: &mut Client) -> [u8; 16] {
    let tag = client.wait(|frame| match frame.field(2) {
        Value::Binary(tag) if frame.is(code::TRANSFER) && tag.len() == 16 => Some(tag.clone()),
        _ => None,
    });
    let mut token: [u8; 16] = tag.unwrap().try_into().unwrap();
    token[..4].reverse();
    token[4..6].reverse();
    token[6..8].reverse();
    token
}

#[test]
fn the_state_of_a_session_changes_with_the_commit() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = managing(&daemon, "sessions");
    client.attach_session(LINK + 2, "sessions", "s", 1).unwrap().unwrap();
    let set =
        map(vec![("session-id", Value::string("s")), ("session-state", Value::Binary(b"state".to_vec()))]);
    let get = map(vec![("session-id", Value::string("s"))]);
    for fail in [true, false] {
        let id = client.declare(COORDINATOR).unwrap();
        let (status, _) =
            client.request_in(LINK, "com.microsoft:set-session-state", set.clone(), &id).unwrap();
        assert_eq!(status, 200);
        let (_, before) = client.request(LINK, "com.microsoft:get-session-state", get.clone()).unwrap();
        assert_eq!(before.get("session-state"), Some(&Value::Null));
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
    }
    let (_, after) = client.request(LINK, "com.microsoft:get-session-state", get).unwrap();
    assert_eq!(after.get("session-state"), Some(&Value::Binary(b"state".to_vec())));
    daemon.assert_sound();
}

#[test]
fn browsing_in_a_transaction_is_answered_at_once_and_receiving_and_deleting_is_refused() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["a"]);
    let mut client = managing(&daemon, "one");
    client.attach_receiver(LINK + 2, "one", 1).unwrap().unwrap();
    let delivery = client.receive(LINK + 2).unwrap();
    let number = delivery.sequence_number();
    client
        .dispose(
            delivery.id,
            delivery.id,
            Value::composite(code::MODIFIED, vec![Value::Null, Value::Bool(true)]),
        )
        .unwrap();
    client.outcome(delivery.id, false).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    let peek = map(vec![("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(10))]);
    let (status, _) = client.request_in(LINK, "com.microsoft:peek-message", peek, &id).unwrap();
    assert_eq!(status, 200);
    let receive = map(vec![
        ("sequence-numbers", Value::Array(vec![Value::Long(number)])),
        ("receiver-settle-mode", Value::Uint(0)),
    ]);
    let (status, _) =
        client.request_in(LINK, "com.microsoft:receive-by-sequence-number", receive, &id).unwrap();
    assert_eq!(status, 400);
    assert_accepted(&client.discharge(COORDINATOR, &id, true).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["a"]);
    daemon.assert_sound();
}

#[test]
fn a_request_with_an_unknown_transaction_is_refused() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = managing(&daemon, "one");
    let (status, _) =
        client.request_in(LINK, "com.microsoft:schedule-message", schedule("never"), &[7; 16]).unwrap();
    assert_eq!(status, 400);
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}
