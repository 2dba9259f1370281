//! Resources of a connection before its peer has authenticated.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use peeklock_tests::client::{
    AMQP_HEADER, Client, PATIENCE, SASL_HEADER, attach, begin, flow, open, terminus, transfer,
};
use peeklock_tests::codec::{self, Value, code, frame};
use peeklock_tests::daemon::{Daemon, command};
use peeklock_tests::http;

use super::framing::beside_a_bystander;

/// The client's bytes up to the session, without a credential.
fn anonymous_greeting() -> Vec<u8> {
    let init = Value::composite(code::SASL_INIT, vec![Value::symbol("ANONYMOUS")]);
    [
        SASL_HEADER.to_vec(),
        codec::raw_frame(2, 1, 0, &init.encode()),
        AMQP_HEADER.to_vec(),
        frame(0, &open(), &[]),
        frame(0, &begin(), &[]),
    ]
    .concat()
}

fn connect_anonymously(daemon: &Daemon) -> Client {
    let mut client = Client::plug(daemon.amqp()).unwrap();
    client.write(&anonymous_greeting()).unwrap();
    client.read_header().unwrap();
    client.wait(|frame| frame.is(code::SASL_OUTCOME).then_some(())).unwrap();
    client.read_header().unwrap();
    client.wait(|frame| frame.is(code::BEGIN).then_some(())).unwrap();
    client
}

fn cbs_sender(handle: u32, name: &str) -> Value {
    attach(handle, name, false, Value::Null, terminus(code::TARGET, "$cbs"))
}

/// Growth of the daemon's memory while `attack` runs and until the daemon has read everything.
fn growth_bytes(daemon: &Daemon, attack: impl FnOnce()) -> u64 {
    let before = daemon.resident_bytes();
    attack();
    // The daemon may still be reading, and its memory growing, until a new connection has been served.
    let began = Instant::now();
    connect_anonymously(daemon);
    assert!(began.elapsed() < PATIENCE);
    daemon.resident_bytes().saturating_sub(before)
}

