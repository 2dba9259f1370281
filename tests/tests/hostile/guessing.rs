//! Guessing of keys, and eviction in favour of new connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, PATIENCE, SASL_HEADER};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http;

const WRONG_TOKEN: &str =
    "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2F&sig=AAAA&se=9999999999&skn=RootManageSharedAccessKey";

/// Duration of the refusal of a wrong password.
fn guess(daemon: &Daemon) -> Duration {
    let began = Instant::now();
    let mut peer = Client::plug(daemon.amqp()).unwrap();
    let wrong = b"\0RootManageSharedAccessKey\0guess".to_vec();
    let init = Value::composite(code::SASL_INIT, vec![Value::symbol("PLAIN"), Value::Binary(wrong)]);
    peer.write(&[SASL_HEADER.to_vec(), codec::raw_frame(2, 1, 0, &init.encode())].concat()).unwrap();
    peer.read_header().unwrap();
    let outcome = peer.wait(|frame| frame.is(code::SASL_OUTCOME).then(|| frame.field(0).integer())).unwrap();
    assert_eq!(outcome, Some(1), "refused");
    began.elapsed()
}

/// Duration of the refusal of a wrong signature in this header.
fn guess_over_http(daemon: &Daemon, header: &str) -> Duration {
    let began = Instant::now();
    let request = format!(
        "GET /queue HTTP/1.1\r\nHost: localhost\r\n{header}: {WRONG_TOKEN}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(http::status(&http::say(daemon.http(), request.as_bytes()).0), Some(401));
    began.elapsed()
}

#[test]
fn attempts_wait_longer_after_each_failure_and_a_right_key_has_its_turn_as_well() {
    let mut daemon = Daemon::with_queues(&["queue"]);
    // Lower limits of the waits only, since upper limits depend on the machine.
    let password: Duration = (0..9).map(|_| guess(&daemon)).sum();
    assert!(password >= Duration::from_millis(100 + 200 + 400 + 800), "nine guesses took {password:?}");
    let headers = ["Authorization", "ServiceBusAuthorization"].into_iter().cycle();
    let token: Duration = headers.take(9).map(|header| guess_over_http(&daemon, header)).sum();
    assert!(token >= Duration::from_millis(100 + 200 + 400 + 800), "nine guesses took {token:?}");
    // Concurrent with guesses that wait for their answers.
    let mut waiting: Vec<std::thread::JoinHandle<()>> = Vec::new();
    let amqp = daemon.amqp();
    for _ in 0..3 {
        waiting.push(std::thread::spawn(move || {
            let mut peer = Client::plug(amqp).unwrap();
            peer.write(SASL_HEADER).unwrap();
            peer.read_header().unwrap();
        }));
    }
    Client::connect(daemon.amqp()).unwrap().attach_sender(0, "queue").unwrap().unwrap();
    assert_eq!(http::ask(daemon.http(), "GET", "/queue", "", b"").0, 200);
    for thread in waiting {
        thread.join().unwrap();
    }
    daemon.assert_sound();
}

#[test]
fn a_connection_with_a_valid_token_guesses_no_faster() {
    let mut daemon = Daemon::with_queues(&["queue"]);
    let mut stream = TcpStream::connect(daemon.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(&mut stream, &http::token());
    let began = Instant::now();
    for _ in 0..9 {
        ask(&mut stream, WRONG_TOKEN);
    }
    // Lower limits of the waits only, as above.
    assert!(began.elapsed() >= Duration::from_millis(100 + 200 + 400 + 800), "{:?}", began.elapsed());
    daemon.assert_sound();
}

/// Sends a request on a connection that stays open.
fn ask(stream: &mut TcpStream, token: &str) {
    let request = format!("GET /queue HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    let is_whole = |answer: &[u8]| {
        let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let (_, length) = head.split_once("content-length: ").expect("a length");
        body.len() >= length.lines().next().unwrap().parse::<usize>().unwrap()
    };
    while !is_whole(&answer) {
        let read = stream.read(&mut part).expect("the connection is still there");
        assert!(read > 0, "hung up on after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..read]);
    }
}

#[test]
fn who_has_authenticated_is_never_closed_in_favour_of_unauthenticated_connections() {
    const CLIENTS: usize = 1_060;
    let mut daemon = Daemon::with_config(
        "[network]\nunauthenticated_per_address_max = 16\n[[queues]]\nname = \"queue\"\n",
    );
    let token = http::token();
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = TcpStream::connect(daemon.http()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        ask(&mut client, &token);
        clients.push(client);
    }
    let silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(daemon.http()).unwrap()).collect();
    // Newer than all of them.
    assert_eq!(http::ask(daemon.http(), "GET", "/queue", "", b"").0, 200);
    for client in &mut clients {
        ask(client, &token);
    }
    drop(silent);
    daemon.assert_sound();
}
