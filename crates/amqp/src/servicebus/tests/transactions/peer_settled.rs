//! Deliveries that the peer has settled in a transaction, as JMS does: it can't settle them after a rollback.

use peeklock_engine::{LockToken, Refusal, Settlement};

use super::super::harness::{Harness, QUEUE};
use super::acting::{condition, in_transaction};
use crate::endpoint::LinkId;
use crate::servicebus::*;
use crate::wire::performative::DeliveryState;

/// A transaction in which the client accepted and settled a delivery.
fn settled_by_the_peer() -> (Harness, LinkId, bytes::Bytes) {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.client.settle_incoming(id, in_transaction(&txn_id, Some(DeliveryState::Accepted)));
    harness.agree();
    assert!(harness.events().is_empty(), "no answer");
    (harness, coordinator, txn_id)
}

fn given_back() -> Command {
    let tokens = [LockToken(3)].into_iter().collect();
    Command::Settle { queue: QUEUE, tokens, settlement: Settlement::Abandon { modify: Vec::new() } }
}

#[test]
fn a_commit_completes_them() {
    let (mut harness, coordinator, txn_id) = settled_by_the_peer();
    let (tag, works) = harness.commit(coordinator, &txn_id);
    assert_eq!(works.len(), 1);
    harness.committed(tag, Ok(()));
    assert_eq!(harness.settled(), [DeliveryState::Accepted], "the discharge");
    assert_eq!(harness.commands(), []);
}

#[test]
fn a_roll_back_gives_them_back() {
    let (mut harness, coordinator, txn_id) = settled_by_the_peer();
    assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
    assert_eq!(harness.command(), (None, given_back()));
}

#[test]
fn a_commit_that_fails_gives_them_back() {
    let (mut harness, coordinator, txn_id) = settled_by_the_peer();
    let (tag, _) = harness.commit(coordinator, &txn_id);
    assert_eq!(harness.commands(), []);
    harness.committed(tag, Err(Refusal::EntityDisabled));
    assert_eq!(harness.command(), (None, given_back()));
}

#[test]
fn a_transaction_that_failed_gives_them_back_with_its_end() {
    let (mut harness, coordinator, txn_id) = settled_by_the_peer();
    let sender = harness.sender("q");
    harness.send_work(sender, &txn_id, "refused");
    harness.object(Refusal::StorageFull);
    assert_eq!(condition(&harness.outcome().unwrap()), "amqp:resource-limit-exceeded");
    assert_eq!(harness.commands(), []);
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
    assert_eq!(harness.command(), (None, given_back()));
}

#[test]
fn a_time_out_gives_them_back() {
    let (mut harness, coordinator, txn_id) = settled_by_the_peer();
    harness.advance(120_000);
    assert_eq!(harness.command(), (None, given_back()));
    harness.discharge(coordinator, &txn_id, true);
    assert_eq!(harness.commands(), [], "once");
}

#[test]
fn the_end_of_the_coordinator_link_or_of_the_connection_gives_them_back() {
    let (mut harness, coordinator, _) = settled_by_the_peer();
    harness.client.detach(coordinator, None);
    assert_eq!(harness.command(), (None, given_back()));
    let (mut harness, ..) = settled_by_the_peer();
    harness.server.handle_end_of_input();
    assert!(harness.commands().contains(&(None, given_back())));
}

#[test]
fn settled_without_an_outcome_they_are_released() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.client.settle_incoming(id, in_transaction(&txn_id, None));
    let tokens = [LockToken(3)].into_iter().collect();
    let released = Command::Settle { queue: QUEUE, tokens, settlement: Settlement::Release };
    assert_eq!(harness.command(), (None, released));
}

#[test]
fn work_of_an_unknown_transaction_is_given_back_at_once() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let unknown = bytes::Bytes::from_static(b"unknown");
    harness.client.settle_incoming(id, in_transaction(&unknown, Some(DeliveryState::Accepted)));
    assert_eq!(harness.command(), (None, given_back()));
}
