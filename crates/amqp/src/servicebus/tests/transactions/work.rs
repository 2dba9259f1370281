//! Sends and settlements in a transaction.

use peeklock_engine::runtime::Response;
use peeklock_engine::{LockToken, Property, Refusal, Settlement};

use super::super::entities::{SUBSCRIPTION, Work};
use super::super::harness::{Harness, QUEUE, SESSIONS, message};
use super::acting::{condition, in_transaction};
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::{DeliveryState, Error};

/// Point 3: `CanUseSameSenderInAndOutsideOfTransaction` and its like.
#[test]
fn point_3_one_link_carries_transacted_and_plain_messages_in_turn() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "first");
    harness.send(sender, false, 0, message("plain"));
    let (_, Command::Send { messages }) = harness.command() else { panic!("sent at once") };
    assert_eq!(messages[0].content, message("plain"));
    harness.sent_work(sender, &txn_id, "second");
    assert!(harness.commits().is_empty(), "invisible until the commit");

    let (tag, works) = harness.commit(coordinator, &txn_id);
    let contents: Vec<_> = works
        .iter()
        .map(|work| match work {
            Work::Command(Command::Send { messages }) => messages[0].content.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(contents, [message("first"), message("second")]);
    harness.committed(tag, Ok(()));
    assert_eq!(harness.outcome(), Some(DeliveryState::Accepted));
}

#[test]
fn point_3_a_roll_back_carries_out_nothing() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "never");
    assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
    assert!(harness.commits().is_empty() && harness.commands().is_empty());
    assert_eq!(harness.broker.unanswered().kept_bytes, 0);
}

/// Point 4: a settlement is answered unsettled; after the rollback the same delivery is settled.
#[test]
fn point_4_after_a_roll_back_the_delivery_is_as_before() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    for outcome in [DeliveryState::Accepted, DeliveryState::Released] {
        let txn_id = harness.declare(coordinator);
        let state = harness.settled_work(id, &txn_id, outcome.clone());
        assert_eq!(state, in_transaction(&txn_id, Some(outcome)));
        assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
        assert!(harness.commits().is_empty());
    }
    harness.stand(id, DeliveryState::Accepted);
    let (tag, command) = harness.command();
    let tokens = [LockToken(3)].into_iter().collect();
    assert_eq!(command, Command::Settle { queue: QUEUE, tokens, settlement: Settlement::Complete });
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(harness.settled(), [DeliveryState::Accepted]);
}

#[test]
fn point_4_a_commit_settles_its_deliveries_before_the_discharge_is_answered() {
    let mut harness = Harness::new();
    harness.on_a_session_of_its_own();
    let (link, receiver) = harness.receiver("q");
    let ids = [3, 4].map(|number| harness.received(link, receiver, number));
    // The coordinator's session comes first in writing order.
    harness.session -= 1;
    let coordinator = harness.coordinator();
    let txn_id = harness.declare(coordinator);
    for id in ids {
        harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    }
    let (tag, works) = harness.commit(coordinator, &txn_id);
    let settle = |number: u128| {
        let tokens = [LockToken(number)].into_iter().collect();
        Work::Command(Command::Settle { queue: QUEUE, tokens, settlement: Settlement::Complete })
    };
    assert_eq!(works, [settle(3), settle(4)]);
    assert!(harness.settled().is_empty(), "not before it is durable");
    harness.committed(tag, Ok(()));
    let settled = in_transaction(&txn_id, Some(DeliveryState::Accepted));
    assert_eq!(harness.settled(), [settled.clone(), settled, DeliveryState::Accepted]);
    assert_eq!(harness.broker.unsettled, 0);
}

