//! Point 5: schedule, cancel, update-disposition and set-session-state are part of a transaction; other operations are
//! not.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{ReceiveMode, Refusal, SequenceNumber, SettleFailure, Settlement, Timestamp};

use super::super::entities::Work;
use super::super::harness::{Harness, NOW, request};
use super::super::requests::one_waits_for_room;
use super::acting::{condition, in_transaction};
use crate::endpoint::{LinkId, Outgoing};
use crate::servicebus::envelope::lookup;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::{MessageProperties, Sections, encode_body_data, encode_message_annotations};

fn string(text: &str) -> Value {
    Value::String(text.into())
}

impl Harness {
    /// Sends a management request as .NET does: settled, with the state of the transaction.
    pub(super) fn request_work(
        &mut self,
        link: LinkId,
        txn_id: &Bytes,
        operation: &str,
        body: &[(&str, Value)],
    ) {
        let entries = body.iter().map(|(key, value)| (string(key), value.clone())).collect();
        let operation = string(&format!("com.microsoft:{operation}"));
        let payload = request(string("request1"), &[("operation", operation)], &Value::Map(entries));
        let payload = [payload].into_iter().collect();
        let outgoing = Outgoing { tag: Some([0; 16]), settled: true, message_format: 0, payload };
        self.client.send_with_state(link, outgoing, in_transaction(txn_id, None)).unwrap();
        self.pump();
    }

    /// Status, error condition and body of the only response.
    fn response(&mut self) -> (Value, Option<Value>, Value) {
        let messages = self.messages();
        assert_eq!(messages.len(), 1);
        let sections = Sections::split(&messages[0].2).unwrap();
        let properties = Sections::decode_map(&sections.application_properties).unwrap();
        let status = lookup(&properties, "statusCode").cloned().unwrap();
        (status, lookup(&properties, "errorCondition").cloned(), sections.body_value().unwrap())
    }
}

/// A message for a later time.
fn scheduled(at: Timestamp) -> Value {
    let mut message = bytes::BytesMut::new();
    let at = i64::try_from(at.0).unwrap();
    let annotations = [(Value::Symbol("x-opt-scheduled-enqueue-time".into()), Value::Timestamp(at))];
    encode_message_annotations(&annotations, &mut message);
    MessageProperties { message_id: string("id"), ..MessageProperties::default() }.encode(&mut message);
    encode_body_data(b"later", &mut message);
    Value::Map(vec![(string("message"), Value::Binary(message.freeze()))])
}

/// Schedules a message in a transaction.
pub(super) fn schedule(harness: &mut Harness, link: LinkId, txn_id: &Bytes) {
    let messages = Value::List(vec![scheduled(NOW.plus_ms(9))]);
    harness.request_work(link, txn_id, "schedule-message", &[("messages", messages)]);
}

#[test]
fn point_5_scheduled_messages_get_their_numbers_at_once() {
    let mut harness = Harness::new();
    let (coordinator, management) = (harness.coordinator(), harness.requester("q/$management"));
    harness.commands();
    let txn_id = harness.declare(coordinator);
    let messages = Value::List(vec![scheduled(NOW.plus_ms(9)), scheduled(NOW.plus_ms(8))]);
    harness.request_work(management, &txn_id, "schedule-message", &[("messages", messages)]);
    harness.agree_with(&[70, 71]);
    let (status, _, Value::Map(body)) = harness.response() else { panic!("a map") };
    assert_eq!(status, Value::Int(200));
    let numbers = Value::Array(vec![Value::Long(70), Value::Long(71)]);
    assert_eq!(lookup(&body, "sequence-numbers"), Some(&numbers));
    let (_, works) = harness.commit(coordinator, &txn_id);
    let [Work::Command(Command::Send { messages })] = &works[..] else { panic!("{works:?}") };
    let reserved: Vec<_> = messages.iter().map(|message| message.reserved_number).collect();
    assert_eq!(reserved, [Some(SequenceNumber(70)), Some(SequenceNumber(71))]);
}

