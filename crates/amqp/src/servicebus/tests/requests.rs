use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{LockToken, Refusal, Timestamp};

use super::authorization::{BRIEF, access_and_clock, put};
use super::harness::{Harness, QUEUE, plain_attach, request};
use crate::endpoint::Event;
use crate::servicebus::envelope::lookup;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::Sections;
use crate::wire::performative::{DeliveryState, Role, Target, Terminus};

/// A response as a client reads it.
#[derive(Debug)]
struct Answered {
    correlation_id: Value,
    properties: Vec<(Value, Value)>,
    body: Value,
}

fn read(payload: &Bytes) -> Answered {
    let sections = Sections::split(payload).unwrap();
    Answered {
        correlation_id: sections.decode_properties().unwrap().correlation_id,
        properties: Sections::decode_map(&sections.application_properties).unwrap(),
        body: sections.body_value().unwrap(),
    }
}

fn response(harness: &mut Harness) -> Answered {
    let messages = harness.messages();
    assert_eq!(messages.len(), 1);
    read(&messages[0].2)
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn renew(message_id: Value) -> Bytes {
    let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
    let body = Value::Map(vec![(string("lock-tokens"), tokens)]);
    request(message_id, &[("operation", string("com.microsoft:renew-lock"))], &body)
}

#[test]
fn put_token_is_answered_with_an_int_and_no_error_condition() {
    let mut harness = Harness::new();
    let cbs = harness.requester("$cbs");
    let token = string("SharedAccessSignature sr=x&sig=y&se=1&skn=k");
    let put = [("operation", string("put-token")), ("type", string("jwt")), ("name", string("sb://h/q"))];
    let id = Value::Uuid([9; 16]);
    harness.send(cbs, false, 0, request(id.clone(), &put, &token));
    let answered = response(&mut harness);
    assert_eq!(answered.correlation_id, id, "of the type it had");
    assert_eq!(lookup(&answered.properties, "status-code"), Some(&Value::Int(202)));
    assert_eq!(lookup(&answered.properties, "error-condition"), None, "P takes any for a failure");
}

#[test]
fn a_request_is_settled_at_once_and_answered_settled_when_done() {
    let mut harness = Harness::new();
    let management = harness.requester("q/$management");
    for id in
        [Value::Uuid([1; 16]), string("text"), Value::ULong(77), Value::Binary(Bytes::from_static(b"b"))]
    {
        harness.send(management, false, 0, renew(id.clone()));
        assert_eq!(harness.outcome(), Some(DeliveryState::Accepted), "J's ring of deliveries must not fill");
        let (tag, command) = harness.command();
        assert_eq!(command, Command::RenewLocks { queue: QUEUE, tokens: vec![LockToken(3)] });
        harness.answer(tag, Response::Renewed(Ok(vec![Timestamp(8)])));
        let events = harness.events();
        let [Event::Message { payload, settled: true, .. }] = &events[..] else { panic!("{events:?}") };
        let answered = read(payload);
        assert_eq!(answered.correlation_id, id);
        assert_eq!(lookup(&answered.properties, "statusCode"), Some(&Value::Int(200)));
        assert_eq!(lookup(&answered.properties, "errorCondition"), None);
        assert!(matches!(answered.body, Value::Map(_)));
    }
}

#[test]
fn failures_carry_status_and_a_symbol() {
    let mut harness = Harness::new();
    let management = harness.requester("q/$management");
    harness.send(management, true, 0, renew(Value::ULong(1)));
    let (tag, _) = harness.command();
    harness.answer(tag, Response::Renewed(Err(Refusal::MessageLockLost)));
    let answered = response(&mut harness);
    assert_eq!(lookup(&answered.properties, "statusCode"), Some(&Value::Int(410)));
    let condition = Value::Symbol("com.microsoft:message-lock-lost".into());
    assert_eq!(lookup(&answered.properties, "errorCondition"), Some(&condition));
    assert_eq!(answered.body, Value::Map(Vec::new()));
}

/// The texts are those of Service Bus (azure-sdk-for-net 10535, 12935).
#[test]
fn refusals_of_a_disabled_entity_name_it_and_what_is_disabled() {
    let mut harness = Harness::new();
    let management = harness.requester("q/$management");
    harness.send(management, true, 0, renew(Value::ULong(1)));
    let numbers = Value::Map(vec![(string("sequence-numbers"), Value::Array(vec![Value::Long(1)]))]);
    let cancel = [("operation", string("com.microsoft:cancel-scheduled-message"))];
    harness.send(management, true, 0, request(Value::ULong(2), &cancel, &numbers));
    let disabled = || Refusal::EntityDisabled;
    let cases = [
        (
            Response::Renewed(Err(disabled())),
            "Messaging entity 'sb://localhost/q/$management' is currently disabled. ",
        ),
        (
            Response::Done(Err(disabled())),
            "Messaging entity 'peeklock:Queue:q' is currently disabled for Send operations. ",
        ),
    ];
    let commands = harness.commands();
    assert_eq!(commands.len(), cases.len());
    for ((tag, _), (answer, expected)) in commands.into_iter().zip(cases) {
        harness.answer(tag, answer);
        let answered = response(&mut harness);
        let text = lookup(&answered.properties, "statusDescription").cloned();
        assert!(matches!(&text, Some(Value::String(text)) if text.starts_with(expected)), "{text:?}");
    }
}

#[test]
fn unknown_operations_and_bad_requests_never_succeed() {
    let mut harness = Harness::new();
    let management = harness.requester("q/$management");
    let mut status = |operation: Option<&str>, body: Value| {
        let operation: Vec<_> = operation.map(|name| ("operation", string(name))).into_iter().collect();
        harness.send(management, false, 0, request(Value::ULong(1), &operation, &body));
        let answered = response(&mut harness);
        lookup(&answered.properties, "statusCode").cloned()
    };
    let map = || Value::Map(Vec::new());
    assert_eq!(status(Some("com.microsoft:nonsense"), map()), Some(Value::Int(501)));
    assert_eq!(status(Some("com.microsoft:get-session-state"), map()), Some(Value::Int(400)));
    assert_eq!(status(Some("com.microsoft:renew-lock"), Value::Null), Some(Value::Int(400)));
    assert_eq!(status(None, map()), Some(Value::Int(400)));
    assert_eq!(harness.commands(), []);
    harness.send(management, false, 0, Bytes::from_static(b"rubbish"));
    assert!(matches!(harness.outcome(), Some(DeliveryState::Rejected(Some(_)))));
}

#[test]
fn responses_stay_on_the_session_that_asked() {
    let mut harness = Harness::new();
    let first = harness.requester("q/$management");
    harness.session = harness.client.begin().unwrap();
    let second = harness.requester("Q/$Management");
    for (link, id) in [(first, 1), (second, 2), (first, 3)] {
        harness.send(link, true, 0, renew(Value::ULong(id)));
        let (tag, _) = harness.command();
        harness.answer(tag, Response::Renewed(Ok(vec![Timestamp(8)])));
        let (incoming, _, payload) = harness.messages().remove(0);
        assert_eq!(read(&payload).correlation_id, Value::ULong(id));
        let session = |link| harness.client.session_of(link);
        assert_eq!(session(incoming.link), session(link));
    }
}

#[test]
fn several_links_on_one_session_are_distinguished_by_reply_to() {
    let mut harness = Harness::new();
    let mut attach = plain_attach("by address", Role::Receiver, "q/$management", "reply-1");
    attach.target = Some(Target::Node(Terminus { address: Some("reply-1".into()), ..Terminus::default() }));
    let first = harness.attach(attach);
    harness.client.set_credit(first, 10, false);
    let requests = harness.requester("q/$management");
    let mut asked = bytes::BytesMut::new();
    crate::wire::message::MessageProperties {
        message_id: Value::ULong(1),
        reply_to: Some("reply-1".into()),
        ..Default::default()
    }
    .encode(&mut asked);
    harness.send(requests, true, 0, asked.freeze());
    assert_eq!(harness.messages().remove(0).0.link, first);
}

/// What is being prepared does not count: it is not available yet.
#[test]
fn a_drain_of_responses_is_answered() {
    for address in ["$cbs", "q/$management"] {
        let mut harness = Harness::new();
        let attach = harness.receiver_attach(address);
        let responses = harness.attach(attach);
        harness.events();
        harness.client.set_credit(responses, 10, true);
        let events = harness.events();
        assert!(matches!(events[..], [Event::Drained { link, .. }] if link == responses), "{events:?}");
    }
}

#[test]
fn a_peer_that_asks_and_does_not_read_is_refused_in_the_end() {
    let mut harness = Harness::new();
    let attach = harness.receiver_attach("$cbs");
    harness.attach(attach);
    let cbs = harness.sender("$cbs");
    let mut refused = None;
    for number in 0..2000 {
        harness.send(cbs, false, 0, request(Value::ULong(1), &[], &Value::Null));
        if let Some(DeliveryState::Rejected(Some(error))) = harness.outcome() {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("the responses are bounded");
    assert_eq!(number, 1024);
    assert_eq!(&*error.condition, "com.microsoft:server-busy");
}

/// Java repeats the session id of a message that it settles, also on entities without sessions.
#[test]
fn the_session_id_of_a_message_does_no_harm_where_there_are_no_sessions() {
    for address in ["q", "sessions/$DeadLetterQueue"] {
        let mut harness = Harness::new();
        let management = harness.requester(&format!("{address}/$management"));
        let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
        for (operation, status) in [("update-disposition", "completed"), ("renew-lock", "")] {
            let body = Value::Map(vec![
                (string("lock-tokens"), tokens.clone()),
                (string("disposition-status"), string(status)),
                (string("session-id"), string("a")),
            ]);
            let operation = string(&format!("com.microsoft:{operation}"));
            let asked = request(string("id"), &[("operation", operation)], &body);
            harness.send(management, true, 0, asked);
            let (_, command) = harness.command();
            assert!(matches!(command, Command::Settle { .. } | Command::RenewLocks { .. }), "{command:?}");
        }
    }
}

/// A peer that does not read could otherwise keep requests for later than its token.
#[test]
fn a_request_that_waits_for_room_is_not_carried_out_after_its_right_has_ended() {
    for has_ended in [false, true] {
        let (access, clock) = access_and_clock();
        let mut harness = Harness::with(access, &Peer::default());
        let cbs = harness.requester("$cbs");
        put(&mut harness, cbs, "sb://localhost/q", BRIEF);
        let management = harness.requester("q/$management");
        harness.commands();
        let tag = one_waits_for_room(&mut harness, management);
        if has_ended {
            clock.advance(10_000);
            harness.advance(10_000);
        }
        harness.answer(tag, Response::Received(Ok(Vec::new())));
        assert_eq!(peeks(&mut harness), usize::from(!has_ended));
    }
}

/// Sends two requests to peek, of which the second waits; returns the tag of the first one's command.
pub(super) fn one_waits_for_room(harness: &mut Harness, management: LinkId) -> Option<u64> {
    for room_bytes in [200_000, 100_000] {
        harness.broker.set_room(room_bytes);
        let body = [("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1_000))];
        let entries = body.into_iter().map(|(key, value)| (string(key), value)).collect();
        let operation = string("com.microsoft:peek-message");
        let peek = request(Value::ULong(1), &[("operation", operation)], &Value::Map(entries));
        harness.send(management, true, 0, peek);
    }
    let (tag, Command::Peek { .. }) = harness.command() else { panic!("the second waits") };
    tag
}

/// Requests to peek that reached the engine.
fn peeks(harness: &mut Harness) -> usize {
    harness.commands().iter().filter(|(_, command)| matches!(command, Command::Peek { .. })).count()
}

/// A message that it receives and deletes would be lost.
#[test]
fn a_request_that_waits_for_room_is_not_carried_out_after_the_end_of_its_link_for_responses() {
    for has_ended in [false, true] {
        let mut harness = Harness::new();
        let attach = harness.receiver_attach("q/$management");
        let responses = harness.attach(attach);
        let management = harness.sender("q/$management");
        let tag = one_waits_for_room(&mut harness, management);
        if has_ended {
            harness.client.detach(responses, None);
            harness.pump();
        }
        harness.answer(tag, Response::Received(Ok(Vec::new())));
        assert_eq!(peeks(&mut harness), usize::from(!has_ended));
    }
}
