//! Malformed frame headers, protocol headers and encodings.

use std::io::Write;
use std::net::Shutdown;

use peeklock_tests::bystander::Bystander;
use peeklock_tests::client::{AMQP_HEADER, Client, SASL_HEADER, attach, begin, open, terminus};
use peeklock_tests::codec::{Value, code, frame, raw_frame};
use peeklock_tests::daemon::Daemon;

/// More than any frame needs, far less than a broker without limits would use.
const MEMORY_BYTES: u64 = 64 << 20;

/// Runs `attack` against a daemon while a well-behaved client must not be affected.
pub(super) fn beside_a_bystander(attack: impl FnOnce(&Daemon)) {
    let mut daemon = Daemon::with_queues(&["bystander", "victim"]);
    let bystander = Bystander::start(daemon.amqp(), "bystander");
    attack(&daemon);
    bystander.dismiss();
    daemon.assert_sound();
}

/// Sends `bytes` on a new session and asserts that the broker ends the connection.
fn is_cut_off(daemon: &Daemon, bytes: &[u8]) -> Option<Value> {
    let mut peer = Client::connect(daemon.amqp()).unwrap();
    let _ = peer.write(bytes);
    peer.read_to_end()
}

#[test]
fn frame_sizes_below_the_header_are_refused() {
    beside_a_bystander(|daemon| {
        for size in 0..8_u32 {
            let bytes = [&size.to_be_bytes()[..], &[2, 0, 0, 0], &[0; 64]].concat();
            let close = is_cut_off(daemon, &bytes).expect("a close that says why");
            assert_eq!(close.field(0).field(0).text(), Some("amqp:connection:framing-error"), "size {size}");
        }
    });
}

#[test]
fn frame_sizes_below_the_header_are_refused_before_sasl_too() {
    beside_a_bystander(|daemon| {
        for size in 0..8_u32 {
            let mut peer = Client::plug(daemon.amqp()).unwrap();
            peer.write(SASL_HEADER).unwrap();
            let _ = peer.write(&[&size.to_be_bytes()[..], &[2, 1, 0, 0], &[0; 64]].concat());
            peer.read_header().unwrap();
            peer.read_to_end();
        }
    });
}

#[test]
fn data_offsets_that_point_into_the_header_or_out_of_the_frame_are_refused() {
    beside_a_bystander(|daemon| {
        for doff in [0, 1, 200, 255] {
            is_cut_off(daemon, &raw_frame(doff, 0, 0, &begin().encode()));
        }
    });
}

#[test]
fn an_extended_header_is_legal() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        let attach = attach(0, "sender-0", false, Value::Null, terminus(code::TARGET, "victim"));
        peer.write(&raw_frame(4, 0, 0, &[&[0xaa; 8], attach.encode().as_slice()].concat())).unwrap();
        peer.wait(|frame| frame.is(code::ATTACH).then_some(())).unwrap();
    });
}

#[test]
fn frames_larger_than_announced_are_refused_without_being_buffered() {
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        for size in [(8 << 20), 0x7fff_ffff, u32::MAX] {
            let mut peer = Client::connect(daemon.amqp()).unwrap();
            peer.write(&[&size.to_be_bytes()[..], &[2, 0, 0, 0]].concat()).unwrap();
            let block = vec![0x40; 1 << 16];
            // The broker disconnects long before this ends; writing fails then.
            let _ = (0..4_096).try_for_each(|_| peer.write(&block));
            peer.read_to_end();
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < MEMORY_BYTES, "grew by {growth} bytes");
    });
}

#[test]
fn unknown_frame_types_are_refused() {
    beside_a_bystander(|daemon| {
        for kind in [1, 2, 255] {
            is_cut_off(daemon, &raw_frame(2, kind, 0, &begin().encode()));
        }
    });
}

#[test]
fn other_protocols_are_answered_or_cut_off() {
    beside_a_bystander(|daemon| {
        let greetings: [&[u8]; 7] = [
            b"AMQP\x00\x00\x09\x01",
            b"AMQP\x00\x02\x00\x00",
            b"AMQP\x07\x01\x00\x00",
            b"AMQQ\x00\x01\x00\x00",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"SSH-2.0-OpenSSH_9.9\r\n",
            &[0; 64],
        ];
        for greeting in greetings {
            let mut peer = Client::plug(daemon.amqp()).unwrap();
            peer.write(greeting).unwrap();
            let _ = peer.stream().shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            // An answer, an end of stream or a reset are all correct; only waiting for ever is not.
            if let Err(error) = std::io::Read::read_to_end(peer.stream(), &mut answer) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{greeting:?}");
            }
        }
    });
}

#[test]
fn a_handshake_byte_by_byte_succeeds() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::plug(daemon.amqp()).unwrap();
        for byte in Client::greeting() {
            peer.stream().write_all(&[byte]).unwrap();
            std::thread::yield_now();
        }
        assert_eq!(peer.read_header().unwrap(), *SASL_HEADER);
        peer.wait(|frame| frame.is(code::SASL_OUTCOME).then_some(())).unwrap();
        assert_eq!(peer.read_header().unwrap(), *AMQP_HEADER);
        peer.wait(|frame| frame.is(code::BEGIN).then_some(())).unwrap();
        peer.attach_sender(0, "victim").unwrap().unwrap();
    });
}

