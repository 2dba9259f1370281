use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{
    LockToken, QueuePath, ReceiveMode, ReceiverOptions, Refusal, SessionRequest, SettleFailure, SubQueue,
    Timestamp,
};

use super::harness::{Harness, NOW, SESSION_FILTER, SESSIONS, accepted, request};
use crate::endpoint::Event;
use crate::servicebus::envelope::lookup;
use crate::servicebus::*;
use crate::wire::message::Sections;
use crate::wire::performative::{Attach, DeliveryState};
use crate::wire::{Fields, Value};

/// A session's receiver attaches with this filter and these properties.
fn attach_with(harness: &mut Harness, filter: Value, properties: Fields) -> LinkId {
    let mut attach = Attach { properties, ..harness.receiver_attach("sessions") };
    attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), filter)];
    harness.attach(attach)
}

fn opening(harness: &mut Harness) -> (Option<u64>, ReceiverId, Option<SessionRequest>) {
    match harness.command() {
        (tag, Command::OpenReceiver { receiver, session, .. }) => (tag, receiver, session),
        other => panic!("{other:?}"),
    }
}

fn attach_reply(harness: &mut Harness) -> Attach {
    let replies = harness.events().into_iter().find_map(|event| match event {
        Event::Attach { attach, .. } => Some(*attach),
        _ => None,
    });
    replies.expect("an answer to the attach")
}

