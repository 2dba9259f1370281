//! A client ends a link, a session or the connection, or disappears, in every state of its links: it gets an answer, and
//! nothing is left of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::time::{Duration, Instant};

use peeklock_tests::client::{
    Client, PATIENCE, attach, disposition, flow, session_source, terminus, transactional, unlocked,
};
use peeklock_tests::codec::{self, Value, code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http;

const CONFIG: &str = "[[queues]]\nname = \"plain\"\nlock_duration = \"PT5S\"\nmax_delivery_count = 1000\n\
                      [[queues]]\nname = \"sessions\"\nrequires_session = true\n\
                      [[queues]]\nname = \"deleting\"\n[[queues]]\nname = \"empty\"\n\
                      [[queues]]\nname = \"none\"\nrequires_session = true\n";
const SESSION: &str = "s";

/// Brings links into a state; returns their handles.
type Enter = fn(&mut Client) -> Vec<u32>;

/// The states of links when the client ends them.
const STATES: [(&str, Enter); 15] = [
    ("deliveries under way", deliveries_under_way),
    ("drain requested", drain_requested),
    ("credit reduced and drain requested", credit_reduced_and_drain_requested),
    ("attach requested", attach_requested),
    ("next session awaited", next_session_awaited),
    ("session requested", session_requested),
    ("session held", session_held),
    ("deletion under way", deletion_under_way),
    ("settlement under way", settlement_under_way),
    ("in transaction", |client| in_transaction(client).0),
    ("commit requested", commit_requested),
    ("requests under way", requests_under_way),
    ("requests without a link for answers", requests_without_link_for_answers),
    ("sends under way", sends_under_way),
    ("delivery unfinished", delivery_unfinished),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Detach,
    End,
    Close,
    Disappear,
}

fn receiver(handle: u32, source: Value) -> Value {
    let name = format!("receiver-{handle}");
    attach(handle, &name, true, source, terminus(code::TARGET, &name))
}

fn next_session(address: &str) -> Value {
    let filter = vec![(Value::symbol("com.microsoft:session-filter"), Value::Null)];
    let mut fields = vec![Value::string(address)];
    fields.resize(7, Value::Null);
    fields.push(Value::Map(filter));
    Value::composite(code::SOURCE, fields)
}

fn plain() -> Value {
    terminus(code::SOURCE, "plain")
}

fn deliveries_under_way(client: &mut Client) -> Vec<u32> {
    client.say(&receiver(0, plain())).unwrap();
    client.say(&flow(0, 0, 100, false, false)).unwrap();
    vec![0]
}

fn drain_requested(client: &mut Client) -> Vec<u32> {
    client.say(&receiver(0, plain())).unwrap();
    client.say(&flow(0, 0, 100, true, false)).unwrap();
    vec![0]
}

fn credit_reduced_and_drain_requested(client: &mut Client) -> Vec<u32> {
    client.attach_receiver(0, "plain", 100).unwrap().unwrap();
    client.say(&flow(0, 0, 1, false, false)).unwrap();
    client.say(&flow(0, 0, 1, true, false)).unwrap();
    vec![0]
}

fn attach_requested(client: &mut Client) -> Vec<u32> {
    client.say(&receiver(0, plain())).unwrap();
    vec![0]
}

fn next_session_awaited(client: &mut Client) -> Vec<u32> {
    client.say(&receiver(0, next_session("none"))).unwrap();
    vec![0]
}

fn session_requested(client: &mut Client) -> Vec<u32> {
    client.say(&receiver(0, session_source("sessions", SESSION))).unwrap();
    client.say(&flow(0, 0, 10, false, false)).unwrap();
    vec![0]
}

fn session_held(client: &mut Client) -> Vec<u32> {
    client.attach_session(0, "sessions", SESSION, 1).unwrap().unwrap();
    client.receive(0).unwrap();
    vec![0]
}

fn deletion_under_way(client: &mut Client) -> Vec<u32> {
    client.say(&unlocked(receiver(0, terminus(code::SOURCE, "deleting")))).unwrap();
    client.say(&flow(0, 0, 100, false, false)).unwrap();
    vec![0]
}

fn settlement_under_way(client: &mut Client) -> Vec<u32> {
    client.attach_receiver(0, "plain", 1).unwrap().unwrap();
    let id = client.receive(0).unwrap().id;
    let release = Value::composite(code::RELEASED, Vec::new());
    client.say(&disposition(true, id, id, false, release)).unwrap();
    vec![0]
}

/// Links with a message sent and one settled in a transaction, and its id.
fn in_transaction(client: &mut Client) -> (Vec<u32>, Vec<u8>) {
    client.attach_coordinator(0).unwrap().unwrap();
    client.attach_sender(1, "plain").unwrap().unwrap();
    client.attach_receiver(2, "plain", 1).unwrap().unwrap();
    let (transaction, id) = (client.declare(0).unwrap(), client.receive(2).unwrap().id);
    client.transfer_in(1, &data_message(b"more"), 0, false, transactional(&transaction, None)).unwrap();
    let release = Value::composite(code::RELEASED, Vec::new());
    client.say(&disposition(true, id, id, false, transactional(&transaction, Some(release)))).unwrap();
    (vec![0, 1, 2], transaction)
}

fn commit_requested(client: &mut Client) -> Vec<u32> {
    let (handles, transaction) = in_transaction(client);
    client.discharge_later(0, &transaction, false).unwrap();
    handles
}

fn requests_under_way(client: &mut Client) -> Vec<u32> {
    client.attach_management(0, "plain").unwrap();
    for _ in 0..100 {
        client.transfer(0, &peek(), 0).unwrap();
    }
    vec![0, 1]
}

fn requests_without_link_for_answers(client: &mut Client) -> Vec<u32> {
    client.attach_sender(0, "plain/$management").unwrap().unwrap();
    client.transfer(0, &peek(), 0).unwrap();
    vec![0]
}

fn sends_under_way(client: &mut Client) -> Vec<u32> {
    client.attach_sender(0, "empty").unwrap().unwrap();
    for _ in 0..50 {
        client.transfer(0, &data_message(b"sent"), 0).unwrap();
    }
    vec![0]
}

fn delivery_unfinished(client: &mut Client) -> Vec<u32> {
    client.attach_sender(0, "empty").unwrap().unwrap();
    client.transfer_in(0, &data_message(b"part"), 0, true, Value::Null).unwrap();
    vec![0]
}

fn peek() -> Vec<u8> {
    let properties =
        vec![Value::string("request"), Value::Null, Value::Null, Value::Null, Value::string("receiver-1")];
    let operation = vec![(Value::string("operation"), Value::string("com.microsoft:peek-message"))];
    let body = vec![
        (Value::string("from-sequence-number"), Value::Long(1)),
        (Value::string("message-count"), Value::Int(10)),
    ];
    [
        Value::composite(code::PROPERTIES, properties).encode(),
        codec::section(code::APPLICATION_PROPERTIES, Value::Map(operation)),
        codec::section(code::AMQP_VALUE, Value::Map(body)),
    ]
    .concat()
}

/// Ends the links and waits for the answer.
fn end(client: &mut Client, handles: &[u32], ending: Ending) {
    match ending {
        Ending::Detach => {
            for &handle in handles {
                let detach = vec![Value::Uint(handle), Value::Bool(true)];
                client.say(&Value::composite(code::DETACH, detach)).unwrap();
            }
            for _ in handles {
                client.wait(|frame| frame.is(code::DETACH).then_some(())).unwrap();
            }
        }
        Ending::End => {
            client.say(&Value::composite(code::END, Vec::new())).unwrap();
            client.wait(|frame| frame.is(code::END).then_some(())).unwrap();
        }
        Ending::Close => {
            client.say(&Value::composite(code::CLOSE, Vec::new())).unwrap();
            client.wait(|frame| frame.is(code::CLOSE).then_some(())).unwrap();
        }
        Ending::Disappear => {}
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn connections(daemon: &Daemon) -> String {
    let (status, answer) = http::ask(daemon.http(), "GET", "/$api/v1/connections", "", b"");
    assert_eq!(status, 200);
    answer
}

#[test]
fn every_ending_is_answered_in_every_state_and_nothing_is_left() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon);
    for (state, enter) in STATES {
        for ending in [Ending::Detach, Ending::End, Ending::Close, Ending::Disappear] {
            eprintln!("{ending:?}: {state}");
            let mut client = Client::connect(daemon.amqp()).unwrap();
            let handles = enter(&mut client);
            end(&mut client, &handles, ending);
            if matches!(ending, Ending::Detach | Ending::End) {
                until("links or locks are left", || {
                    let rows = connections(&daemon);
                    rows.contains("\"links\":0,") && rows.contains("\"unsettled\":0}")
                });
            }
            drop(client);
            let mut other = Client::connect(daemon.amqp()).unwrap();
            until("the session is free", || {
                let taken = other.attach_session(7, "sessions", SESSION, 0).unwrap();
                taken.is_ok()
            });
            drop(other);
            until("connections are left", || connections(&daemon).contains("\"connections\":[]"));
        }
    }
    // No message of the queue is lost or stays locked.
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_receiver(0, "plain", 1_000).unwrap().unwrap();
    for _ in 0..5 {
        let id = client.receive(0).unwrap().id;
        assert_eq!(client.complete(id).unwrap().code(), Some(code::ACCEPTED));
    }
    daemon.assert_sound();
}

fn fill(daemon: &Daemon) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    for (handle, queue) in (0..).zip(["plain", "deleting", "sessions"]) {
        client.attach_sender(handle, queue).unwrap().unwrap();
        for _ in 0..5 {
            let mut properties = vec![Value::Null; 10];
            properties.push(if queue == "sessions" { Value::string(SESSION) } else { Value::Null });
            let message =
                [Value::composite(code::PROPERTIES, properties).encode(), data_message(b"kept")].concat();
            assert_eq!(client.send(handle, &message).unwrap().code(), Some(code::ACCEPTED));
        }
    }
}