#[test]
fn point_5_a_cancelled_message_stays_until_the_commit() {
    let mut harness = Harness::new();
    let (coordinator, management) = (harness.coordinator(), harness.requester("q/$management"));
    harness.commands();
    let txn_id = harness.declare(coordinator);
    let numbers = Value::Array(vec![Value::Long(70)]);
    harness.request_work(management, &txn_id, "cancel-scheduled-message", &[("sequence-numbers", numbers)]);
    harness.agree();
    assert_eq!(harness.response().0, Value::Int(200));
    // A peek bypasses the transaction even if its transfer carries the state, as .NET's does.
    let peek = [("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1))];
    harness.request_work(management, &txn_id, "peek-message", &peek);
    let (tag, Command::Peek { .. }) = harness.command() else { panic!("a peek") };
    harness.answer(tag, Response::Received(Ok(Vec::new())));
    assert_eq!(harness.response().0, Value::Int(204));
    let (_, works) = harness.commit(coordinator, &txn_id);
    assert!(matches!(works[..], [Work::Command(Command::CancelScheduled { .. })]), "{works:?}");
}

#[test]
fn point_5_update_disposition_and_set_session_state_are_work() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let txn_id = harness.declare(coordinator);
    harness.on_a_session_of_its_own();
    harness.session_receiver("a");
    let management = harness.requester("sessions/$management");
    harness.commands();
    let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
    let settle =
        [("lock-tokens", tokens), ("disposition-status", string("completed")), ("session-id", string("a"))];
    harness.request_work(management, &txn_id, "update-disposition", &settle);
    let Command::Settle { settlement: Settlement::Complete, .. } = harness.agree() else {
        panic!("complete")
    };
    assert_eq!(harness.response().0, Value::Int(200));
    let state = [("session-id", string("a")), ("session-state", Value::Binary(Bytes::from_static(b"s")))];
    harness.request_work(management, &txn_id, "set-session-state", &state);
    harness.agree();
    assert_eq!(harness.response().0, Value::Int(200));
    let (_, works) = harness.commit(coordinator, &txn_id);
    assert!(
        matches!(
            works[..],
            [Work::Command(Command::Settle { .. }), Work::Command(Command::SetSessionState { .. })]
        ),
        "{works:?}"
    );
}

/// Point 4: while the session is held, the lock lost to a second complete is the message's, in a transaction or not.
#[test]
fn point_4_another_complete_in_a_session_that_is_held_is_message_lock_lost() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let txn_id = harness.declare(coordinator);
    harness.on_a_session_of_its_own();
    harness.session_receiver("a");
    let management = harness.requester("sessions/$management");
    harness.commands();
    let settle = || {
        let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
        [("lock-tokens", tokens), ("disposition-status", string("completed")), ("session-id", string("a"))]
    };
    let lost = Some(Value::Symbol("com.microsoft:message-lock-lost".into()));
    harness.request_work(management, &txn_id, "update-disposition", &settle());
    harness.object(Refusal::SessionLockLost);
    assert_eq!(harness.response().1, lost);
    let entries = settle().into_iter().map(|(key, value)| (string(key), value)).collect();
    let operation = string("com.microsoft:update-disposition");
    let plain = request(string("request2"), &[("operation", operation)], &Value::Map(entries));
    harness.send(management, true, 0, plain);
    let (tag, _) = harness.command();
    let failure = SettleFailure { index: 0, refusal: Refusal::SessionLockLost };
    harness.answer(tag, Response::Settled(vec![failure]));
    assert_eq!(harness.response().1, lost);
}

