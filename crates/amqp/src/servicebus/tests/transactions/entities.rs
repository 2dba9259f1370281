//! Transactions over several entities, and the sessions on which they are possible.

use peeklock_engine::runtime::Response;

use super::super::entities::{OTHER, TOPIC, Work};
use super::super::harness::{Harness, QUEUE, SESSION_FILTER, SESSIONS, message};
use super::acting::{condition, in_transaction};
use crate::servicebus::*;
use crate::wire::performative::DeliveryState;

const NOT_ALLOWED: &str = "amqp:not-allowed";
const SPANS: &str = "Local transactions cannot span multiple top-level entities such as queue or topic";

/// A plain client has a session for each link.
#[test]
fn a_plain_client_can_not_span_entities() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    harness.on_a_session_of_its_own();
    let here = harness.sender("q");
    harness.on_a_session_of_its_own();
    let there = harness.sender("other");
    let txn_id = harness.declare(coordinator);
    harness.sent_work(here, &txn_id, "here");
    harness.send_work(there, &txn_id, "there");
    let outcome = harness.outcome().unwrap();
    assert_eq!(condition(&outcome), NOT_ALLOWED);
    let DeliveryState::Transactional { outcome: Some(outcome), .. } = outcome else {
        panic!("transactional")
    };
    let DeliveryState::Rejected(Some(error)) = *outcome else { panic!("rejected") };
    assert!(error.description.unwrap().starts_with(SPANS));
    let outcome = harness.discharge(coordinator, &txn_id, false).unwrap();
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
}

/// Point 10: no error outside a transaction of a plain client, nor for generic clients with one session for all links.
#[test]
fn point_10_entities_may_be_mixed_on_sessions_without_a_coordinator() {
    let mut harness = Harness::new();
    for address in ["q", "other", "t/subscriptions/s"] {
        harness.receiver(address);
        harness.requester(&format!("{address}/$management"));
    }
    for address in ["q", "other", "t"] {
        harness.sender(address);
    }
    harness.coordinator();
    harness.receiver("q");
    harness.receiver("other");
    assert!(harness.refusal().is_none(), "the coordinator came later than the first entity");
}

/// Point 11: the first entity's link is the root; later senders send by way of it, later receivers are refused.
#[test]
fn point_11_a_session_with_a_coordinator_has_one_entity_to_receive_from() {
    let mut harness = Harness::new();
    harness.requester("$cbs");
    let coordinator = harness.coordinator();
    harness.receiver("q");
    harness.receiver("q/$DeadLetterQueue");
    harness.requester("Q/$management");
    let sender = harness.sender("other");
    harness.send(sender, false, 0, message("plain"));
    assert!(
        matches!(harness.command().1, Command::Send { .. }),
        "outside a transaction it goes straight there"
    );
    for address in ["other", "t/subscriptions/s", "other/$management"] {
        let attach = harness.receiver_attach(address);
        harness.attach(attach);
        let error = harness.refusal().unwrap();
        assert_eq!(&*error.condition, NOT_ALLOWED, "{address}");
        assert!(error.description.unwrap().starts_with(SPANS));
    }
    // The client opens another session, whose first link makes a new root.
    harness.on_a_session_of_its_own();
    harness.coordinator();
    harness.receiver("other");
    let attach = harness.receiver_attach("q");
    harness.attach(attach);
    assert_eq!(&*harness.refusal().unwrap().condition, NOT_ALLOWED);
    harness.declare(coordinator);
}