#[test]
fn a_commit_that_fails_rejects_the_discharge_and_leaves_the_deliveries() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    for (refusal, expected) in [
        (Refusal::MessageLockLost, "com.microsoft:message-lock-lost"),
        (Refusal::EntityFull { limit_bytes: 1 }, "amqp:resource-limit-exceeded"),
        (Refusal::EntityDisabled, "com.microsoft:entity-disabled"),
    ] {
        let txn_id = harness.declare(coordinator);
        harness.settled_work(id, &txn_id, DeliveryState::Accepted);
        let (tag, _) = harness.commit(coordinator, &txn_id);
        harness.committed(tag, Err(refusal));
        let settled = harness.settled();
        assert_eq!(settled.len(), 1, "of the delivery nothing is said: {settled:?}");
        assert_eq!(condition(&settled[0]), expected);
    }
    harness.stand(id, DeliveryState::Accepted);
    assert_eq!(harness.commands().len(), 1);
}

#[test]
fn several_deliveries_of_one_disposition_are_one_command() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let ids = [3, 4, 5].map(|number| harness.received(link, receiver, number));
    let txn_id = harness.declare(coordinator);
    for id in ids {
        harness.client.update_incoming(id, in_transaction(&txn_id, Some(DeliveryState::Accepted)));
    }
    harness.pump();
    let Command::Settle { tokens, .. } = harness.agree() else { panic!("a settlement") };
    assert_eq!(tokens[..], [3, 4, 5].map(LockToken));
    let (tag, _) = harness.commit(coordinator, &txn_id);
    harness.events();
    harness.committed(tag, Ok(()));
    assert_eq!(harness.settled().len(), 4);
}

#[test]
fn every_outcome_is_a_settlement() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let txn_id = harness.declare(coordinator);
    let modified = |undeliverable_here| DeliveryState::Modified {
        delivery_failed: false,
        undeliverable_here,
        message_annotations: Vec::new(),
    };
    let none: Vec<Property> = Vec::new();
    for (number, outcome, expected) in [
        (3, modified(false), Settlement::Abandon { modify: none.clone() }),
        (4, modified(true), Settlement::Defer { modify: none }),
        (5, DeliveryState::Released, Settlement::Release),
    ] {
        let id = harness.received(link, receiver, number);
        harness.stand(id, in_transaction(&txn_id, Some(outcome.clone())));
        let Command::Settle { settlement, .. } = harness.agree() else { panic!("a settlement") };
        assert_eq!(settlement, expected);
        assert_eq!(harness.updated(id), in_transaction(&txn_id, Some(outcome)));
    }
}

/// Point 16: .NET treats a `rejected` with an error as a refusal and rolls back.
#[test]
fn point_16_the_answer_to_a_dead_letter_does_not_echo_its_error() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    let error = Error {
        condition: "com.microsoft:dead-letter".into(),
        description: None,
        info: vec![("DeadLetterReason".into(), Value::String("r".into()))],
    };
    harness.stand(id, in_transaction(&txn_id, Some(DeliveryState::Rejected(Some(error)))));
    let Command::Settle { settlement: Settlement::DeadLetter { why, .. }, .. } = harness.agree() else {
        panic!("a dead letter")
    };
    assert_eq!(why.reason.as_deref(), Some("r"));
    let plain = in_transaction(&txn_id, Some(DeliveryState::Rejected(None)));
    assert_eq!(harness.updated(id), plain);
    let (tag, _) = harness.commit(coordinator, &txn_id);
    harness.committed(tag, Ok(()));
    assert_eq!(harness.settled()[0], plain);
}

/// Point 6: a topic and its subscription are one entity.
#[test]
fn point_6_sending_to_a_topic_and_completing_on_its_subscription_is_one_transaction() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    harness.on_a_session_of_its_own();
    let sender = harness.sender("T");
    harness.on_a_session_of_its_own();
    let (link, receiver) = harness.receiver("t/Subscriptions/s");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "published");
    harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    let (_, works) = harness.commit(coordinator, &txn_id);
    assert!(
        matches!(
            &works[..],
            [Work::Command(Command::Send { .. }), Work::Command(Command::Settle { queue: SUBSCRIPTION, .. })]
        ),
        "{works:?}"
    );
}

