//! Send via: `com.microsoft:transfer-destination-address` on the attach of a sender or of a management link.

use peeklock_engine::{Command, Refusal, SequenceNumber};

use super::super::authorization::{access, put_token};
use super::super::entities::{OTHER, Work};
use super::super::harness::{Harness, QUEUE, message};
use super::acting::{condition, in_transaction};
use crate::endpoint::{Event, LinkId};
use crate::server::Peer;
use crate::wire::Value;
use crate::wire::performative::{Attach, DeliveryState, Error};

const DESTINATION: &str = "com.microsoft:transfer-destination-address";

fn via(mut attach: Attach, destination: &str) -> Attach {
    attach.properties = vec![(DESTINATION.into(), Value::String(destination.into()))];
    attach
}

/// The broker's attach for a sender to `destination` by way of `by`, or why there is none.
fn attach_via(harness: &mut Harness, by: &str, destination: &str) -> Result<(LinkId, Attach), Error> {
    let attach = harness.sender_attach(by);
    let link = harness.attach(via(attach, destination));
    let events = harness.events();
    let refusal = events.iter().find_map(|event| match event {
        Event::Detached { error, .. } => error.clone(),
        _ => None,
    });
    let answer = events.into_iter().find_map(|event| match event {
        Event::Attach { attach, .. } => Some(*attach),
        _ => None,
    });
    harness.commands();
    refusal.map_or_else(|| Ok((link, answer.expect("an answer"))), Err)
}

#[test]
fn without_a_transaction_the_message_is_sent_to_the_destination() {
    let mut harness = Harness::new();
    let (link, attach) = attach_via(&mut harness, "q", "sb://localhost/Other").unwrap();
    assert_eq!(attach.properties[0].1, Value::String("sb://localhost/Other".into()), "echoed");
    harness.send(link, false, 0, message("for the other"));
    assert_eq!(harness.commands(), [], "never to the entity in between");
    let (tag, works) = harness.commits().remove(0);
    let Work::Transfer { via: QUEUE, target: OTHER, messages } = &works[0] else { panic!("{works:?}") };
    assert_eq!((messages.len(), works.len()), (1, 1));
    assert_eq!(harness.outcome(), None, "not before it is durable");
    harness.committed(tag, Ok(()));
    assert_eq!(harness.outcome(), Some(DeliveryState::Accepted));

    harness.send(link, false, 0, message("no room at all"));
    let (tag, _) = harness.commits().remove(0);
    harness.committed(tag, Err(Refusal::StorageFull));
    assert_eq!(condition(&harness.outcome().unwrap()), "amqp:resource-limit-exceeded");
}

#[test]
fn in_a_transaction_it_is_sent_via_the_other_entity() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    harness.on_a_session_of_its_own();
    let (link, _) = attach_via(&mut harness, "q", "other").unwrap();
    harness.on_a_session_of_its_own();
    let (receiving, receiver) = harness.receiver("q");
    let id = harness.received(receiving, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.send_work(link, &txn_id, "for the other");
    assert_eq!(harness.outcome(), Some(in_transaction(&txn_id, Some(DeliveryState::Accepted))));
    harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    let (_, works) = harness.commit(coordinator, &txn_id);
    let is_via_q = matches!(
        works[..],
        [Work::Transfer { via: QUEUE, target: OTHER, .. }, Work::Command(Command::Settle { .. })]
    );
    assert!(is_via_q, "{works:?}");
}

#[test]
fn a_destination_that_was_deleted_and_created_again_gets_messages() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    harness.on_a_session_of_its_own();
    let (link, _) = attach_via(&mut harness, "q", "replaced").unwrap();
    let mut targets = Vec::new();
    for in_a_transaction in [false, false, true] {
        let works = if in_a_transaction {
            let txn_id = harness.declare(coordinator);
            harness.send_work(link, &txn_id, "for the other");
            assert_eq!(harness.outcome(), Some(in_transaction(&txn_id, Some(DeliveryState::Accepted))));
            harness.commit(coordinator, &txn_id).1
        } else {
            harness.send(link, false, 0, message("for the other"));
            harness.commits().remove(0).1
        };
        let [Work::Transfer { via: QUEUE, target, .. }] = &works[..] else { panic!("{works:?}") };
        targets.push(target.0);
    }
    assert!(targets.is_sorted_by(|earlier, later| earlier < later), "{targets:?}");
}

#[test]
fn the_destination_must_be_an_entity_that_takes_messages() {
    let mut harness = Harness::new();
    for (destination, expected) in [
        ("nowhere", "amqp:not-found"),
        ("t/subscriptions/s", "amqp:not-allowed"),
        ("other/$DeadLetterQueue", "amqp:not-allowed"),
        ("other/$management", "amqp:not-allowed"),
        ("$cbs", "amqp:not-allowed"),
    ] {
        let error = attach_via(&mut harness, "q", destination).unwrap_err();
        assert_eq!(&*error.condition, expected, "{destination}");
    }
    let mut attach = harness.sender_attach("q");
    attach.properties = vec![(DESTINATION.into(), Value::Int(1))];
    harness.attach(attach);
    assert_eq!(&*harness.refusal().unwrap().condition, "com.microsoft:argument-error");
}

#[test]
fn a_token_is_needed_for_both_entities() {
    let mut harness = Harness::with(access(), &Peer::default());
    put_token(&mut harness, "q");
    let error = attach_via(&mut harness, "q", "t").unwrap_err();
    assert_eq!(&*error.condition, "amqp:unauthorized-access");
    put_token(&mut harness, "t");
    attach_via(&mut harness, "q", "t").unwrap();
}

#[test]
fn scheduled_messages_go_to_the_destination_as_well() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    harness.on_a_session_of_its_own();
    let attach = harness.receiver_attach("q/$management");
    let responses = harness.attach(attach);
    harness.client.set_credit(responses, 10, false);
    let attach = harness.sender_attach("q/$management");
    let link = harness.attach(via(attach, "other"));
    harness.commands();
    harness.events();
    let txn_id = harness.declare(coordinator);
    super::management::schedule(&mut harness, link, &txn_id);
    let Command::Send { messages } = harness.agree_with(&[70]) else { panic!("a send") };
    assert_eq!(messages.len(), 1);
    let (_, works) = harness.commit(coordinator, &txn_id);
    let [Work::Transfer { via: QUEUE, target: OTHER, messages }] = &works[..] else { panic!("{works:?}") };
    assert_eq!(messages[0].reserved_number, Some(SequenceNumber(70)));
}