/// The error of a refused attach: null termini first, then a closing detach.
fn refused(harness: &mut Harness) -> Error {
    let mut events = harness.events();
    events.retain(|event| !matches!(event, Event::Opened(_)));
    let [Event::Attach { attach, .. }, Event::Detached { closed: true, error: Some(error), .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(attach.source.is_none() && attach.target.is_none());
    error.clone()
}

fn described(code: Value, value: Value) -> Value {
    Value::described(code, value)
}

/// Sends a request and returns the answer's status, condition and body; `reply` is the engine's answer.
fn ask(
    harness: &mut Harness,
    node: LinkId,
    operation: &str,
    body: &Value,
    reply: Option<Response>,
) -> Answered {
    let properties = [("operation", format!("com.microsoft:{operation}").as_str().into())];
    harness.send(node, true, 0, request(Value::ULong(1), &properties, body));
    let commands = harness.commands();
    assert_eq!(commands.len(), usize::from(reply.is_some()), "{commands:?}");
    let command = commands.into_iter().next().map(|(tag, command)| {
        harness.answer(tag, reply.unwrap());
        command
    });
    let (_, _, payload) = harness.messages().remove(0);
    let sections = Sections::split(&payload).unwrap();
    let properties = Sections::decode_map(&sections.application_properties).unwrap();
    Answered {
        command,
        status: lookup(&properties, "statusCode").unwrap().clone(),
        condition: lookup(&properties, "errorCondition").cloned(),
        body: sections.body_value().unwrap(),
    }
}

struct Answered {
    command: Option<Command>,
    status: Value,
    condition: Option<Value>,
    body: Value,
}

fn of_session(id: &str) -> Value {
    Value::Map(vec![("session-id".into(), id.into())])
}

#[test]
fn a_named_session_is_asked_for_and_confirmed_in_the_clients_shape() {
    let go = |value| described(Value::ULong(0x13_7000_000C), value);
    let symbolic = |value| described(Value::symbol(SESSION_FILTER), value);
    let bare = |value| value;
    let shapes: [fn(Value) -> Value; 3] = [bare, go, symbolic];
    for shape in shapes {
        for (requested, id) in [(Value::from("s1"), "s1"), (Value::from(""), ""), (Value::Null, "granted")] {
            let mut harness = Harness::new();
            attach_with(&mut harness, shape(requested.clone()), Vec::new());
            let (tag, command) = harness.command();
            let expected = Command::OpenReceiver {
                receiver: ReceiverId(1),
                options: ReceiverOptions { source: QueuePath::main(SESSIONS), mode: ReceiveMode::PeekLock },
                session: Some(SessionRequest {
                    id: requested.as_str().map(Into::into),
                    wait_until: NOW.plus_ms(65_000),
                    ..SessionRequest::default()
                }),
            };
            assert_eq!(command, expected);
            assert!(harness.events().iter().all(|event| matches!(event, Event::Opened(_))), "held open");
            harness.answer(tag, accepted(id));
            let reply = attach_reply(&mut harness);
            let source = reply.source.unwrap();
            assert_eq!(source.address.as_deref(), Some("sessions"), "byte for byte");
            assert_eq!(source.filter, [(SESSION_FILTER.into(), shape(id.into()))]);
            let ticks = Value::Long(638_355_968_010_000_000);
            assert_eq!(reply.properties, [("com.microsoft:locked-until-utc".into(), ticks)]);
        }
    }
}

#[test]
fn the_link_says_how_long_to_wait_and_keeps_its_other_properties() {
    let mut harness = Harness::new();
    let properties =
        vec![("com.microsoft:timeout".into(), Value::UInt(4990)), ("mine".into(), Value::Bool(true))];
    attach_with(&mut harness, Value::Null, properties.clone());
    let (tag, _, requested) = opening(&mut harness);
    assert_eq!(
        requested,
        Some(SessionRequest { id: None, wait_until: NOW.plus_ms(4990), ..SessionRequest::default() })
    );
    harness.answer(tag, accepted("x"));
    assert_eq!(attach_reply(&mut harness).properties[..2], properties);
}

#[test]
fn refusals_have_the_conditions_that_the_sdks_map() {
    for (refusal, condition, text) in [
        (
            Refusal::SessionCannotBeLocked("s".into()),
            "com.microsoft:session-cannot-be-locked",
            "The requested session 's' cannot be accepted. It may be locked by another receiver.",
        ),
        (Refusal::NoSessionAvailable, "com.microsoft:timeout", ""),
        (
            Refusal::EntityDeleted,
            "amqp:not-found",
            "The messaging entity 'sb://localhost/sessions' could not",
        ),
        (Refusal::Unavailable, "com.microsoft:server-busy", ""),
    ] {
        let mut harness = Harness::new();
        attach_with(&mut harness, "s".into(), Vec::new());
        let (tag, _, _) = opening(&mut harness);
        harness.answer(tag, Response::Opened(Err(refusal)));
        let error = refused(&mut harness);
        assert_eq!(&*error.condition, condition);
        assert!(error.description.as_deref().unwrap().starts_with(text), "{error:?}");
    }
}

#[test]
fn a_receiver_without_a_filter_is_for_the_engine_to_refuse() {
    let mut harness = Harness::new();
    let attach = harness.receiver_attach("sessions");
    harness.attach(attach);
    let (tag, _, requested) = opening(&mut harness);
    assert_eq!(requested, None);
    harness.answer(tag, Response::Opened(Err(Refusal::SessionRequired)));
    let error = refused(&mut harness);
    assert_eq!(&*error.condition, "amqp:not-allowed");
    let text = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.";
    assert!(error.description.as_deref().unwrap().starts_with(text));
}

#[test]
fn a_filter_where_there_are_no_sessions_is_refused() {
    let mut harness = Harness::new();
    let sessionless =
        "A sessionful message receiver cannot be created on an entity that does not require sessions.";
    // The service's words (azure-sdk-for-java 10662).
    let sub_queue = "Cannot create a MessageSession for a sub-queue.";
    let texts = [
        ("q", sessionless),
        ("q/$DeadLetterQueue", sessionless),
        ("sessions/$DeadLetterQueue", sub_queue),
        ("t/Subscriptions/s", sessionless),
    ];
    for (address, text) in texts {
        for value in [Value::Null, "".into(), "s".into()] {
            let mut attach = harness.receiver_attach(address);
            attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), value)];
            harness.attach(attach);
            assert!(harness.commands().is_empty(), "the engine is not bothered");
            let error = refused(&mut harness);
            assert_eq!(&*error.condition, "amqp:not-allowed");
            assert!(error.description.as_deref().unwrap().starts_with(text));
        }
    }
}

#[test]
fn ids_that_are_no_ids_are_argument_errors() {
    let mut harness = Harness::new();
    for value in ["x".repeat(129).as_str().into(), Value::Int(1), described(Value::ULong(3), "s".into())] {
        attach_with(&mut harness, value, Vec::new());
        assert!(harness.commands().is_empty());
        assert_eq!(&*refused(&mut harness).condition, "com.microsoft:argument-error");
    }
}