/// Point 7: one transaction may touch several sessions of a queue.
#[test]
fn point_7_a_transaction_touches_several_sessions() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let txn_id = harness.declare(coordinator);
    for (number, session) in [(3, "a"), (4, "b")] {
        harness.on_a_session_of_its_own();
        let (link, receiver) = harness.session_receiver(session);
        let id = harness.received(link, receiver, number);
        harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    }
    let (tag, works) = harness.commit(coordinator, &txn_id);
    assert!(works.iter().all(|work| matches!(work, Work::Command(Command::Settle { queue: SESSIONS, .. }))));
    harness.committed(tag, Ok(()));
    assert_eq!(harness.settled().len(), 3);
}

/// Point 8: after a refused operation the locks remain, and both messages can be completed.
#[test]
fn point_8_a_refused_delivery_keeps_its_tag_and_the_transaction_can_only_be_rolled_back() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let ids = [3, 4].map(|number| harness.received(link, receiver, number));
    let txn_id = harness.declare(coordinator);
    harness.settled_work(ids[0], &txn_id, DeliveryState::Accepted);
    harness.stand(ids[1], in_transaction(&txn_id, Some(DeliveryState::Accepted)));
    harness.object(Refusal::NotAllowed("another partition key"));
    assert_eq!(condition(&harness.updated(ids[1])), "amqp:not-allowed");

    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback", "never a part of it");
    assert!(harness.commits().is_empty());
    for id in ids {
        harness.stand(id, DeliveryState::Accepted);
        let (tag, _) = harness.command();
        harness.answer(tag, Response::Settled(Vec::new()));
        assert_eq!(harness.settled(), [DeliveryState::Accepted]);
    }
}

#[test]
fn a_lost_lock_is_answered_settled() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.stand(id, in_transaction(&txn_id, Some(DeliveryState::Accepted)));
    harness.object(Refusal::MessageLockLost);
    let settled = harness.settled();
    assert_eq!(settled.len(), 1);
    assert_eq!(condition(&settled[0]), "com.microsoft:message-lock-lost");
    assert_eq!(harness.broker.unsettled, 0);
}

#[test]
fn a_refused_send_fails_the_transaction_and_later_work_gets_the_reason() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "fits");
    harness.send_work(sender, &txn_id, "does not");
    harness.object(Refusal::EntityFull { limit_bytes: 1 });
    let outcome = harness.outcome().unwrap();
    assert!(matches!(outcome, DeliveryState::Transactional { .. }));
    assert_eq!(condition(&outcome), "amqp:resource-limit-exceeded");
    assert_eq!(harness.broker.unanswered().kept_bytes, 0, "nothing is kept for it");
    harness.send_work(sender, &txn_id, "too late");
    assert_eq!(condition(&harness.outcome().unwrap()), "amqp:transaction:rollback");
    assert_eq!(harness.commands(), []);
    assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
}

#[test]
fn a_malformed_message_fails_the_transaction() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work_of(sender, &txn_id, bytes::Bytes::from_static(b"no message"));
    assert_eq!(condition(&harness.outcome().unwrap()), "amqp:decode-error");
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
}

/// A discharge that arrives before the answer to an operation waits for it.
#[test]
fn a_discharge_waits_for_the_work_before_it() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "slow");
    let (tag, _) = harness.asked();
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
    assert!(harness.commits().is_empty(), "its work is not complete");
    harness.send_work(sender, &txn_id, "after the discharge");
    assert_eq!(condition(&harness.outcome().unwrap()), "amqp:transaction:unknown-id");
    harness.answer(tag, Response::Provisional(Ok(smallvec::SmallVec::new())));
    let commits = harness.commits();
    assert_eq!(commits.len(), 1);
    assert_eq!(commits[0].1.len(), 1);
}

/// Another settlement of the same lock comes first; the engine makes the commit fail.
#[test]
fn a_delivery_settled_outside_meanwhile_is_not_settled_twice() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    harness.stand(id, DeliveryState::Accepted);
    let (tag, _) = harness.command();
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(harness.settled(), [DeliveryState::Accepted]);
    let (tag, _) = harness.commit(coordinator, &txn_id);
    harness.committed(tag, Err(Refusal::MessageLockLost));
    assert_eq!(harness.settled().len(), 1);
}