#[test]
fn a_handshake_cut_at_every_byte_does_not_affect_other_clients() {
    beside_a_bystander(|daemon| {
        let greeting = Client::greeting();
        for length in 0..greeting.len() {
            let mut peer = Client::plug(daemon.amqp()).unwrap();
            peer.write(&greeting[..length]).unwrap();
        }
    });
}

/// A map in a map in a map: `depth` times, 7 bytes each.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = vec![0x40];
    for _ in 0..depth {
        value = [&[0xd0][..], &length(value.len() + 4), &1_u32.to_be_bytes(), &value].concat();
    }
    value
}

/// Nested described values: two bytes per level.
fn nested_descriptors(depth: usize) -> Vec<u8> {
    [vec![0; depth], vec![0x40; depth + 1]].concat()
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap().to_be_bytes()
}

#[test]
fn deep_nesting_before_authentication_is_refused() {
    beside_a_bystander(|daemon| {
        for body in [nested(2_500), nested(28_000), nested_descriptors(100_000)] {
            let mut peer = Client::plug(daemon.amqp()).unwrap();
            peer.write(SASL_HEADER).unwrap();
            let _ = peer.write(&raw_frame(2, 1, 0, &body));
            peer.read_header().unwrap();
            peer.read_to_end();
        }
    });
}

#[test]
fn deep_nesting_in_performatives_is_refused() {
    beside_a_bystander(|daemon| {
        for value in [nested(2_500), nested(20_000), nested_descriptors(100_000)] {
            let fields = [&[0x40; 9][..], &value].concat();
            let list =
                [&[0x00, 0x53, 0x12, 0xd0][..], &length(fields.len() + 4), &10_u32.to_be_bytes(), &fields]
                    .concat();
            is_cut_off(daemon, &raw_frame(2, 0, 0, &list));
        }
    });
}

#[test]
fn lists_and_arrays_that_lie_about_their_length_are_refused() {
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let bodies: [&[u8]; 8] = [
            // A list of four billion elements in twelve bytes.
            &[0x00, 0x53, 0x11, 0xd0, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0x40, 0x40, 0x40, 0x40],
            // A list longer than the frame.
            &[0x00, 0x53, 0x11, 0xd0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x40],
            // Arrays of four billion nulls, empty lists and trues: elements of zero width.
            &[0x00, 0x53, 0x11, 0xc0, 11, 1, 0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40],
            &[0x00, 0x53, 0x11, 0xc0, 11, 1, 0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x45],
            &[0x00, 0x53, 0x11, 0xc0, 11, 1, 0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x41],
            // A string longer than the frame, a list shorter than its count field.
            &[0x00, 0x53, 0x10, 0xc0, 7, 1, 0xb1, 0xff, 0xff, 0xff, 0xff, b'x'],
            &[0x00, 0x53, 0x11, 0xd0, 0, 0, 0, 1, 0, 0, 0, 0],
            // A descriptor without a value.
            &[0x00, 0x53, 0x11],
        ];
        for body in bodies {
            is_cut_off(daemon, &raw_frame(2, 0, 0, body));
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < MEMORY_BYTES, "grew by {growth} bytes");
    });
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    beside_a_bystander(|daemon| {
        let wrong =
            [Value::Map(Vec::new()), Value::Null, Value::string("text"), Value::Bool(true), Value::Long(-1)];
        for performative in
            [code::BEGIN, code::ATTACH, code::FLOW, code::TRANSFER, code::DISPOSITION, code::DETACH]
        {
            for value in &wrong {
                let mut peer = Client::connect(daemon.amqp()).unwrap();
                let body = Value::composite(performative, vec![value.clone(); 12]);
                peer.say(&body).unwrap();
                // Whether that is an error depends on the field; in any case the close is answered.
                let _ = peer.say(&Value::composite(code::CLOSE, vec![Value::Null]));
                peer.read_to_end();
            }
        }
    });
}

#[test]
fn open_with_a_tiny_frame_size_is_refused_or_obeyed() {
    beside_a_bystander(|daemon| {
        for size in [0, 1, 8, 511] {
            let mut peer = Client::plug(daemon.amqp()).unwrap();
            let mut fields = vec![Value::string("tiny"), Value::string("h")];
            fields.push(Value::Uint(size));
            let greeting = Client::greeting();
            // The usual greeting up to its open, then this one.
            let usual = frame(0, &open(), &[]).len() + frame(0, &begin(), &[]).len();
            peer.write(&greeting[..greeting.len() - usual]).unwrap();
            peer.write(&frame(0, &Value::composite(code::OPEN, fields), &[])).unwrap();
            let _ = peer.write(&frame(0, &Value::composite(code::CLOSE, vec![Value::Null]), &[]));
            peer.read_header().unwrap();
            peer.wait(|frame| frame.is(code::SASL_OUTCOME).then_some(())).unwrap();
            peer.read_header().unwrap();
            peer.read_to_end();
        }
    });
}
