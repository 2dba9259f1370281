//! Helpers shared by the tests of transactions.

use peeklock_tests::client::Client;
use peeklock_tests::codec::{Value, code, data_message};
use peeklock_tests::daemon::Daemon;

/// Two queues, one with sessions, and a topic.
pub(super) const CONFIG: &str = r#"
[[queues]]
name = "one"
[[queues]]
name = "two"
[[queues]]
name = "sessions"
requires_session = true
[[topics]]
name = "topic"
[[topics.subscriptions]]
name = "all"
"#;

/// The handle of the link to the coordinator.
pub(super) const COORDINATOR: u32 = 0;
/// The handle of the first other link.
pub(super) const LINK: u32 = 1;

/// A client with a link to the coordinator.
pub(super) fn controller(daemon: &Daemon) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_coordinator(COORDINATOR).unwrap().unwrap();
    client
}

/// A client with a link to the coordinator and, as [`LINK`], one that sends to the queue `one`.
pub(super) fn sending(daemon: &Daemon) -> Client {
    let mut client = controller(daemon);
    client.attach_sender(LINK, "one").unwrap().unwrap();
    client
}

/// Stores messages with these bodies in the queue `one`.
pub(super) fn fill(daemon: &Daemon, bodies: &[&str]) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, "one").unwrap().unwrap();
    for body in bodies {
        assert_accepted(&client.send(0, &text(body)).unwrap());
    }
}

/// A message with this body.
pub(super) fn text(body: &str) -> Vec<u8> {
    data_message(body.as_bytes())
}

/// The outcome `accepted`.
pub(super) fn accepted() -> Value {
    Value::composite(code::ACCEPTED, Vec::new())
}

pub(super) fn assert_accepted(outcome: &Value) {
    assert_eq!(outcome.code(), Some(code::ACCEPTED), "{outcome:?}");
}

/// Checks a provisional outcome: in this transaction, and accepted.
pub(super) fn assert_accepted_in(outcome: &Value, transaction: &[u8]) {
    assert_eq!(outcome.code(), Some(code::TRANSACTIONAL_STATE), "{outcome:?}");
    assert_eq!(*outcome.field(0), Value::Binary(transaction.to_vec()));
    assert_accepted(outcome.field(1));
}

/// The condition of a rejection, with or without a transactional state.
pub(super) fn refused(outcome: &Value) -> &str {
    let outcome = if outcome.code() == Some(code::TRANSACTIONAL_STATE) { outcome.field(1) } else { outcome };
    assert_eq!(outcome.code(), Some(code::REJECTED), "{outcome:?}");
    outcome.field(0).field(0).text().expect("a rejection with an error")
}
