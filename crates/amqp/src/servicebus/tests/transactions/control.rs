//! The coordinator: declare, discharge, owners of transactions.

use bytes::Bytes;
use peeklock_engine::Tier;

use super::super::authorization::access;
use super::super::harness::{Harness, message};
use super::acting::{condition, coordinator_attach};
use crate::endpoint::LinkId;
use crate::server::Peer;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::{DeliveryState, Role, Target};
use crate::wire::transaction::Control;

/// Declares transactions until one is refused: their number, and the condition.
fn declare_until_refused(harness: &mut Harness, coordinator: LinkId) -> (usize, String) {
    for declared in 0.. {
        match harness.control(coordinator, &Control::Declare { global_id: Value::Null }) {
            Some(DeliveryState::Declared { .. }) => {}
            Some(refused) => return (declared, condition(&refused)),
            None => panic!("no answer"),
        }
    }
    unreachable!()
}

/// Point 1: the scope enlists before any link is attached or token put on that connection.
#[test]
fn point_1_a_coordinator_link_takes_no_token() {
    let mut harness = Harness::with(access(), &Peer::default());
    assert!(harness.broker.is_unauthenticated());
    let attach = coordinator_attach("525876ab247b405da88593e671947f50");
    let link = harness.attach(attach.clone());
    let answer = harness.events().into_iter().find_map(|event| match event {
        Event::Attach { attach, .. } => Some(attach),
        _ => None,
    });
    let answer = answer.expect("accepted");
    assert_eq!(answer.role, Role::Receiver);
    assert_eq!(answer.target, Some(Target::Coordinator(Vec::new())));
    assert_eq!(answer.source, attach.source, "echoed");
    assert!(answer.max_message_size > Some(0), ".NET can't send otherwise");
    assert_eq!(harness.declare(link).len(), 16);
    assert_eq!(harness.commands(), []);
}

/// azure-spring-boot 965.
#[test]
fn the_basic_tier_has_no_coordinator() {
    for (tier, is_refused) in [(Tier::Basic, true), (Tier::Standard, false), (Tier::Premium, false)] {
        let mut harness = Harness::of_tier(tier);
        harness.attach(coordinator_attach("coordinator"));
        let Some(error) = harness.refusal() else {
            assert!(!is_refused, "{tier:?}");
            continue;
        };
        assert_eq!((&*error.condition, is_refused), ("amqp:not-allowed", true));
        let text = "Transaction is unsupported because the namespace peeklock is of 'Basic' tier.";
        assert!(error.description.unwrap().starts_with(text));
    }
}

#[test]
fn point_1_a_connection_has_several_coordinator_links_two_of_them_on_one_session() {
    let mut harness = Harness::new();
    let (first, second) = (harness.coordinator(), harness.coordinator());
    harness.on_a_session_of_its_own();
    let third = harness.coordinator();
    for link in [first, second, third] {
        let txn_id = harness.declare(link);
        assert_eq!(harness.discharge(link, &txn_id, false), Some(DeliveryState::Accepted));
    }
    let txn_id = harness.declare(first);
    assert_eq!(
        harness.discharge(third, &txn_id, true),
        Some(DeliveryState::Accepted),
        "one connection, one scope"
    );
    assert!(harness.commits().is_empty(), "nothing to carry out");
}

#[test]
fn an_unauthenticated_connection_has_few_transactions() {
    let mut harness = Harness::with(access(), &Peer::default());
    let coordinator = harness.coordinator();
    assert_eq!(declare_until_refused(&mut harness, coordinator), (16, "com.microsoft:server-busy".into()));
}

#[test]
fn open_transactions_are_bounded_and_discharged_ones_do_not_count() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    for _ in 0..1_100 {
        let txn_id = harness.declare(coordinator);
        harness.discharge(coordinator, &txn_id, true);
    }
    assert_eq!(declare_until_refused(&mut harness, coordinator), (1_000, "com.microsoft:server-busy".into()));
}

