//! Attaches to `$management` that come before the token, as Java's client sends them.

use peeklock_access::{CertificateRule, Policy, Resource};
use peeklock_engine::Rights;

use super::authorization::{access, ended, put_token};
use super::harness::Harness;
use crate::endpoint::Event;
use crate::server::{Application, Peer};
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::Attach;

const UNAUTHORIZED: &str = "amqp:unauthorized-access";

/// Attaches the pair of links to a management node.
fn attach_pair(harness: &mut Harness, address: &str) {
    for attach in [harness.sender_attach(address), harness.receiver_attach(address)] {
        harness.attach(attach);
    }
}

/// Links that the broker has accepted, apart from those to `$cbs`.
fn accepted(harness: &Harness) -> usize {
    let is_management =
        |link: &&Link| matches!(link, Link::ManagementRequests { .. } | Link::Responses { entity: Some(_) });
    harness.broker.links.values().filter(is_management).count()
}

#[test]
fn they_are_accepted_with_the_token_for_their_entity() {
    let mut harness = Harness::with(access(), &Peer::default());
    attach_pair(&mut harness, "q/$management");
    attach_pair(&mut harness, "t/$management");
    put_token(&mut harness, "q");
    assert_eq!((ended(&mut harness).len(), accepted(&harness)), (0, 2));
    put_token(&mut harness, "t");
    assert_eq!((ended(&mut harness).len(), accepted(&harness)), (0, 4));
    assert_eq!(harness.broker.awaited.deadline(), None);
}

/// Decoded, its properties take forty times as much.
#[test]
fn they_wait_encoded_and_count_as_memory() {
    let properties = vec![("x".into(), Value::List(vec![Value::Null; 5_000]))];
    let mut harness = Harness::with(access(), &Peer::default());
    let attach = Attach { properties: properties.clone(), ..harness.receiver_attach("q/$management") };
    harness.attach(attach);
    assert!((5_000..6_000).contains(&harness.broker.unanswered().bytes));
    let access = harness.broker.authorization.access().clone();
    harness
        .broker
        .authorization
        .identify(access.password("RootManageSharedAccessKey", "SAS_KEY_VALUE").unwrap());
    harness.broker.attach_awaited(&mut harness.server);
    assert_eq!(harness.broker.unanswered().bytes, 0);
    let answer = harness.events().into_iter().find_map(|event| match event {
        Event::Attach { attach, .. } => Some(attach.properties),
        _ => None,
    });
    assert_eq!(answer, Some(properties), "the link is attached as requested");
}

/// Attaches to a management node, on a connection with a token for another entity: neither accepted nor refused until the
/// time for authentication ends.
fn wait_in_vain(address: &str) {
    let mut harness = Harness::with(access(), &Peer::default());
    put_token(&mut harness, "q");
    attach_pair(&mut harness, address);
    harness.advance(19_999);
    assert_eq!((ended(&mut harness), accepted(&harness)), (Vec::new(), 0));
    harness.advance(1);
    assert_eq!(ended(&mut harness), [UNAUTHORIZED; 2]);
}

#[test]
fn an_authenticated_connection_waits_for_the_token_of_another_entity_and_not_for_ever() {
    wait_in_vain("t/$management");
}

/// Otherwise the peer could find out which names exist.
#[test]
fn they_wait_for_entities_that_do_not_exist_too() {
    wait_in_vain("nowhere/$management");
}

#[test]
fn those_of_a_session_that_ends_are_forgotten() {
    let mut harness = Harness::with(access(), &Peer::default());
    attach_pair(&mut harness, "q/$management");
    assert!(harness.broker.awaited.deadline().is_some());
    harness.client.end(harness.session, None);
    harness.advance(0);
    assert_eq!(harness.broker.awaited.deadline(), None);
}

/// Links to `$cbs` remain possible, and whatever is too much is refused at once.
#[test]
fn few_wait_on_an_unauthenticated_connection() {
    let mut harness = Harness::with(access(), &Peer::default());
    for _ in 0..7 {
        attach_pair(&mut harness, "q/$management");
    }
    assert_eq!(ended(&mut harness), [UNAUTHORIZED; 2]);
    put_token(&mut harness, "q");
    assert_eq!(accepted(&harness), 12);
}

/// Such a peer puts no token.
#[test]
fn a_peer_with_an_identity_is_refused_at_once() {
    let certificate =
        CertificateRule { subject: "CN=shop".into(), rights: Rights::ALL, scope: Resource::entity("q") };
    let access = access();
    access.replace(Policy { certificates: vec![certificate], ..Policy::development() });
    let mut harness = Harness::with(access.clone(), &Peer::default());
    harness.broker.authorization.identify(access.certificate("CN=shop").unwrap());
    attach_pair(&mut harness, "t/$management");
    assert_eq!(ended(&mut harness), [UNAUTHORIZED; 2]);
}