#[test]
fn heads_of_requests_that_never_end_cost_bounded_memory() {
    const CONNECTIONS: usize = 900;
    /// Less than the longest head that is accepted.
    const HEAD_BYTES: usize = 31 << 10;
    beside_a_bystander(|daemon| {
        let head = format!("GET /queue HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(HEAD_BYTES));
        let mut peers = Vec::new();
        let growth = growth_bytes(daemon, || {
            for _ in 0..CONNECTIONS {
                let mut peer = TcpStream::connect(daemon.http()).unwrap();
                peer.write_all(head.as_bytes()).unwrap();
                peers.push(peer);
            }
            http::ask(daemon.http(), "GET", "/health", "", b"");
        });
        println!("{CONNECTIONS} connections cost {} KiB", growth >> 10);
        assert!(growth < CONNECTIONS as u64 * (80 << 10), "{} KiB", growth >> 10);
        drop(peers);
        let longer = format!("{head}{}", "x".repeat(2 << 10));
        let (answer, _) = http::say(daemon.http(), longer.as_bytes());
        assert_eq!(http::status(&answer), Some(431), "{answer:.300}");
    });
}

#[test]
fn half_sent_tokens_of_unauthenticated_connections_cost_bounded_memory() {
    const CONNECTIONS: usize = 12;
    const LINKS: u32 = 100;
    beside_a_bystander(|daemon| {
        let mut peers = Vec::new();
        let growth = growth_bytes(daemon, || {
            for _ in 0..CONNECTIONS {
                let mut peer = connect_anonymously(daemon);
                for handle in 0..LINKS {
                    let link = frame(0, &cbs_sender(handle, &format!("link-{handle}")), &[]);
                    let token = frame(0, &transfer(handle, handle, 0, true), &vec![b'x'; 200_000]);
                    // Closed at some point: the rest can't be written.
                    if peer.write(&[link, token].concat()).is_err() {
                        break;
                    }
                }
                peers.push(peer);
            }
        });
        println!("{CONNECTIONS} connections cost {} KiB", growth >> 10);
        assert!(growth < 32 << 20, "{CONNECTIONS} connections cost {growth} bytes");
    });
}

#[test]
fn half_sent_tokens_within_the_limits_share_one_budget() {
    const CONNECTIONS: usize = 800;
    beside_a_bystander(|daemon| {
        let mut peers = Vec::new();
        let growth = growth_bytes(daemon, || {
            for _ in 0..CONNECTIONS {
                let mut peer = connect_anonymously(daemon);
                let link = frame(0, &cbs_sender(0, "link"), &[]);
                let token = frame(0, &transfer(0, 0, 0, true), &[b'x'; 100_000]);
                let _ = peer.write(&[link, token].concat());
                peers.push(peer);
            }
        });
        println!("{CONNECTIONS} connections cost {} KiB", growth >> 10);
        assert!(growth < 64 << 20, "{CONNECTIONS} connections cost {growth} bytes");
    });
}

#[test]
fn links_with_long_names_of_unauthenticated_connections_cost_bounded_memory() {
    const CONNECTIONS: usize = 4;
    const LINKS: u32 = 5_000;
    beside_a_bystander(|daemon| {
        let mut peers = Vec::new();
        let growth = growth_bytes(daemon, || {
            for _ in 0..CONNECTIONS {
                let mut peer = connect_anonymously(daemon);
                let mut reader = peer.stream().try_clone().unwrap();
                std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
                for handle in 0..LINKS {
                    let name = format!("{handle}{}", "x".repeat(4_000));
                    if peer.write(&frame(0, &cbs_sender(handle, &name), &[])).is_err() {
                        break;
                    }
                }
                peers.push(peer);
            }
        });
        println!("{CONNECTIONS} connections cost {} KiB", growth >> 10);
        assert!(growth < 16 << 20, "{CONNECTIONS} connections cost {growth} bytes");
    });
}

/// A map with a list of that many nulls: a byte each on the wire, and forty in memory if they are decoded and kept.
fn nulls(count: usize) -> Value {
    Value::Map(vec![(Value::symbol("x"), Value::List(vec![Value::Null; count]))])
}

/// A performative with one more field at this position.
fn with_field(mut performative: Value, position: usize, field: Value) -> Value {
    if let Value::Described(_, fields) = &mut performative
        && let Value::List(fields) = &mut **fields
    {
        fields.resize(position, Value::Null);
        fields.push(field);
    }
    performative
}

/// Lets many connections send these frames, and bounds the memory that they cost.
fn assert_cheap(frames: &[Value]) {
    const CONNECTIONS: usize = 64;
    let mut bytes: Vec<u8> = frames.iter().flat_map(|one| frame(0, one, &[])).collect();
    // Its answer follows when the others have been handled.
    bytes.extend(frame(1, &begin(), &[]));
    beside_a_bystander(|daemon| {
        let mut peers = Vec::new();
        let growth = growth_bytes(daemon, || {
            for _ in 0..CONNECTIONS {
                let mut peer = connect_anonymously(daemon);
                // Closed at some point, perhaps: the rest can't be written, and no answer comes.
                if peer.write(&bytes).is_ok() {
                    let _ = peer.wait(|frame| frame.is(code::BEGIN).then_some(()));
                }
                peers.push(peer);
            }
        });
        assert!(growth < 32 << 20, "{CONNECTIONS} connections cost {growth} bytes");
    });
}

fn management_receiver(handle: u32) -> Value {
    let source = terminus(code::SOURCE, "victim/$management");
    attach(handle, &format!("link-{handle}"), true, source, terminus(code::TARGET, "me"))
}

#[test]
fn attaches_that_wait_for_a_token_cost_bounded_memory() {
    let attaches: Vec<Value> =
        (0..12).map(|handle| with_field(management_receiver(handle), 13, nulls(7_000))).collect();
    assert_cheap(&attaches);
}

#[test]
fn flows_on_links_that_wait_for_a_token_cost_bounded_memory() {
    let flow = |handle| with_field(flow(handle, 0, 1, false, false), 10, nulls(7_000));
    let frames: Vec<Value> = (0..12).map(management_receiver).chain((0..12).map(flow)).collect();
    assert_cheap(&frames);
}

#[test]
fn states_of_half_sent_tokens_cost_bounded_memory() {
    let modified =
        || Value::composite(code::MODIFIED, vec![Value::Bool(false), Value::Bool(false), nulls(60_000)]);
    let token = |handle| with_field(transfer(handle, handle, 0, true), 7, modified());
    let links = (0..16).map(|handle| cbs_sender(handle, &format!("link-{handle}")));
    let frames: Vec<Value> = links.chain((0..16).map(token)).collect();
    assert_cheap(&frames);
}

#[test]
fn requests_with_long_ids_whose_answers_are_never_read_cost_bounded_memory() {
    // Without a limit they would take ten megabytes each; the allocator keeps some of the memory freed meanwhile.
    const CONNECTIONS: usize = 24;
    beside_a_bystander(|daemon| {
        let mut peers = Vec::new();
        let growth = growth_bytes(daemon, || {
            for _ in 0..CONNECTIONS {
                let mut peer = connect_anonymously(daemon);
                peer.say(&cbs_sender(0, "sender")).unwrap();
                let answers = terminus(code::SOURCE, "$cbs");
                peer.say(&attach(1, "receiver", true, answers, terminus(code::TARGET, "me"))).unwrap();
                // The answer repeats the id; no credit is granted for it.
                let request = codec::section(
                    code::PROPERTIES,
                    Value::List(vec![
                        Value::string("i".repeat(100_000)),
                        Value::Null,
                        Value::Null,
                        Value::Null,
                        Value::string("me"),
                    ]),
                );
                for id in 0..100 {
                    if peer.write(&frame(0, &transfer(0, id, 0, false), &request)).is_err() {
                        break;
                    }
                }
                peers.push(peer);
            }
        });
        println!("{CONNECTIONS} connections cost {} KiB", growth >> 10);
        assert!(growth < 64 << 20, "{CONNECTIONS} connections cost {growth} bytes");
    });
}

#[test]
fn a_token_of_70_kb_is_answered_and_limits_end_with_authentication() {
    beside_a_bystander(|daemon| {
        let mut peer = connect_anonymously(daemon);
        peer.attach_sender(0, "$cbs").unwrap().unwrap();
        peer.attach_receiver(1, "$cbs", 10).unwrap().unwrap();
        assert_eq!(put_token(&mut peer, &"x".repeat(70_000)), 401);
        assert_eq!(put_token(&mut peer, &http::token()), 202);
        for handle in 2..200 {
            peer.attach_sender(handle, "victim").unwrap().unwrap();
        }
        // One frame more than the limit before authentication.
        assert_eq!(put_token(&mut peer, &"x".repeat(200_000)), 401);
    });
}

fn put_token(peer: &mut Client, token: &str) -> i64 {
    let properties = Value::List(vec![
        Value::Ulong(7),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::string("receiver-1"),
    ]);
    let application = vec![
        (Value::string("operation"), Value::string("put-token")),
        (Value::string("type"), Value::string("servicebus.windows.net:sastoken")),
        (Value::string("name"), Value::string("amqp://localhost/victim")),
    ];
    let message = [
        Value::composite(
            code::PROPERTIES,
            match properties {
                Value::List(fields) => fields,
                _ => Vec::new(),
            },
        )
        .encode(),
        codec::section(code::APPLICATION_PROPERTIES, Value::Map(application)),
        codec::section(code::AMQP_VALUE, Value::string(token)),
    ]
    .concat();
    assert_eq!(peer.send(0, &message).unwrap().code(), Some(code::ACCEPTED));
    let answer = codec::sections(&peer.receive(1).unwrap().message);
    let map = answer.iter().find(|section| section.code() == Some(code::APPLICATION_PROPERTIES)).unwrap();
    map.inner().get("status-code").and_then(Value::integer).unwrap()
}

/// The stored data according to `store check`, which needs exclusive access to the data directory: the lines about keys
/// and bytes.
fn stored(daemon: &mut Daemon) -> Vec<String> {
    daemon.kill();
    let directory = daemon.data_directory();
    let output = command().args(["store", "check", "--json"]).arg(directory).output().unwrap();
    daemon.start();
    let text = String::from_utf8(output.stdout).unwrap();
    let tells = |line: &&str| {
        ["\"body\"", "\"head\"", "\"meta\"", "\"live_bytes\""].iter().any(|key| line.contains(key))
    };
    let lines: Vec<String> = text.lines().filter(tells).map(str::to_owned).collect();
    assert!(lines.len() >= 4, "{text}");
    lines
}

#[test]
fn nothing_is_written_to_the_store_before_authentication() {
    let mut daemon = Daemon::with_queues(&["queue"]);
    let before = stored(&mut daemon);
    // Over AMQP: a link to a queue, an invalid token, a message, a new queue.
    let mut peer = connect_anonymously(&daemon);
    for (handle, address) in [(0, "queue"), (1, "queue/$management"), (2, "new"), (3, "$cbs")] {
        let sender =
            attach(handle, &format!("sender-{handle}"), false, Value::Null, terminus(code::TARGET, address));
        peer.say(&sender).unwrap();
        peer.write(&frame(0, &transfer(handle, handle, 0, false), &codec::data_message(b"message"))).unwrap();
    }
    let _ = peer.read_to_end();
    // Over HTTP: the same, without a token and with a wrong one.
    for token in [
        "",
        "Authorization: SharedAccessSignature sr=x&sig=y&se=9999999999&skn=RootManageSharedAccessKey\r\n",
    ] {
        for request in [
            "PUT /new",
            "DELETE /queue",
            "POST /queue/messages",
            "DELETE /queue/messages/head",
            "PUT /queue/messages/1/x",
        ] {
            let request = format!(
                "{request} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 2\r\nConnection: close\r\n\r\nhi"
            );
            let (answer, _) = http::say(daemon.http(), request.as_bytes());
            assert_eq!(http::status(&answer), Some(401), "{request}: {answer:.300}");
        }
    }
    assert_eq!(stored(&mut daemon), before);
    daemon.assert_sound();
}
