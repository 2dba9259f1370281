//! Deliveries that the peer mentions again while their settlement is part of a transaction: in one write with what comes
//! before, so that the engine has not answered yet, or later.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{LockToken, Refusal, SettleFailure, Settlement};
use smallvec::SmallVec;

use super::super::entities::Work;
use super::super::harness::{Harness, QUEUE};
use super::acting::{condition, in_transaction};
use crate::endpoint::{IncomingId, LinkId};
use crate::servicebus::*;
use crate::wire::performative::DeliveryState;

/// A client that received messages under the locks 3, 4 and 5.
struct Received {
    harness: Harness,
    coordinator: LinkId,
    ids: [IncomingId; 3],
}

impl Received {
    fn new() -> Self {
        let mut harness = Harness::new();
        let coordinator = harness.coordinator();
        let (link, receiver) = harness.receiver("q");
        let ids = [3, 4, 5].map(|number| harness.received(link, receiver, number));
        Self { harness, coordinator, ids }
    }
}

impl Harness {
    /// Sends outcomes in a transaction as one disposition; returns the tag of the provisional command.
    fn asked_about(&mut self, ids: &[IncomingId], txn_id: &Bytes) -> Option<u64> {
        for id in ids {
            self.client.update_incoming(*id, accepted_in(txn_id));
        }
        let (tag, command) = self.asked();
        assert!(matches!(command, Command::Settle { tokens, .. } if tokens.len() == ids.len()));
        tag
    }

    fn agree_to(&mut self, tag: Option<u64>) {
        self.answer(tag, Response::Provisional(Ok(SmallVec::new())));
    }

    /// The only commit; its only operation completes these locks.
    fn commit_of(&mut self, tokens: &[u128]) -> u64 {
        let mut commits = self.commits();
        assert_eq!(commits.len(), 1, "{commits:?}");
        let (tag, works) = commits.remove(0);
        assert_eq!(works, [Work::Command(settle(tokens, Settlement::Complete))]);
        tag
    }
}

fn accepted_in(txn_id: &Bytes) -> DeliveryState {
    in_transaction(txn_id, Some(DeliveryState::Accepted))
}

fn settle(tokens: &[u128], settlement: Settlement) -> Command {
    let tokens = tokens.iter().copied().map(LockToken).collect();
    Command::Settle { queue: QUEUE, tokens, settlement }
}

fn given_back(tokens: &[u128]) -> (Option<u64>, Command) {
    (None, settle(tokens, Settlement::Abandon { modify: Vec::new() }))
}

/// Nobody waits for a rollback (.NET).
#[test]
fn a_delivery_joins_another_transaction_while_the_first_is_being_rolled_back() {
    let Received { mut harness, coordinator, ids } = Received::new();
    let [first, second] = [harness.declare(coordinator), harness.declare(coordinator)];
    let tag = harness.asked_about(&ids[..1], &first);
    assert_eq!(harness.discharge(coordinator, &first, true), None, "not before its operation is answered");
    let later_tag = harness.asked_about(&ids[..1], &second);
    assert_eq!(harness.discharge(coordinator, &second, false), None);
    harness.agree_to(tag);
    assert_eq!(harness.settled(), [DeliveryState::Accepted], "the rollback");
    harness.agree_to(later_tag);
    let commit = harness.commit_of(&[3]);
    harness.committed(commit, Ok(()));
    assert_eq!(harness.settled(), [accepted_in(&second), DeliveryState::Accepted]);
}

#[test]
fn a_delivery_is_settled_while_its_transaction_is_being_rolled_back() {
    let Received { mut harness, coordinator, ids } = Received::new();
    let txn_id = harness.declare(coordinator);
    let tag = harness.asked_about(&ids[..1], &txn_id);
    assert_eq!(harness.discharge(coordinator, &txn_id, true), None);
    harness.stand(ids[0], DeliveryState::Accepted);
    let (later_tag, command) = harness.command();
    assert_eq!(command, settle(&[3], Settlement::Complete));
    harness.agree_to(tag);
    harness.answer(later_tag, Response::Settled(Vec::new()));
    assert_eq!(harness.settled().len(), 2, "the rollback and the delivery");
    assert_eq!(harness.broker.unsettled, 2);
}

/// A client may wait for each answer.
#[test]
fn a_repeated_outcome_is_answered_again() {
    let Received { mut harness, coordinator, ids } = Received::new();
    let txn_id = harness.declare(coordinator);
    let tag = harness.asked_about(&ids[..1], &txn_id);
    harness.agree_to(tag);
    assert_eq!(harness.updated(ids[0]), accepted_in(&txn_id));
    harness.stand(ids[0], accepted_in(&txn_id));
    assert_eq!(harness.updated(ids[0]), accepted_in(&txn_id));
    assert_eq!(harness.commands(), []);
}

#[test]
fn a_repeated_outcome_changes_nothing() {
    for answered_before in [true, false] {
        let Received { mut harness, coordinator, ids } = Received::new();
        let txn_id = harness.declare(coordinator);
        let tag = harness.asked_about(&ids[..2], &txn_id);
        if answered_before {
            harness.agree_to(tag);
        }
        // Of the range, only the last delivery is new.
        let later_tag = {
            ids.iter().for_each(|id| harness.client.update_incoming(*id, accepted_in(&txn_id)));
            let (tag, command) = harness.asked();
            assert_eq!(command, settle(&[5], Settlement::Complete));
            tag
        };
        if !answered_before {
            harness.agree_to(tag);
        }
        harness.agree_to(later_tag);
        harness.events();
        let (commit, works) = harness.commit(coordinator, &txn_id);
        assert_eq!(works.len(), 2);
        harness.committed(commit, Ok(()));
        assert_eq!(harness.settled().len(), 4);
        assert_eq!(harness.broker.unsettled, 0);
    }
}