#[test]
fn point_5_locks_are_renewed_and_deferred_messages_received_outside() {
    let mut harness = Harness::new();
    let (coordinator, management) = (harness.coordinator(), harness.requester("q/$management"));
    harness.commands();
    let txn_id = harness.declare(coordinator);
    let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
    harness.request_work(management, &txn_id, "renew-lock", &[("lock-tokens", tokens)]);
    let (tag, Command::RenewLocks { .. }) = harness.command() else { panic!("at once") };
    harness.answer(tag, Response::Renewed(Ok(vec![Timestamp(8)])));
    assert_eq!(harness.response().0, Value::Int(200));
    let receive = |mode| {
        let numbers = Value::Array(vec![Value::Long(70)]);
        [("sequence-numbers", numbers), ("receiver-settle-mode", Value::UInt(mode))]
    };
    harness.request_work(management, &txn_id, "receive-by-sequence-number", &receive(1));
    let (tag, command) = harness.command();
    assert!(matches!(command, Command::ReceiveDeferred { mode: ReceiveMode::PeekLock, .. }));
    harness.answer(tag, Response::Received(Ok(Vec::new())));
    harness.response();
    // An operation that can't be undone is refused, and the transaction is unchanged.
    harness.request_work(management, &txn_id, "receive-by-sequence-number", &receive(0));
    let (status, condition, _) = harness.response();
    assert_eq!((status, condition), (Value::Int(400), Some(Value::Symbol("amqp:not-allowed".into()))));
    assert_eq!(harness.commands(), []);
    assert_eq!(
        harness.discharge(coordinator, &txn_id, false),
        Some(crate::wire::performative::DeliveryState::Accepted)
    );
}

#[test]
fn a_refused_request_fails_the_transaction() {
    let mut harness = Harness::new();
    let (coordinator, management) = (harness.coordinator(), harness.requester("q/$management"));
    harness.commands();
    let numbers = || [("sequence-numbers", Value::Array(vec![Value::Long(70)]))];
    let not_found = Value::Symbol("com.microsoft:message-not-found".into());
    let txn_id = harness.declare(coordinator);
    harness.request_work(management, &txn_id, "cancel-scheduled-message", &numbers());
    harness.object(Refusal::ScheduledNotFound(70));
    let (status, condition_told, _) = harness.response();
    assert_eq!((status, condition_told), (Value::Int(404), Some(not_found)));
    assert_eq!(
        condition(&harness.discharge(coordinator, &txn_id, false).unwrap()),
        "amqp:transaction:rollback"
    );
    // A request with invalid arguments never reaches the engine.
    let txn_id = harness.declare(coordinator);
    harness.request_work(management, &txn_id, "cancel-scheduled-message", &[]);
    assert_eq!(harness.response().0, Value::Int(400));
    assert_eq!(
        condition(&harness.discharge(coordinator, &txn_id, false).unwrap()),
        "amqp:transaction:rollback"
    );
    // An unknown transaction.
    harness.request_work(management, &txn_id, "cancel-scheduled-message", &numbers());
    let unknown = Value::Symbol("amqp:transaction:unknown-id".into());
    assert_eq!(harness.response().1, Some(unknown));
}

/// Only requests with large answers wait for room, and none of these is part of a transaction.
#[test]
fn a_request_of_a_transaction_does_not_wait_for_room() {
    let mut harness = Harness::new();
    let (coordinator, management) = (harness.coordinator(), harness.requester("q/$management"));
    harness.commands();
    let txn_id = harness.declare(coordinator);
    let tag = one_waits_for_room(&mut harness, management);
    let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
    let settle = [("lock-tokens", tokens), ("disposition-status", string("completed"))];
    harness.request_work(management, &txn_id, "update-disposition", &settle);
    harness.agree();
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
    assert_eq!(harness.commits().len(), 1);
    harness.answer(tag, Response::Received(Ok(Vec::new())));
    assert!(matches!(harness.command().1, Command::Peek { .. }));
}

#[test]
fn a_discharge_waits_for_a_request_that_has_no_link_for_its_answer() {
    let mut harness = Harness::new();
    let (coordinator, management) = (harness.coordinator(), harness.sender("q/$management"));
    let txn_id = harness.declare(coordinator);
    let tokens = Value::Array(vec![Value::Uuid(3_u128.to_be_bytes())]);
    let settle = [("lock-tokens", tokens), ("disposition-status", string("completed"))];
    harness.request_work(management, &txn_id, "update-disposition", &settle);
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
    harness.advance(5_000);
    let outcome = harness.outcome().expect("the request is refused, and so is the commit");
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
    assert!(harness.commits().is_empty());
}
