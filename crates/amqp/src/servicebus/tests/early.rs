//! Management requests that arrive before the link for their responses.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{LockToken, Timestamp};

use super::harness::{Harness, QUEUE, request};
use crate::endpoint::Event;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::{Attach, DeliveryState};

fn renew(number: u64) -> Bytes {
    let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
    let body = Value::Map(vec![(Value::String("lock-tokens".into()), tokens)]);
    let operation = Value::String("com.microsoft:renew-lock".into());
    request(Value::ULong(number), &[("operation", operation)], &body)
}

/// The link for responses.
fn attach_responses(harness: &mut Harness) -> Vec<Command> {
    let attach = harness.receiver_attach("q/$management");
    let responses = harness.attach(attach);
    harness.client.set_credit(responses, 10, false);
    commands(harness)
}

/// Commands that reached the engine, except those of links that watch.
fn commands(harness: &mut Harness) -> Vec<Command> {
    let commands = harness.commands().into_iter().map(|(_, command)| command);
    commands.filter(|command| !matches!(command, Command::Watch { .. })).collect()
}

fn rejection(harness: &mut Harness) -> Option<String> {
    match harness.outcome() {
        Some(DeliveryState::Rejected(Some(error))) => Some(error.condition.into()),
        _ => None,
    }
}

#[test]
fn a_request_waits_for_the_link_of_its_response() {
    for settled in [false, true] {
        let mut harness = Harness::new();
        let requests = harness.sender("q/$management");
        harness.send(requests, settled, 0, renew(1));
        harness.advance(4_999);
        assert!(commands(&mut harness).is_empty(), "not carried out, since the answer would be lost");
        assert!(harness.outcome().is_none());

        let attach = harness.receiver_attach("q/$management");
        let responses = harness.attach(attach);
        harness.client.set_credit(responses, 10, false);
        let mut asked = harness.commands();
        asked.retain(|(_, command)| !matches!(command, Command::Watch { .. }));
        let [(tag, Command::RenewLocks { queue: QUEUE, tokens })] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(tokens, &[LockToken(3)]);
        harness.answer(*tag, Response::Renewed(Ok(vec![Timestamp(8)])));
        let events = harness.events();
        let answers = events.iter().filter(|event| matches!(event, Event::Message { .. })).count();
        assert_eq!(answers, 1);
        harness.advance(10_000);
        assert!(rejection(&mut harness).is_none());
        assert_eq!(harness.broker.unanswered(), crate::server::Unanswered::default());
    }
}

#[test]
fn requests_are_carried_out_in_their_order() {
    let mut harness = Harness::new();
    let requests = harness.sender("q/$management");
    for number in 0..3 {
        harness.send(requests, false, 0, renew(number));
    }
    assert_eq!(attach_responses(&mut harness).len(), 3);
}

#[test]
fn a_request_does_not_wait_longer_than_some_seconds() {
    let mut harness = Harness::new();
    let requests = harness.sender("q/$management");
    harness.send(requests, false, 0, renew(1));
    harness.send(requests, true, 0, renew(2));
    assert_eq!(harness.broker.poll_deadline(), Some(5_000));
    harness.advance(5_000);
    assert_eq!(rejection(&mut harness).as_deref(), Some("amqp:not-allowed"));
    assert_eq!(harness.broker.unanswered(), crate::server::Unanswered::default());
    assert!(attach_responses(&mut harness).is_empty());
}

#[test]
fn only_so_many_requests_and_bytes_wait() {
    let mut harness = Harness::new();
    let requests = harness.sender("q/$management");
    for number in 0..64 {
        harness.send(requests, false, 0, renew(number));
        assert!(rejection(&mut harness).is_none());
    }
    harness.send(requests, false, 0, renew(64));
    assert_eq!(rejection(&mut harness).as_deref(), Some("amqp:not-allowed"));

    let mut harness = Harness::new();
    let requests = harness.sender("q/$management");
    let large = || request(Value::ULong(1), &[], &Value::Binary(vec![0; 60_000].into()));
    let refused_at = (0..40).position(|_| {
        harness.send(requests, false, 0, large());
        rejection(&mut harness).is_some()
    });
    assert_eq!(refused_at, Some(17), "one MiB");
}

#[test]
fn the_link_of_another_node_or_session_is_not_waited_for() {
    let mut harness = Harness::new();
    let requests = harness.sender("q/$management");
    harness.send(requests, false, 0, renew(1));
    let attach = harness.receiver_attach("t/$management");
    harness.attach(attach);
    let elsewhere = harness.client.begin().unwrap();
    let attach = harness.receiver_attach("q/$management");
    harness.client.attach(elsewhere, Attach { ..attach }).unwrap();
    assert!(commands(&mut harness).is_empty());
    assert_eq!(attach_responses(&mut harness).len(), 1);
}

#[test]
fn waiting_requests_are_dropped_with_the_connection() {
    let mut harness = Harness::new();
    let requests = harness.sender("q/$management");
    harness.send(requests, false, 0, renew(1));
    harness.client.close(None);
    harness.pump();
    assert!(commands(&mut harness).iter().all(|command| matches!(command, Command::CloseReceiver { .. })));
    assert_eq!(harness.broker.poll_deadline(), None);
}
