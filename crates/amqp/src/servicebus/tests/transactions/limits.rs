//! Time and size of a transaction.

use peeklock_engine::runtime::Response;

use super::super::harness::{Harness, message, plain_attach};
use super::acting::{condition, in_transaction};
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::{Attach, DeliveryState, Role};

/// More than the largest message of the queues of the harness, in bytes.
const MESSAGE_BYTES_MAX: usize = 2 << 20;
const TIMEOUT: &str = "amqp:transaction:timeout";

#[test]
fn a_transaction_ends_two_minutes_after_its_first_operation() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.advance(500_000);
    harness.sent_work(sender, &txn_id, "first");
    harness.advance(100_000);
    harness.sent_work(sender, &txn_id, "second");
    assert!(harness.broker.unanswered().kept_bytes > 0);
    harness.advance(19_999);
    assert!(harness.broker.unanswered().kept_bytes > 0, "not yet");
    harness.advance(1);
    assert_eq!(harness.broker.unanswered().kept_bytes, 0);
    assert_eq!(harness.broker.poll_deadline(), None);
    harness.send_work(sender, &txn_id, "too late");
    assert_eq!(condition(&harness.outcome().unwrap()), TIMEOUT);
    assert_eq!(condition(&harness.discharge(coordinator, &txn_id, false).unwrap()), TIMEOUT);
    assert!(harness.commits().is_empty());
}

#[test]
fn a_transaction_that_timed_out_can_be_rolled_back() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "first");
    harness.advance(120_000);
    assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
}

#[test]
fn work_that_is_answered_after_the_time_out_is_refused() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "slow");
    let (tag, _) = harness.asked();
    harness.advance(120_000);
    harness.answer(tag, Response::Provisional(Ok(smallvec::SmallVec::new())));
    assert_eq!(condition(&harness.outcome().unwrap()), TIMEOUT);
}

/// A commit in progress was requested in time.
#[test]
fn a_commit_under_way_does_not_time_out() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "work");
    let (tag, _) = harness.commit(coordinator, &txn_id);
    harness.advance(500_000);
    harness.committed(tag, Ok(()));
    assert_eq!(harness.outcome(), Some(DeliveryState::Accepted));
}

#[test]
fn a_transaction_sends_at_most_100_messages_and_settles_beside() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let sender = harness.sender("q");
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    for _ in 0..100 {
        harness.sent_work(sender, &txn_id, "fits");
    }
    harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    let (_, works) = harness.commit(coordinator, &txn_id);
    assert_eq!(works.len(), 101);

    let txn_id = harness.declare(coordinator);
    for _ in 0..100 {
        harness.sent_work(sender, &txn_id, "fits");
    }
    harness.send_work(sender, &txn_id, "one too many");
    let outcome = harness.outcome().unwrap();
    assert_eq!(condition(&outcome), "amqp:resource-limit-exceeded");
    let DeliveryState::Transactional { outcome: Some(outcome), .. } = outcome else {
        panic!("transactional")
    };
    let DeliveryState::Rejected(Some(error)) = *outcome else { panic!("rejected") };
    let text = error.description.unwrap();
    assert!(text.starts_with("Cannot send more than 100 messages in a single transaction."), "{text}");
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback", "never a part of it");
}

#[test]
fn a_transaction_settles_a_bounded_number_of_messages_and_their_changes_count_as_memory() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let management = harness.requester("q/$management");
    let ids = [3, 4].map(|number| harness.received(link, receiver, number));
    let txn_id = harness.declare(coordinator);
    let changed = DeliveryState::Modified {
        delivery_failed: false,
        undeliverable_here: false,
        message_annotations: vec![("key".into(), "x".repeat(100_000).as_str().into())],
    };
    harness.settled_work(ids[0], &txn_id, changed);
    assert!(harness.broker.unanswered().kept_bytes > 100_000);
    for _ in 0..9 {
        let tokens = (5..5 + 1_111_u128).map(|token| Value::Uuid(token.to_be_bytes())).collect();
        let status = ("disposition-status", Value::String("completed".into()));
        let entries = [("lock-tokens", Value::Array(tokens)), status];
        harness.request_work(management, &txn_id, "update-disposition", &entries);
        harness.agree();
    }
    harness.events();
    harness.stand(ids[1], in_transaction(&txn_id, Some(DeliveryState::Accepted)));
    assert_eq!(condition(&harness.updated(ids[1])), "com.microsoft:argument-error");
    assert_eq!(harness.broker.unanswered().kept_bytes, 0);
}

#[test]
fn open_transactions_count_as_memory_and_are_aborted_when_it_is_short() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    let text = "x".repeat(5_000);
    harness.sent_work(sender, &txn_id, &text);
    harness.sent_work(sender, &txn_id, &text);
    let unanswered = harness.broker.unanswered();
    assert!(unanswered.kept_bytes > 10_000, "{unanswered:?}");
    assert_eq!((unanswered.bytes, unanswered.messages), (0, 0), "the peer is read from");
    harness.broker.give_up_kept();
    assert_eq!(harness.broker.unanswered().kept_bytes, 0);
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
    // While a commit is in progress, it waits for the engine.
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, &text);
    let (tag, _) = harness.commit(coordinator, &txn_id);
    let unanswered = harness.broker.unanswered();
    assert!(unanswered.kept_bytes == 0 && unanswered.bytes > 5_000, "{unanswered:?}");
    harness.committed(tag, Ok(()));
    assert_eq!(harness.broker.unanswered().bytes, 0);
    assert_eq!(harness.outcome(), Some(DeliveryState::Accepted));
}

/// Java treats every answer to a message in a transaction as success.
#[test]
fn a_message_that_is_refused_before_it_is_complete_fails_its_transaction() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "fits");
    harness.send_work(sender, &txn_id, &"x".repeat(MESSAGE_BYTES_MAX));
    let DeliveryState::Transactional { outcome, .. } = harness.outcome().unwrap() else {
        panic!("transactional")
    };
    assert_eq!(condition(&outcome.unwrap()), "amqp:link:message-size-exceeded");
    assert_eq!(harness.broker.unanswered().kept_bytes, 0);
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
    assert!(harness.commits().is_empty());
}

/// It is no part of the transaction, because it was not complete before.
#[test]
fn a_message_that_is_refused_after_the_discharge_does_not_fail_the_transaction() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "fits");
    let (tag, _) = harness.asked();
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
    harness.send_work(sender, &txn_id, &"x".repeat(MESSAGE_BYTES_MAX));
    harness.answer(tag, Response::Provisional(Ok(smallvec::SmallVec::new())));
    assert_eq!(harness.commits().len(), 1);
}

#[test]
fn a_message_without_a_valid_destination_fails_its_transaction() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let relay = harness.attach(Attach { target: None, ..plain_attach("relay", Role::Sender, "relay", "") });
    let txn_id = harness.declare(coordinator);
    harness.send_work_of(relay, &txn_id, message("to nobody"));
    let DeliveryState::Transactional { outcome, .. } = harness.outcome().unwrap() else {
        panic!("transactional")
    };
    assert_eq!(condition(&outcome.unwrap()), "com.microsoft:argument-error");
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
}
