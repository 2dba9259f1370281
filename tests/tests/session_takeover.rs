//! Sessions that other receivers may take over, frame by frame; only the .NET SDK supports them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use peeklock_tests::client::{Client, Delivery};
use peeklock_tests::codec::{self, Value, code, data_message};
use peeklock_tests::daemon::Daemon;

const CONFIG: &str = "[[queues]]\nname = \"sessions\"\nrequires_session = true\n\
                      [[queues]]\nname = \"brief\"\nrequires_session = true\nlock_duration = \"PT5S\"\n\
                      [[queues]]\nname = \"plain\"\n";
const MANAGEMENT: u32 = 10;

fn map(pairs: Vec<(&str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (Value::string(key), value)).collect())
}

fn fill(daemon: &Daemon, queue: &str, bodies: &[&str]) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    for body in bodies {
        let mut properties = vec![Value::Null; 10];
        properties.push(Value::string("s"));
        let message =
            [Value::composite(code::PROPERTIES, properties).encode(), data_message(body.as_bytes())].concat();
        assert_eq!(client.send(0, &message).unwrap().code(), Some(code::ACCEPTED));
    }
}

/// The condition of an error.
fn condition(error: &Value) -> &str {
    error.field(0).text().unwrap()
}

/// The lock token of a delivery.
fn lock_token(delivery: &Delivery) -> [u8; 16] {
    const DELIVERY_ANNOTATIONS: u64 = 0x71;
    let sections = codec::sections(&delivery.message);
    let annotations = sections.iter().find(|section| section.code() == Some(DELIVERY_ANNOTATIONS)).unwrap();
    match annotations.inner().get("x-opt-lock-token") {
        Some(Value::Uuid(token)) => *token,
        other => panic!("no lock token but {other:?}"),
    }
}

/// Waits until the broker detaches a link; returns the condition.
fn detached(client: &mut Client) -> String {
    let is_detach =
        |frame: &peeklock_tests::client::Frame| frame.is(code::DETACH).then(|| frame.field(2).clone());
    condition(&client.wait(is_detach).unwrap()).to_owned()
}

fn settle(client: &mut Client, token: [u8; 16], session: Option<&str>) -> i64 {
    let mut body = vec![
        ("disposition-status", Value::string("completed")),
        ("lock-tokens", Value::Array(vec![Value::Uuid(token)])),
    ];
    body.extend(session.map(|session| ("session-id", Value::string(session))));
    client.request(MANAGEMENT, "com.microsoft:update-disposition", map(body)).unwrap().0
}

fn renew(client: &mut Client) -> i64 {
    let body = map(vec![("session-id", Value::string("s"))]);
    client.request(MANAGEMENT, "com.microsoft:renew-session-lock", body).unwrap().0
}

/// A client with the management links of a queue.
fn managing(daemon: &Daemon, queue: &str) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_management(MANAGEMENT, queue).unwrap();
    client
}

#[test]
fn a_client_with_the_token_takes_the_session_over_and_settles_its_messages() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, "sessions", &["a", "b"]);
    let (mut former, mut next) = (managing(&daemon, "sessions"), managing(&daemon, "sessions"));
    let (session, token) =
        former.attach_shared_session(0, "sessions", (Some("s"), None), 1).unwrap().unwrap();
    assert_eq!(session, "s");
    let message = former.receive(0).unwrap();
    let taken = next.attach_shared_session(0, "sessions", (Some("s"), Some(token)), 5).unwrap().unwrap();
    assert_eq!(taken, ("s".to_owned(), token), "the token stays");
    assert_eq!(detached(&mut former), "com.microsoft:session-lock-lost");
    assert_eq!(next.receive(0).unwrap().body(), b"b", "the other is in flight");
    assert_eq!((renew(&mut former), renew(&mut next)), (410, 200));
    assert_eq!(settle(&mut former, lock_token(&message), Some("s")), 410);
    assert_eq!(settle(&mut next, lock_token(&message), Some("s")), 200);
    assert_eq!(next.browse(MANAGEMENT).unwrap().len(), 1);
    daemon.assert_sound();
}