/// Point 12: roots are a queue, a queue with sessions, a subscription; destinations a queue, one with sessions, a topic.
#[test]
fn point_12_messages_go_from_every_kind_of_root_to_every_kind_of_destination() {
    for (root, via) in [("q", QUEUE), ("sessions", SESSIONS), ("t/subscriptions/s", TOPIC)] {
        let mut harness = Harness::new();
        let coordinator = harness.coordinator();
        let (link, receiver) = match root {
            "sessions" => harness.session_receiver("a"),
            _ => harness.receiver(root),
        };
        let id = harness.received(link, receiver, 3);
        let txn_id = harness.declare(coordinator);
        harness.settled_work(id, &txn_id, DeliveryState::Accepted);
        let all = [("q", QUEUE), ("other", OTHER), ("sessions", SESSIONS), ("t", TOPIC)];
        let destinations: Vec<_> = all.into_iter().filter(|(name, _)| !root.starts_with(*name)).collect();
        for (destination, _) in &destinations {
            let sender = harness.sender(destination);
            harness.send_work(sender, &txn_id, destination);
            let accepted = in_transaction(&txn_id, Some(DeliveryState::Accepted));
            assert_eq!(harness.outcome(), Some(accepted), "nothing to ask: it is decided at the commit");
        }
        let (_, works) = harness.commit(coordinator, &txn_id);
        assert!(matches!(works[0], Work::Command(Command::Settle { .. })));
        for (work, (_, destination)) in works[1..].iter().zip(destinations) {
            let Work::Transfer { via: by, target, messages } = work else { panic!("{work:?}") };
            assert_eq!((*by, *target, messages.len()), (via, destination, 1));
        }
    }
}

#[test]
fn point_12_who_sends_first_makes_the_root() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (root, other) = (harness.sender("other"), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(other, &txn_id, "by way of the root");
    harness.outcome();
    harness.sent_work(root, &txn_id, "to the root");
    let (tag, works) = harness.commit(coordinator, &txn_id);
    harness.committed(tag, Ok(()));
    assert!(
        matches!(&works[..], [Work::Transfer { via: OTHER, .. }, Work::Command(Command::Send { .. })]),
        "{works:?}"
    );
    let attach = harness.receiver_attach("q");
    harness.attach(attach);
    assert_eq!(&*harness.refusal().unwrap().condition, NOT_ALLOWED, "after a send to another entity too");
}

#[test]
fn point_11_the_next_session_of_another_entity_is_refused_as_well() {
    let mut harness = Harness::new();
    harness.coordinator();
    harness.sender("q");
    let mut attach = harness.receiver_attach("sessions");
    attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), crate::wire::Value::Null)];
    harness.attach(attach);
    assert_eq!(&*harness.refusal().unwrap().condition, NOT_ALLOWED);
    assert!(harness.commands().iter().all(|(_, command)| !matches!(command, Command::OpenReceiver { .. })));
}

/// Points 13 and 14: a handler completes what it received and sends two messages, then commits or rolls back.
#[test]
fn points_13_and_14_a_handler_completes_and_sends_to_two_entities() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let senders = [harness.sender("other"), harness.sender("t")];
    for (number, fail) in [(3, true), (4, false)] {
        let id = harness.received(link, receiver, number);
        let txn_id = harness.declare(coordinator);
        for sender in senders {
            harness.send_work(sender, &txn_id, "copy");
            assert_eq!(harness.outcome(), Some(in_transaction(&txn_id, Some(DeliveryState::Accepted))));
        }
        harness.settled_work(id, &txn_id, DeliveryState::Accepted);
        if fail {
            assert_eq!(harness.discharge(coordinator, &txn_id, true), Some(DeliveryState::Accepted));
            assert!(harness.commits().is_empty(), "nothing in the others");
            // The message can be abandoned and comes again.
            harness.stand(id, DeliveryState::Released);
            let (tag, _) = harness.command();
            harness.answer(tag, Response::Settled(Vec::new()));
            assert_eq!(harness.settled(), [DeliveryState::Released]);
            continue;
        }
        let (tag, works) = harness.commit(coordinator, &txn_id);
        assert_eq!(works.len(), 3);
        harness.committed(tag, Ok(()));
        let settled = in_transaction(&txn_id, Some(DeliveryState::Accepted));
        assert_eq!(harness.settled(), [settled, DeliveryState::Accepted]);
    }
}
