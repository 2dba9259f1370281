//! Peers that send a byte from time to time, to occupy a connection for ever.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use peeklock_tests::bystander::Bystander;
use peeklock_tests::client::SASL_HEADER;
use peeklock_tests::daemon::Daemon;

/// Pause between two bytes.
const PAUSE: Duration = Duration::from_millis(100);
/// Longer than any deadline of the daemon, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends `start` at once and `more` byte by byte, repeatedly, until the daemon disconnects; returns whether it did.
fn drip(to: SocketAddr, start: &[u8], more: &[u8]) -> bool {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PAUSE)).unwrap();
    let began = Instant::now();
    let mut answer = [0; 1024];
    let mut open = stream.write_all(start).is_ok();
    for byte in more.iter().cycle() {
        if !open || began.elapsed() > PATIENCE {
            break;
        }
        open = match stream.read(&mut answer) {
            Ok(bytes) => bytes > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        } && stream.write_all(&[*byte]).is_ok();
    }
    !open
}

/// Each is cut off by the deadline for what it does not finish, and the well-behaved client is not affected.
#[test]
fn a_peer_that_sends_single_bytes_is_disconnected() {
    let mut daemon = Daemon::with_config(
        "amqp.open_time_out = \"PT2S\"\n[[queues]]\nname = \"bystander\"\n[[queues]]\nname = \"victim\"",
    );
    let bystander = Bystander::start(daemon.amqp(), "bystander");
    let half_an_init = [&SASL_HEADER[..], &[0, 0, 1, 0, 2, 1, 0, 0]].concat();
    let peers: [(&str, Vec<u8>, &[u8]); 5] = [
        ("the head of a request", b"GET /victim HTTP/1.1\r\nHost: a\r\nX: ".to_vec(), b"a"),
        ("headers without end", b"GET /victim HTTP/1.1\r\n".to_vec(), b"X: a\r\n"),
        ("the hello of TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], &[0]),
        ("the header of AMQP", b"AM".to_vec(), &[]),
        ("the first frame of SASL", half_an_init, &[0]),
    ];
    let addresses = [daemon.amqp(), daemon.http()];
    let dripping: Vec<_> = peers
        .into_iter()
        .enumerate()
        .map(|(number, (name, start, more))| {
            let to = addresses[number % 2];
            let more = more.to_vec();
            // A peer that sends nothing more only waits for the end.
            let more = if more.is_empty() { None } else { Some(more) };
            thread::spawn(move || {
                (name, more.map_or_else(|| wait(to, &start), |more| drip(to, &start, &more)))
            })
        })
        .collect();
    for peer in dripping {
        let (name, hung_up) = peer.join().unwrap();
        assert!(hung_up, "{name}: still connected after {PATIENCE:?}");
        bystander.await_progress();
    }
    bystander.dismiss();
    daemon.assert_sound();
}

/// Sends `start` and nothing more; returns whether the daemon disconnected.
fn wait(to: SocketAddr, start: &[u8]) -> bool {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(start).unwrap();
    // With or without a last answer.
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
