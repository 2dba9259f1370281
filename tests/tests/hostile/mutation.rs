//! A recorded conversation with random damage. `PEEKLOCK_TEST_SEED` repeats a run.

use std::io::Read;
use std::net::Shutdown;
use std::time::Duration;

use peeklock_tests::client::{BATCH_FORMAT, Client, attach, disposition, flow, terminus, transfer};
use peeklock_tests::codec::{Value, code, data_message, frame, section};
use peeklock_tests::{loopback, seed};
use rand::RngExt;
use rand::rngs::StdRng;

use super::framing::beside_a_bystander;

const CONVERSATIONS: u16 = 2_000;

/// The frames of a busy client: links of each kind, sends, a batch, a settlement, a management request, a close.
fn conversation() -> Vec<Vec<u8>> {
    let accepted = Value::composite(code::ACCEPTED, Vec::new());
    let properties = vec![Value::Ulong(1), Value::Null, Value::Null, Value::Null, Value::string("answers")];
    let application =
        Value::Map(vec![(Value::string("operation"), Value::string("com.microsoft:peek-message"))]);
    let body = Value::Map(vec![
        (Value::string("from-sequence-number"), Value::Long(1)),
        (Value::string("message-count"), Value::Int(10)),
    ]);
    let request = [
        Value::composite(code::PROPERTIES, properties).encode(),
        section(code::APPLICATION_PROPERTIES, application),
        section(code::AMQP_VALUE, body),
    ]
    .concat();
    let batch = section(code::DATA, Value::Binary(data_message(b"inner"))).repeat(3);
    let to = |handle, address| attach(handle, address, false, Value::Null, terminus(code::TARGET, address));
    let from = |handle, address: &str| {
        attach(handle, address, true, terminus(code::SOURCE, address), terminus(code::TARGET, "answers"))
    };
    vec![
        Client::greeting(),
        frame(0, &to(0, "victim"), &[]),
        frame(0, &from(1, "victim"), &[]),
        frame(0, &to(2, "victim/$management"), &[]),
        frame(0, &from(3, "victim/$management"), &[]),
        frame(0, &flow(1, 0, 5, false, true), &[]),
        frame(0, &flow(3, 0, 5, false, false), &[]),
        frame(0, &transfer(0, 0, 0, false), &data_message(b"first")),
        frame(0, &transfer(0, 1, BATCH_FORMAT, false), &batch),
        frame(0, &transfer(0, 2, 0, true), &data_message(b"in two")[..6]),
        frame(0, &transfer(0, 2, 0, false), &data_message(b"in two")[6..]),
        frame(0, &transfer(2, 3, 0, false), &request),
        frame(0, &disposition(true, 0, 1, false, accepted), &[]),
        frame(0, &flow(1, 2, 5, true, false), &[]),
        frame(0, &Value::composite(code::DETACH, vec![Value::Uint(1), Value::Bool(true)]), &[]),
        frame(0, &Value::composite(code::END, vec![Value::Null]), &[]),
        frame(0, &Value::composite(code::CLOSE, vec![Value::Null]), &[]),
    ]
}

fn damage(frames: &mut Vec<Vec<u8>>, random: &mut StdRng) {
    let position = random.random_range(0..frames.len());
    let offset = random.random_range(0..frames[position].len().max(1));
    match random.random_range(0..8) {
        0 => drop(frames.remove(position)),
        1 => frames.insert(position, frames[random.random_range(0..frames.len())].clone()),
        2 => frames[position].truncate(offset),
        3 => frames[position].insert(offset, random.random()),
        4 => {
            let other = random.random_range(0..frames.len());
            frames.swap(position, other);
        }
        // Most bytes of a frame are lengths, counts and codes: use critical values for them.
        5 => overwrite(&mut frames[position], offset, &[0xff; 4]),
        6 => overwrite(&mut frames[position], offset, &[0; 2]),
        _ => overwrite(&mut frames[position], offset, &[random.random()]),
    }
}

fn overwrite(frame: &mut [u8], offset: usize, bytes: &[u8]) {
    for (old, new) in frame.iter_mut().skip(offset).zip(bytes) {
        *old = *new;
    }
}

#[test]
fn damaged_conversations_do_not_affect_other_clients() {
    let mut random = seed::generator();
    beside_a_bystander(|daemon| {
        for number in 0..CONVERSATIONS {
            let mut frames = conversation();
            for _ in 0..random.random_range(1..4) {
                if !frames.is_empty() {
                    damage(&mut frames, &mut random);
                }
            }
            // Damaged credentials delay further attempts from their address.
            let mut peer = Client::over(loopback::connect(number, daemon.amqp()).unwrap()).unwrap();
            // The broker may disconnect at any time.
            let _ = peer.write(&frames.concat());
            let _ = peer.stream().shutdown(Shutdown::Write);
            peer.stream().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut answer = Vec::new();
            if let Err(error) = peer.stream().read_to_end(&mut answer) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{frames:02x?}");
            }
        }
        // Most of the damage is late: many conversations got as far as their sends.
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_management(0, "victim").unwrap();
        assert!(peer.browse(0).unwrap().len() > usize::from(CONVERSATIONS) / 4);
    });
}

#[test]
fn the_conversation_itself_is_fine() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::plug(daemon.amqp()).unwrap();
        peer.write(&conversation().concat()).unwrap();
        peer.read_header().unwrap();
        peer.wait(|frame| frame.is(code::SASL_OUTCOME).then_some(())).unwrap();
        peer.read_header().unwrap();
        let close = peer.read_to_end().expect("the close is answered");
        assert_eq!(*close.field(0), Value::Null, "closed without an error");
    });
}