#[test]
fn the_dead_letters_of_a_session_queue_are_sessionless() {
    let mut harness = Harness::new();
    let attach = harness.receiver_attach("sessions/$DeadLetterQueue");
    harness.attach(attach);
    let (tag, command) = harness.command();
    let Command::OpenReceiver { options, session: None, .. } = command else { panic!("{command:?}") };
    assert_eq!(options.source, QueuePath { queue: SESSIONS, sub_queue: SubQueue::DeadLetter });
    harness.answer(tag, Response::Opened(Ok(None)));
    assert!(attach_reply(&mut harness).source.unwrap().filter.is_empty());
}

#[test]
fn a_detached_link_cancels_its_wait_whatever_the_engine_answers_then() {
    for late in [accepted("x"), Response::Opened(Err(Refusal::NoSessionAvailable))] {
        let mut harness = Harness::new();
        attach_with(&mut harness, Value::Null, Vec::new());
        let (tag, receiver, _) = opening(&mut harness);
        harness.client.end(harness.session, None);
        assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver }));
        harness.answer(tag, late);
        assert!(!harness.events().iter().any(|event| matches!(event, Event::Attach { .. })));
        assert!(harness.broker.sessions.is_empty() && harness.broker.receivers.is_empty());
        assert!(harness.broker.pending.is_empty());
    }
}

#[test]
fn an_answer_without_the_session_asked_for_is_not_passed_on() {
    let mut harness = Harness::new();
    attach_with(&mut harness, "s".into(), Vec::new());
    let (tag, receiver, _) = opening(&mut harness);
    harness.answer(tag, Response::Opened(Ok(None)));
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver }));
    assert_eq!(&*refused(&mut harness).condition, "amqp:internal-error");
}

#[test]
fn a_lost_session_detaches_its_link_and_is_no_longer_known() {
    let mut harness = Harness::new();
    let (_, receiver) = harness.session_receiver("s");
    let node = harness.requester("sessions/$management");
    let renewed = Some(Response::SessionRenewed(Ok(Timestamp(7))));
    let answered = ask(&mut harness, node, "renew-session-lock", &of_session("s"), renewed);
    assert_eq!(answered.command, Some(Command::RenewSessionLock { receiver }));
    assert_eq!(answered.body, Value::Map(vec![("expiration".into(), Value::Timestamp(7))]));
    harness.output(Output::ReceiverClosed { receiver, refusal: Refusal::SessionLockLost });
    let error = harness.refusal().unwrap();
    assert_eq!(&*error.condition, "com.microsoft:session-lock-lost");
    assert!(error.description.is_some());
    assert_eq!(harness.commands(), [], "the engine knows");
    let answered = ask(&mut harness, node, "renew-session-lock", &of_session("s"), None);
    assert_eq!(answered.status, Value::Int(410));
    assert_eq!(answered.condition, Some(Value::symbol("com.microsoft:session-lock-lost")));
}

/// azure-sdk-for-java 48759, durabletask 1334: ids that differ only in case name one session.
#[test]
fn a_session_is_known_to_its_holder_under_every_spelling() {
    let mut harness = Harness::new();
    let (_, receiver) = harness.session_receiver("SessionId");
    let node = harness.requester("sessions/$management");
    for id in ["SessionId", "sessionId", "SESSIONID"] {
        let renewed = Some(Response::SessionRenewed(Ok(Timestamp(7))));
        let answered = ask(&mut harness, node, "renew-session-lock", &of_session(id), renewed);
        assert_eq!(answered.command, Some(Command::RenewSessionLock { receiver }), "{id}");
    }
    harness.client.end(harness.session, None);
    harness.pump();
    assert!(harness.broker.sessions.is_empty());
}

