//! Messages, batches and requests with malformed contents.

use peeklock_tests::client::{BATCH_FORMAT, Client, transfer};
use peeklock_tests::codec::{Value, code, data_message, frame, section};
use peeklock_tests::daemon::Daemon;

use super::framing::beside_a_bystander;

/// A batch with these data sections.
fn batch(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|message| section(code::DATA, Value::Binary(message.to_vec()))).collect()
}

/// Number of messages in the queue.
fn count(daemon: &Daemon) -> usize {
    let mut peer = Client::connect(daemon.amqp()).unwrap();
    peer.attach_management(0, "victim").unwrap();
    peer.browse(0).unwrap().len()
}

/// Sends one transfer; returns its outcome, or `None` when the link or the connection was ended instead.
fn outcome(daemon: &Daemon, message: &[u8], format: u32) -> Option<Value> {
    let mut peer = Client::connect(daemon.amqp()).unwrap();
    peer.attach_sender(0, "victim").unwrap().unwrap();
    let id = peer.transfer(0, message, format).unwrap();
    peer.wait(|frame| {
        if frame.is(code::DETACH) || frame.is(code::END) || frame.is(code::CLOSE) {
            return Some(None);
        }
        let ours = frame.is(code::DISPOSITION) && frame.field(1).integer() == Some(id.into());
        ours.then(|| Some(frame.field(4).clone()))
    })
    .unwrap()
}

#[test]
fn a_malformed_batch_is_rejected_whole() {
    beside_a_bystander(|daemon| {
        let good = data_message(b"good");
        let bad: [&[u8]; 6] = [
            b"not a message",
            &[],
            &good[..good.len() - 1],
            &[0x00],
            &[0x00, 0x53, 0x75, 0xb0, 0xff, 0xff, 0xff, 0xff],
            &[good.as_slice(), &[0xff]].concat(),
        ];
        for message in bad {
            let state =
                outcome(daemon, &batch(&[&good, message, &good]), BATCH_FORMAT).expect("a disposition");
            assert_eq!(state.code(), Some(code::REJECTED), "{message:02x?}");
            assert!(
                state.field(0).field(0).text().is_some(),
                "the rejection of {message:02x?} names a condition"
            );
        }
        for envelope in [vec![], section(code::AMQP_VALUE, Value::string("no batch")), b"junk".to_vec()] {
            let state = outcome(daemon, &envelope, BATCH_FORMAT).expect("a disposition");
            assert_eq!(state.code(), Some(code::REJECTED));
        }
        assert_eq!(count(daemon), 0);
        let state = outcome(daemon, &batch(&[&good, &good]), BATCH_FORMAT).expect("a disposition");
        assert_eq!(state.code(), Some(code::ACCEPTED));
        assert_eq!(count(daemon), 2);
    });
}

#[test]
fn malformed_messages_are_rejected() {
    beside_a_bystander(|daemon| {
        let good = data_message(b"good");
        let wrong_body = section(code::DATA, Value::string("data must be binary"));
        let wrong_properties = section(code::PROPERTIES, Value::string("no list"));
        let messages = [
            b"not a message".to_vec(),
            good[..good.len() - 2].to_vec(),
            section(0x79, Value::Null),
            [good.clone(), vec![0x53]].concat(),
            [wrong_properties, good.clone()].concat(),
            wrong_body,
        ];
        for message in messages {
            if let Some(state) = outcome(daemon, &message, 0) {
                assert_eq!(state.code(), Some(code::REJECTED), "{message:02x?}");
            }
        }
        assert_eq!(count(daemon), 0);
    });
}

#[test]
fn deeply_nested_bodies_and_annotations_do_no_harm() {
    beside_a_bystander(|daemon| {
        let mut value = Value::Null;
        for _ in 0..2_500 {
            value = Value::List(vec![value]);
        }
        let encoded = value.encode();
        // `Value` itself is dropped recursively on the stack of this thread.
        for section_code in [
            0x70,
            0x71,
            code::MESSAGE_ANNOTATIONS,
            code::PROPERTIES,
            code::APPLICATION_PROPERTIES,
            code::AMQP_VALUE,
            0x78,
        ] {
            let descriptor = [0x00, 0x53, u8::try_from(section_code).unwrap()];
            let message = [&descriptor[..], &encoded, &data_message(b"")].concat();
            outcome(daemon, &message, 0);
        }
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_management(0, "victim").unwrap();
        assert!(peer.request(0, "com.microsoft:peek-message", value).is_err());
        // The links continue.
        assert_eq!(peer.request(0, "com.example:dance", Value::Null).unwrap().0, 501);
    });
}