#[test]
fn both_may_be_on_one_connection() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, "sessions", &["a"]);
    let mut client = managing(&daemon, "sessions");
    let (_, token) = client.attach_shared_session(0, "sessions", (None, None), 1).unwrap().unwrap();
    let message = client.receive(0).unwrap();
    client.attach_shared_session(1, "sessions", (Some("s"), Some(token)), 1).unwrap().unwrap();
    assert_eq!(settle(&mut client, lock_token(&message), Some("s")), 200);
    assert_eq!(renew(&mut client), 200);
    daemon.assert_sound();
}

#[test]
fn of_two_that_present_the_token_the_second_takes_over_from_the_first() {
    let mut daemon = Daemon::with_config(CONFIG);
    let [mut holder, mut first, mut second] = [(); 3].map(|()| managing(&daemon, "sessions"));
    let (_, token) = holder.attach_shared_session(0, "sessions", (Some("s"), None), 1).unwrap().unwrap();
    for client in [&mut first, &mut second] {
        client.attach_shared_session(0, "sessions", (Some("s"), Some(token)), 1).unwrap().unwrap();
    }
    assert_eq!(detached(&mut holder), "com.microsoft:session-lock-lost");
    assert_eq!(detached(&mut first), "com.microsoft:session-lock-lost");
    assert_eq!(renew(&mut second), 200);
    daemon.assert_sound();
}

#[test]
fn a_token_that_is_not_the_sessions_is_refused() {
    let mut daemon = Daemon::with_config(CONFIG);
    let (mut holder, mut other) = (managing(&daemon, "sessions"), managing(&daemon, "sessions"));
    let (_, mut token) = holder.attach_shared_session(0, "sessions", (Some("s"), None), 1).unwrap().unwrap();
    token[0] ^= 1;
    let mut links = 0..;
    let mut refused = |filter| {
        let handle = links.next().unwrap();
        other.attach_shared_session(handle, "sessions", filter, 1).unwrap().unwrap_err()
    };
    assert_eq!(condition(&refused((Some("s"), Some(token)))), "com.microsoft:session-cannot-be-locked");
    assert_eq!(condition(&refused((Some("s"), None))), "com.microsoft:session-cannot-be-locked");
    assert_eq!(condition(&refused((Some("nobody's"), Some(token)))), "com.microsoft:session-lock-lost");
    assert_eq!(condition(&refused((None, Some(token)))), "com.microsoft:argument-error");
    assert_eq!(renew(&mut holder), 200, "nothing has changed for the holder");
    daemon.assert_sound();
}

#[test]
fn a_session_held_exclusively_and_a_queue_without_sessions_are_refused() {
    let mut daemon = Daemon::with_config(CONFIG);
    let (mut holder, mut other) = (managing(&daemon, "sessions"), managing(&daemon, "sessions"));
    holder.attach_session(0, "sessions", "s", 1).unwrap().unwrap();
    let refused = other.attach_shared_session(0, "sessions", (Some("s"), Some([0; 16])), 1).unwrap();
    assert_eq!(condition(&refused.unwrap_err()), "com.microsoft:session-cannot-be-locked");
    let refused = other.attach_shared_session(1, "plain", (Some("s"), None), 1).unwrap();
    assert_eq!(condition(&refused.unwrap_err()), "amqp:not-allowed");
    assert_eq!(renew(&mut holder), 200);
    daemon.assert_sound();
}

#[test]
fn the_token_ends_with_the_lock_and_with_the_broker() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, "brief", &["a"]);
    let mut client = managing(&daemon, "brief");
    let (_, token) = client.attach_shared_session(0, "brief", (Some("s"), None), 1).unwrap().unwrap();
    // A holder with an unsettled message loses the session when its lock expires.
    client.receive(0).unwrap();
    assert_eq!(detached(&mut client), "com.microsoft:session-lock-lost");
    let refused = client.attach_shared_session(1, "brief", (Some("s"), Some(token)), 1).unwrap();
    assert_eq!(condition(&refused.unwrap_err()), "com.microsoft:session-lock-lost");
    let (_, token) = client.attach_shared_session(2, "brief", (Some("s"), None), 1).unwrap().unwrap();
    daemon.kill();
    daemon.start();
    let mut client = managing(&daemon, "brief");
    let refused = client.attach_shared_session(0, "brief", (Some("s"), Some(token)), 1).unwrap();
    assert_eq!(condition(&refused.unwrap_err()), "com.microsoft:session-lock-lost");
    client.attach_shared_session(1, "brief", (Some("s"), None), 1).unwrap().unwrap();
    daemon.assert_sound();
}