#[test]
fn settling_in_a_lost_session_fails_with_its_condition() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.session_receiver("s");
    harness.client.set_credit(link, 10, false);
    harness.commands();
    harness.deliver(receiver, 1);
    let (id, _, _) = harness.messages().remove(0);
    harness.client.update_incoming(id, DeliveryState::Accepted);
    let (tag, command) = harness.command();
    assert!(matches!(command, Command::Settle { queue: SESSIONS, .. }), "{command:?}");
    let lost = SettleFailure { index: 0, refusal: Refusal::SessionLockLost };
    harness.answer(tag, Response::Settled(vec![lost]));
    let state = harness.events().into_iter().find_map(|event| match event {
        Event::Settled { state, .. } => state,
        _ => None,
    });
    let Some(DeliveryState::Rejected(Some(error))) = state else { panic!("{state:?}") };
    assert_eq!(&*error.condition, "com.microsoft:session-lock-lost");
}

#[test]
fn closing_a_session_link_says_no_more_than_that() {
    let mut harness = Harness::with_window(1);
    let (link, receiver) = harness.session_receiver("s");
    harness.client.set_credit(link, 10, false);
    harness.commands();
    for number in 1..=3 {
        harness.deliver(receiver, number);
    }
    assert_eq!(harness.turn_unread(0), [], "two wait for the window");
    harness.client.detach(link, None);
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver }));
    harness.deliver(receiver, 4);
    assert_eq!(harness.commands(), [], "its lock went with the session's");
    assert_eq!(harness.broker.unsettled, 0);
}

#[test]
fn one_connection_holds_several_sessions_and_takes_one_up_again() {
    let mut harness = Harness::new();
    let (first_link, first) = harness.session_receiver("a");
    let (_, second) = harness.session_receiver("b");
    let node = harness.requester("sessions/$management");
    let state = || Some(Response::SessionState(Ok(Some(Bytes::from_static(b"x")))));
    for (id, receiver) in [("a", first), ("b", second)] {
        let answered = ask(&mut harness, node, "get-session-state", &of_session(id), state());
        assert_eq!(answered.command, Some(Command::GetSessionState { receiver }));
    }
    // Attached again before the broker gets the old link's detach.
    let (_, third) = harness.session_receiver("a");
    harness.client.detach(first_link, None);
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver: first }));
    let answered = ask(&mut harness, node, "get-session-state", &of_session("a"), state());
    assert_eq!(answered.command, Some(Command::GetSessionState { receiver: third }));
}

#[test]
fn sessions_end_with_their_connection() {
    let mut harness = Harness::new();
    let (_, receiver) = harness.session_receiver("s");
    harness.client.close(None);
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver }));
    assert!(harness.broker.sessions.is_empty());
}

#[test]
fn no_sessions_is_204_with_a_condition() {
    let mut harness = Harness::new();
    let node = harness.requester("sessions/$management");
    let body = Value::Map(vec![
        ("last-updated-time".into(), Value::Timestamp(253_402_300_800_000)),
        ("skip".into(), Value::Int(0)),
        ("top".into(), Value::Int(100)),
    ]);
    let answered =
        ask(&mut harness, node, "get-message-sessions", &body, Some(Response::Sessions(Ok(vec![]))));
    assert_eq!((answered.status, answered.body), (Value::Int(204), Value::Map(Vec::new())));
    assert_eq!(answered.condition, Some(Value::symbol("com.microsoft:session-not-found")));
}

#[test]
fn messages_show_the_locks_end_and_the_session_as_partition_key() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.session_receiver("s");
    harness.client.set_credit(link, 10, false);
    let mut content = bytes::BytesMut::new();
    crate::wire::message::MessageProperties { group_id: Some("s".into()), ..Default::default() }
        .encode(&mut content);
    crate::wire::message::encode_body_value(&Value::Null, &mut content);
    let locked_until = super::harness::NOW.plus_ms(77_000);
    let lock = peeklock_engine::Lock { token: LockToken(1), locked_until };
    let view = super::harness::view(1);
    let message = peeklock_engine::Received { view, content: content.freeze(), lock: Some(lock) };
    harness.output(Output::Delivery(Box::new(peeklock_engine::Delivery {
        receiver,
        message,
        departing: None,
        share: None,
    })));
    let (_, _, payload) = harness.messages().remove(0);
    let sections = Sections::split(&payload).unwrap();
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(
        lookup(&annotations, "x-opt-locked-until"),
        Some(&Value::Timestamp(locked_until.0.cast_signed()))
    );
    assert_eq!(lookup(&annotations, "x-opt-partition-key"), Some(&"s".into()));
}