/// JMS and generic clients: the outcome stays part of the transaction.
#[test]
fn a_delivery_that_the_peer_settles_later_is_completed_by_the_commit() {
    for outcome in [Some(DeliveryState::Accepted), None] {
        for answered_before in [true, false] {
            let Received { mut harness, coordinator, ids } = Received::new();
            let txn_id = harness.declare(coordinator);
            let tag = harness.asked_about(&ids, &txn_id);
            if answered_before {
                harness.agree_to(tag);
            }
            harness.client.settle_incoming(ids[1], in_transaction(&txn_id, outcome.clone()));
            assert_eq!(harness.commands(), [], "it stays locked");
            if !answered_before {
                harness.agree_to(tag);
            }
            harness.events();
            harness.discharge(coordinator, &txn_id, false);
            let commit = harness.commit_of(&[3, 4, 5]);
            harness.committed(commit, Ok(()));
            assert_eq!(harness.settled().len(), 3, "two deliveries and the discharge");
            assert_eq!((harness.commands(), harness.broker.unsettled), (Vec::new(), 0));
        }
    }
}

#[test]
fn a_delivery_that_the_peer_settles_later_is_given_back_by_a_roll_back() {
    let Received { mut harness, coordinator, ids } = Received::new();
    let txn_id = harness.declare(coordinator);
    let tag = harness.asked_about(&ids, &txn_id);
    harness.agree_to(tag);
    harness.client.settle_incoming(ids[1], accepted_in(&txn_id));
    assert_eq!(harness.commands(), []);
    harness.events();
    assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
    assert_eq!(harness.command(), given_back(&[4]));
    assert_eq!(harness.broker.unsettled, 2, "the others are as before");
}

#[test]
fn a_delivery_that_the_peer_settles_during_the_commit_shares_its_fate() {
    for result in [Ok(()), Err(Refusal::EntityDisabled)] {
        let Received { mut harness, coordinator, ids } = Received::new();
        let txn_id = harness.declare(coordinator);
        let tag = harness.asked_about(&ids[..2], &txn_id);
        harness.agree_to(tag);
        harness.events();
        let (commit, _) = harness.commit(coordinator, &txn_id);
        harness.client.settle_incoming(ids[0], accepted_in(&txn_id));
        // Its outcome can't change any more.
        harness.client.settle_incoming(ids[1], in_transaction(&txn_id, Some(DeliveryState::Released)));
        assert_eq!(harness.commands(), []);
        let expected = if result.is_ok() { Vec::new() } else { vec![given_back(&[3]), given_back(&[4])] };
        harness.committed(commit, result);
        assert_eq!(harness.settled().len(), 1, "the discharge");
        assert_eq!((harness.commands(), harness.broker.unsettled), (expected, 1));
    }
}

#[test]
fn two_different_outcomes_in_a_transaction_fail_it() {
    for settled in [false, true] {
        let Received { mut harness, coordinator, ids } = Received::new();
        let txn_id = harness.declare(coordinator);
        let tag = harness.asked_about(&ids[..1], &txn_id);
        harness.agree_to(tag);
        harness.events();
        let other = in_transaction(&txn_id, Some(DeliveryState::Released));
        if settled {
            harness.client.settle_incoming(ids[0], other);
            assert_eq!(harness.command(), given_back(&[3]));
        } else {
            harness.stand(ids[0], other);
            assert_eq!(condition(&harness.updated(ids[0])), "amqp:transaction:rollback");
        }
        let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
        assert_eq!(condition(&outcome), "amqp:transaction:rollback");
        assert!(harness.commits().is_empty());
    }
}

/// Only the delivery whose lock is lost is settled; the others can be settled again.
#[test]
fn a_lost_lock_in_a_range_leaves_the_other_deliveries() {
    let Received { mut harness, coordinator, ids } = Received::new();
    let txn_id = harness.declare(coordinator);
    let tag = harness.asked_about(&ids, &txn_id);
    let failure = SettleFailure { index: 1, refusal: Refusal::MessageLockLost };
    harness.answer(tag, Response::Settled(vec![failure]));
    let answers: Vec<_> = harness
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Settled { id, state: Some(state) } => (id, true, condition(&state)),
            Event::Updated { id, state } => (id, false, condition(&state)),
            other => panic!("{other:?}"),
        })
        .collect();
    let rolled_back = |id| (id, false, "amqp:transaction:rollback".to_owned());
    let lost = (ids[1], true, "com.microsoft:message-lock-lost".to_owned());
    assert_eq!(answers, [rolled_back(ids[0]), lost, rolled_back(ids[2])]);
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
    assert_eq!(harness.broker.unsettled, 2);
    for (id, token) in [(ids[0], 3), (ids[2], 5)] {
        harness.stand(id, DeliveryState::Accepted);
        let (tag, command) = harness.command();
        assert_eq!(command, settle(&[token], Settlement::Complete));
        harness.answer(tag, Response::Settled(Vec::new()));
        assert_eq!(harness.settled(), [DeliveryState::Accepted]);
    }
}

#[test]
fn the_end_of_the_connection_gives_back_deliveries_whose_check_is_unanswered() {
    let Received { mut harness, coordinator, ids } = Received::new();
    let txn_id = harness.declare(coordinator);
    harness.client.settle_incoming(ids[0], accepted_in(&txn_id));
    harness.asked();
    harness.server.handle_end_of_input();
    assert!(harness.commands().contains(&given_back(&[3])));
}
