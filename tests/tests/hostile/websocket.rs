//! WebSockets that violate the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use peeklock_tests::client::PATIENCE;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http::{say, status};

use super::framing::beside_a_bystander;

fn request(key: &str, version: &str, protocol: &str) -> String {
    format!(
        "GET /$servicebus/websocket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: {version}\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    )
}

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn open(daemon: &Daemon) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.amqp()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request(KEY, "13", "AMQPWSB10").as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    stream
}

/// A frame with a mask of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = 0x80 | u8::try_from(payload.len()).unwrap();
    [&[first, length, 0, 0, 0, 0], payload].concat()
}

#[test]
fn upgrades_that_lack_something_are_refused() {
    beside_a_bystander(|daemon| {
        for (key, version, protocol) in [
            (KEY, "8", "AMQPWSB10"),
            (KEY, "13", "mqtt"),
            (KEY, "13", ""),
            ("short", "13", "AMQPWSB10"),
            ("", "", ""),
        ] {
            let request =
                request(key, version, protocol).replacen("Host: a", "Host: a\r\nConnection: close", 1);
            let answer = say(daemon.amqp(), request.as_bytes()).0;
            assert!(matches!(status(&answer), Some(400 | 426)), "{key} {version} {protocol}: {answer}");
        }
    });
}

#[test]
fn frames_that_break_the_rules_are_answered_with_a_close() {
    beside_a_bystander(|daemon| {
        let cases: [(&str, Vec<u8>); 7] = [
            ("no mask", b"\x82\x08AMQP\x03\x01\x00\x00".to_vec()),
            ("a control frame in fragments", frame(0x09, b"x")),
            ("a long control frame", [&[0x89, 0xfe, 0, 126, 0, 0, 0, 0][..], &[0; 126]].concat()),
            ("text", frame(0x81, b"AMQP")),
            ("the continuation of nothing", frame(0x80, b"AMQP")),
            ("a reserved bit", frame(0xc2, b"AMQP")),
            ("an unknown kind", frame(0x83, b"AMQP")),
        ];
        for (name, bytes) in cases {
            let mut stream = open(daemon);
            stream.write_all(&bytes).unwrap();
            let mut answer = Vec::new();
            // Unread bytes turn the end of the connection into a reset.
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.starts_with(&[0x88, 2, 0x03, 0xea]), "{name}: {answer:?}");
        }
    });
}

#[test]
fn a_length_without_end_costs_nothing() {
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let mut streams = Vec::new();
        for length in [1_u64 << 62, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX] {
            for _ in 0..50 {
                let mut stream = open(daemon);
                let header = [&[0x82, 0xff][..], &length.to_be_bytes(), &[0; 4], b"AMQP"].concat();
                stream.write_all(&header).unwrap();
                streams.push(stream);
            }
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 32 << 20, "memory grew by {growth} bytes");
    });
}

#[test]
fn a_flood_of_pings_whose_answers_are_not_read_costs_nothing() {
    const FLOOD_BYTES: usize = 96 << 20;
    beside_a_bystander(|daemon| {
        let mut stream = open(daemon);
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let pings = frame(0x89, &[7; 125]).repeat(1_000);
        let before = daemon.resident_bytes();
        for _ in 0..FLOOD_BYTES / pings.len() {
            if stream.write_all(&pings).is_err() {
                // Disconnected or no longer read: both are correct.
                break;
            }
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 32 << 20, "memory grew by {growth} bytes");
    });
}