/// Point 9: `TransactionCommitThrowsUsingDifferentClientsToSameEntity`.
#[test]
fn point_9_an_id_of_another_connection_is_unknown_and_its_own_side_commits() {
    let (mut one, mut other) = (Harness::new(), Harness::new());
    let (coordinator, _) = (one.coordinator(), other.coordinator());
    // Ids are random: different seeds make the connections differ as in production.
    other.broker.random = rand::SeedableRng::seed_from_u64(2);
    let sender = one.sender("q");
    let txn_id = one.declare(coordinator);
    one.sent_work(sender, &txn_id, "mine");
    let foreign = other.sender("q");
    other.send_work(foreign, &txn_id, "not mine");
    assert_eq!(condition(&other.outcome().unwrap()), "amqp:transaction:unknown-id");
    assert_eq!(other.commands(), []);
    let (tag, works) = one.commit(coordinator, &txn_id);
    assert_eq!(works.len(), 1);
    one.committed(tag, Ok(()));
    assert_eq!(one.outcome(), Some(DeliveryState::Accepted));
}

#[test]
fn point_9_an_id_that_was_discharged_or_never_declared_is_unknown() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let sender = harness.sender("q");
    let over = harness.declare(coordinator);
    harness.discharge(coordinator, &over, true);
    for txn_id in [over, Bytes::from_static(b"never"), Bytes::new(), Bytes::from(vec![0; 32])] {
        for fail in [false, true] {
            let outcome = harness.discharge(coordinator, &txn_id, fail).unwrap();
            assert_eq!(condition(&outcome), "amqp:transaction:unknown-id");
        }
        harness.send_work(sender, &txn_id, "x");
        assert_eq!(condition(&harness.outcome().unwrap()), "amqp:transaction:unknown-id");
    }
    assert_eq!(harness.commands(), []);
}

#[test]
fn other_messages_to_a_coordinator_are_refused_without_a_detach() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    // A discharge without txn-id, as the .NET client once sent it.
    let without_id = Bytes::from_static(&[0x00, 0x53, 0x77, 0x00, 0x53, 0x32, 0xc0, 3, 2, 0x40, 0x42]);
    for payload in [without_id, message("hello"), Bytes::new()] {
        harness.send(coordinator, false, 0, payload);
        assert_eq!(condition(&harness.outcome().unwrap()), "amqp:decode-error");
    }
    let distributed = Control::Declare { global_id: Value::Binary(Bytes::from_static(b"id")) };
    let outcome = harness.control(coordinator, &distributed).unwrap();
    assert_eq!(condition(&outcome), "amqp:not-implemented");
    harness.declare(coordinator);
}

/// Point 15: a connection that breaks rolls back.
#[test]
fn point_15_the_end_of_the_coordinator_link_rolls_back() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let (coordinator, other) = (harness.coordinator(), harness.coordinator());
    let (lost, kept) = (harness.declare(coordinator), harness.declare(other));
    harness.sent_work(sender, &lost, "lost");
    harness.sent_work(sender, &kept, "kept");
    harness.client.detach(coordinator, None);
    harness.pump();
    assert!(harness.commits().is_empty());
    harness.send_work(sender, &lost, "late");
    assert_eq!(condition(&harness.outcome().unwrap()), "amqp:transaction:unknown-id");
    let (_, works) = harness.commit(other, &kept);
    assert_eq!(works.len(), 1);
}

#[test]
fn point_15_the_end_of_the_connection_rolls_back() {
    let mut harness = Harness::new();
    let (sender, coordinator) = (harness.sender("q"), harness.coordinator());
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "lost");
    assert!(harness.broker.unanswered().kept_bytes > 0);
    harness.server.handle_end_of_input();
    harness.pump();
    assert!(harness.commits().is_empty());
    assert_eq!(harness.broker.unanswered().kept_bytes, 0);
}
