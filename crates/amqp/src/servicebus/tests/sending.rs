use bytes::{Bytes, BytesMut};
use peeklock_engine::runtime::Response;
use peeklock_engine::{Refusal, SequenceNumber};
use smallvec::SmallVec;

use super::harness::{Harness, message, request};
use crate::servicebus::submission::BATCH_MESSAGE_FORMAT;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::encode_body_data;
use crate::wire::performative::DeliveryState;

fn rejection(harness: &mut Harness) -> String {
    match harness.outcome() {
        Some(DeliveryState::Rejected(Some(error))) => error.condition.into(),
        other => panic!("{other:?}"),
    }
}

fn sent() -> Response {
    Response::Sent(Ok(SmallVec::from_iter([SequenceNumber(1)])))
}

#[test]
fn a_message_is_accepted_once_the_engine_says_it_is_stored() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    harness.send(sender, false, 0, message("hello"));
    let (tag, Command::Send { messages }) = harness.command() else { panic!("a send") };
    assert_eq!(messages[0].content, message("hello"));
    assert_eq!(harness.outcome(), None, "not before it is durable");
    harness.answer(tag, sent());
    assert_eq!(harness.outcome(), Some(DeliveryState::Accepted));
}

#[test]
fn refusals_of_the_engine_reject_with_their_condition() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    for (refusal, condition) in [
        (Refusal::StorageFull, "amqp:resource-limit-exceeded"),
        (Refusal::EntityFull { limit_bytes: 1 }, "amqp:resource-limit-exceeded"),
        (Refusal::MessageTooLarge { size_bytes: 2, limit_bytes: 1 }, "amqp:link:message-size-exceeded"),
        (Refusal::Unavailable, "com.microsoft:server-busy"),
    ] {
        harness.send(sender, false, 0, message("hello"));
        let (tag, _) = harness.command();
        harness.answer(tag, Response::Sent(Err(refusal)));
        assert_eq!(rejection(&mut harness), condition);
    }
}

#[test]
fn malformed_messages_never_reach_the_engine() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let whole = message("hello");
    let broken_batch = [&[0x00, 0x53, 0x75, 0xa0, 3][..], &[1, 2, 3]].concat();
    for (format, payload) in [
        (0, Bytes::new()),
        (0, whole.slice(..whole.len() - 1)),
        (BATCH_MESSAGE_FORMAT, Bytes::from(broken_batch)),
        (BATCH_MESSAGE_FORMAT, whole.clone()),
    ] {
        harness.send(sender, false, format, payload);
        assert_eq!(rejection(&mut harness), "amqp:decode-error");
    }
    harness.send(sender, false, 5, whole);
    assert_eq!(rejection(&mut harness), "amqp:not-implemented");
    assert_eq!(harness.commands(), []);
}

/// Messages with an int as id, with a map as application property, and with a duplicate key.
fn unreadable() -> [Bytes; 3] {
    let map = Value::Map(vec![("key".into(), Value::Null)]);
    let twice = Value::Map(vec![("key".into(), Value::Null), ("key".into(), Value::Null)]);
    [
        request(Value::Int(1), &[], &Value::Null),
        request("id".into(), &[("map", map)], &Value::Null),
        request("id".into(), &[], &twice),
    ]
}

#[test]
fn messages_that_clients_can_not_read_are_refused_with_their_batch() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let in_batch = |message: &Bytes| {
        let mut section = BytesMut::new();
        encode_body_data(message, &mut section);
        section.freeze()
    };
    let good = message("hello");
    for bad in unreadable() {
        let batch = Bytes::from([in_batch(&good), in_batch(&bad), in_batch(&good)].concat());
        for (format, payload) in [(0, bad), (BATCH_MESSAGE_FORMAT, batch)] {
            harness.send(sender, false, format, payload);
            assert_eq!(rejection(&mut harness), "amqp:decode-error");
        }
    }
    assert_eq!(harness.commands(), []);
    harness.send(sender, false, 0, good);
    assert_eq!(harness.commands().len(), 1, "the link lives");
}

#[test]
fn messages_that_clients_can_not_read_are_not_scheduled() {
    let mut harness = Harness::new();
    let requests = harness.requester("q/$management");
    for bad in unreadable() {
        let entry = Value::Map(vec![("message".into(), Value::Binary(bad))]);
        let body = Value::Map(vec![("messages".into(), Value::List(vec![entry]))]);
        let operation = ("operation", Value::from("com.microsoft:schedule-message"));
        harness.send(requests, false, 0, request("r".into(), &[operation], &body));
        let (_, _, payload) = harness.messages().pop().expect("an answer");
        let answer = crate::servicebus::envelope::Request::decode(&payload).unwrap();
        let condition = crate::wire::message::lookup(&answer.properties, "errorCondition");
        assert_eq!(condition.and_then(Value::as_str), Some("amqp:decode-error"));
    }
    assert_eq!(harness.commands(), []);
}

#[test]
fn an_oversized_message_is_rejected_and_the_link_lives() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    for size in [10_000, 3_000_000] {
        harness.send(sender, false, 0, message(&"x".repeat(size)));
        assert_eq!(rejection(&mut harness), "amqp:link:message-size-exceeded");
    }
    harness.send(sender, false, 0, message("small"));
    assert_eq!(harness.commands().len(), 1);
}

#[test]
fn settled_sends_count_as_unanswered_until_the_engine_answers() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let payload = message("hello");
    harness.send(sender, true, 0, payload.clone());
    assert_eq!(
        harness.broker.unanswered(),
        Unanswered { messages: 1, bytes: payload.len(), answer_bytes: 0, kept_bytes: 0 }
    );
    let (tag, _) = harness.command();
    harness.answer(tag, sent());
    assert_eq!(harness.broker.unanswered(), Unanswered::default());
    assert_eq!(harness.outcome(), None);
}

#[test]
fn an_answer_for_a_link_that_is_gone_is_no_trouble() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    harness.send(sender, false, 0, message("hello"));
    let (tag, _) = harness.command();
    harness.client.detach(sender, None);
    harness.answer(tag, sent());
    assert_eq!(harness.server.incoming_unsettled(), (0, 0));
}

#[test]
fn a_message_without_an_id_gets_one_of_its_own() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let mut ids = Vec::new();
    for _ in 0..2 {
        harness.send(sender, false, 0, request(Value::Null, &[], &Value::Null));
        let (_, Command::Send { messages }) = harness.command() else { panic!("a send") };
        let sections = crate::wire::message::Sections::split(&messages[0].content).unwrap();
        ids.push(sections.decode_properties().unwrap().message_id);
    }
    assert!(matches!(&ids[..], [Value::String(first), Value::String(second)] if first != second), "{ids:?}");
}