#[test]
fn messages_beyond_the_limit_are_refused_and_not_buffered() {
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_sender(0, "victim").unwrap().unwrap();
        let piece = frame(0, &transfer(0, 0, 0, true), &vec![0x40; 1 << 16]);
        // Two hundred times the limit, without an end.
        let _ = (0..2_000).try_for_each(|_| peer.write(&piece));
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 64 << 20, "grew by {growth} bytes");
        peer.write(&frame(0, &transfer(0, 0, 0, false), &[])).unwrap();
        let state = peer.outcome(0, true).unwrap();
        assert_eq!(state.field(0).field(0).text(), Some("amqp:link:message-size-exceeded"));
        assert_eq!(count(daemon), 0);
        // The link continues.
        let last = frame(0, &transfer(0, 1, 0, false), &data_message(b"small"));
        peer.write(&last).unwrap();
        assert_eq!(peer.outcome(1, true).unwrap().code(), Some(code::ACCEPTED));
    });
}

#[test]
fn an_aborted_or_broken_off_message_leaves_nothing() {
    beside_a_bystander(|daemon| {
        let half = &data_message(&[7; 1_000])[..500];
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_sender(0, "victim").unwrap().unwrap();
        peer.write(&frame(0, &transfer(0, 0, 0, true), half)).unwrap();
        let mut fields =
            vec![Value::Uint(0), Value::Uint(0), Value::Binary(vec![0]), Value::Uint(0), Value::Bool(false)];
        fields.extend([Value::Bool(false), Value::Null, Value::Null, Value::Bool(false), Value::Bool(true)]);
        peer.say(&Value::composite(code::TRANSFER, fields)).unwrap();
        // The next message is complete.
        let mut another = Client::connect(daemon.amqp()).unwrap();
        another.attach_sender(0, "victim").unwrap().unwrap();
        another.write(&frame(0, &transfer(0, 0, 0, true), half)).unwrap();
        drop(another);
        peer.write(&frame(0, &transfer(0, 1, 0, false), &data_message(b"whole"))).unwrap();
        assert_eq!(peer.outcome(1, true).unwrap().code(), Some(code::ACCEPTED));
        assert_eq!(count(daemon), 1);
    });
}

#[test]
fn malformed_management_requests_get_an_error_status() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_management(0, "victim").unwrap();
        let numbers = |value| Value::Map(vec![(Value::string("sequence-numbers"), value)]);
        let tokens = |value| Value::Map(vec![(Value::string("lock-tokens"), value)]);
        let requests = [
            ("com.microsoft:peek-message", Value::Null),
            ("com.microsoft:peek-message", Value::Map(Vec::new())),
            ("com.microsoft:peek-message", Value::string("text")),
            ("com.microsoft:renew-lock", tokens(Value::string("no array"))),
            ("com.microsoft:renew-lock", tokens(Value::Array(vec![Value::Uuid([9; 16])]))),
            ("com.microsoft:update-disposition", tokens(Value::Array(vec![Value::Uuid([9; 16])]))),
            ("com.microsoft:receive-by-sequence-number", numbers(Value::Array(vec![Value::Long(i64::MIN)]))),
            ("com.microsoft:cancel-scheduled-message", numbers(Value::Null)),
            ("com.microsoft:schedule-message", Value::Map(vec![(Value::string("messages"), Value::Long(3))])),
            ("com.microsoft:add-rule", Value::Map(Vec::new())),
            ("", Value::Null),
        ];
        for (operation, body) in requests {
            let (status, _) = peer.request(0, operation, body.clone()).unwrap();
            assert!((400..=599).contains(&status), "{operation} {body:?}: {status}");
            peer.grant(1, 1_000).unwrap();
        }
        let unknown = peer.request(0, "com.example:dance", Value::Null).unwrap();
        assert_eq!(unknown.0, 501);
    });
}

#[test]
fn a_request_for_countless_messages_is_answered_in_a_page() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_sender(0, "victim").unwrap().unwrap();
        peer.send(0, &data_message(b"one")).unwrap();
        peer.attach_management(1, "victim").unwrap();
        for count in [Value::Int(i32::MAX), Value::Long(i64::MAX), Value::Int(0), Value::Int(-1)] {
            let body = Value::Map(vec![
                (Value::string("from-sequence-number"), Value::Long(i64::MIN)),
                (Value::string("message-count"), count.clone()),
            ]);
            let (status, _) = peer.request(1, "com.microsoft:peek-message", body).unwrap();
            assert!([200, 204, 400].contains(&status), "{count:?}: {status}");
            peer.grant(2, 1_000).unwrap();
        }
    });
}
