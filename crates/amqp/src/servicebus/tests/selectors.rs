//! Receivers with a selector.

use bytes::{Bytes, BytesMut};
use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{Command, Lock, MessageView, Received, ReceiverId, SequenceNumber};

use super::harness::{Harness, SESSION_FILTER};
use crate::wire::Value;
use crate::wire::message::encode_application_properties;
use crate::wire::performative::Attach;

const KEY: &str = "jms-selector";

fn selecting(harness: &mut Harness, address: &str, selector: Value) -> Attach {
    let mut attach = harness.receiver_attach(address);
    attach.source.as_mut().unwrap().filter = vec![(KEY.into(), selector)];
    attach
}

/// A stored message with an application property `size`.
fn message(number: u64, size: u8) -> Received {
    // A map of one entry, a string and a small uint.
    let content =
        [&[0x00, 0x53, 0x74, 0xC1, 9, 2, 0xA1, 4][..], b"size", &[0x52, size, 0x00, 0x53, 0x77, 0x40]]
            .concat();
    let view = MessageView { sequence_number: SequenceNumber(number), ..super::harness::view(number) };
    Received { view, content: Bytes::from(content), lock: None::<Lock> }
}

#[test]
fn the_engine_learns_which_messages_match() {
    let mut harness = Harness::new();
    let attach = selecting(&mut harness, "q", "size > 4".into());
    harness.attach(attach);
    let commands = harness.commands();
    let [(tag, Command::OpenReceiver { receiver, .. }), (_, Command::Select { receiver: selecting })] =
        &commands[..]
    else {
        panic!("{commands:?}");
    };
    assert_eq!(receiver, selecting);
    harness.answer(*tag, Response::Opened(Ok(None)));
    assert!(harness.refusal().is_none());
    let messages = vec![message(1, 5), message(2, 3), message(3, 9)];
    harness.output(Output::Examine { receiver: *receiver, messages });
    let (_, command) = harness.command();
    let matching = vec![SequenceNumber(1), SequenceNumber(3)];
    assert_eq!(command, Command::Examined { receiver: *receiver, matching });
    // An unknown receiver is not answered.
    harness.output(Output::Examine { receiver: ReceiverId(99), messages: Vec::new() });
    assert!(harness.commands().is_empty());
}

/// Opens a receiver that no message matches, and for which each message takes long.
fn slow(harness: &mut Harness, name: &str) -> ReceiverId {
    let part = format!("text LIKE '%{}c%'", "a_".repeat(50));
    let mut attach = selecting(harness, "q", vec![part; 100].join(" OR ").as_str().into());
    attach.name = name.into();
    harness.attach(attach);
    let commands = harness.commands();
    let [(tag, Command::OpenReceiver { receiver, .. }), _] = &commands[..] else { panic!("{commands:?}") };
    harness.answer(*tag, Response::Opened(Ok(None)));
    *receiver
}

/// A stored message with a long application property `text`.
fn long_message(number: u64) -> Received {
    let text = "ab".repeat(15_000);
    let mut content = BytesMut::new();
    encode_application_properties(&[(Value::from("text"), Value::from(text.as_str()))], &mut content);
    content.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
    Received { content: content.freeze(), ..message(number, 0) }
}

/// The client chooses the selector: a group of messages could take a second, in which the thread does nothing else.
#[test]
fn slow_selectors_are_evaluated_over_several_turns() {
    const MESSAGES: u64 = 5;
    let mut harness = Harness::new();
    let receivers = ["one", "two"].map(|name| slow(&mut harness, name));
    for receiver in receivers {
        harness.output(Output::Examine { receiver, messages: (1..=MESSAGES).map(long_message).collect() });
    }
    let mut turns = 0;
    let mut examined = Vec::new();
    while examined.len() < receivers.len() {
        examined.extend(harness.turn_unread(0));
        turns += 1;
    }
    assert!(turns >= 2 * MESSAGES, "{turns} turns");
    let expected = receivers.map(|receiver| (None, Command::Examined { receiver, matching: Vec::new() }));
    assert_eq!(examined, expected);
}

#[test]
fn a_selector_that_is_not_valid_is_refused() {
    for selector in [Value::from("size >"), Value::Int(5)] {
        let mut harness = Harness::new();
        let attach = selecting(&mut harness, "q", selector);
        harness.attach(attach);
        assert!(harness.commands().is_empty());
        assert_eq!(&*harness.refusal().unwrap().condition, "amqp:invalid-field");
    }
}

#[test]
fn a_receiver_of_a_session_can_t_have_a_selector() {
    let mut harness = Harness::new();
    let mut attach = selecting(&mut harness, "sessions", "size > 4".into());
    attach.source.as_mut().unwrap().filter.push((SESSION_FILTER.into(), "s".into()));
    harness.attach(attach);
    assert!(harness.commands().is_empty());
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:not-implemented");
}
