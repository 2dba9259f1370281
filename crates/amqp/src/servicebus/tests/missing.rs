//! Tokens for entities that do not exist.

use peeklock_access::Policy;

use super::authorization::access;
use super::harness::{Harness, request};
use crate::server::Peer;
use crate::servicebus::envelope::{lookup, text};
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::Sections;

/// A signature of the emulator's rule for the namespace, valid for an hour.
const NAMESPACE: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2F&sig=zo5nSG31WmrtghI3GcDswBqeDUyiLa%2BeYfOwR1ya3U0%3D&se=1700003600&skn=RootManageSharedAccessKey";

/// The status and description with which a token for an audience is answered.
fn put(harness: &mut Harness, cbs: LinkId, audience: &str, token: &str) -> (i32, String) {
    let properties =
        [("operation", Value::String("put-token".into())), ("name", Value::String(audience.into()))];
    harness.send(cbs, false, 0, request(Value::ULong(1), &properties, &Value::String(token.into())));
    let (_, _, payload) = harness.messages().remove(0);
    let properties = Sections::split(&payload).unwrap();
    let properties = Sections::decode_map(&properties.application_properties).unwrap();
    let Some(Value::Int(status)) = lookup(&properties, "status-code") else { panic!("{properties:?}") };
    let description = lookup(&properties, "status-description").and_then(text).unwrap();
    (*status, description.to_owned())
}

#[test]
fn a_good_token_for_a_missing_entity_is_answered_with_404() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    for audience in [
        "sb://localhost/nowhere",
        "amqps://localhost:5671/Nowhere/",
        "http://localhost/nowhere/$management",
        "sb://localhost/nowhere/$DeadLetterQueue",
        "sb://localhost/nowhere/Subscriptions/s",
        "nowhere",
        "sb://localhost/q/more",
    ] {
        let (status, description) = put(&mut harness, cbs, audience, NAMESPACE);
        assert_eq!(status, 404, "{audience}");
        assert!(description.starts_with("The messaging entity 'sb://localhost"), "{description}");
        assert!(description.contains("' could not be found."), "{description}");
    }
}

#[test]
fn a_good_token_for_an_existing_entity_is_accepted_in_every_form() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    for audience in [
        "sb://localhost/",
        "sb://localhost",
        "amqp://localhost/Q",
        "sb://localhost:5672/my%20queue",
        "sb://localhost/q/$management",
        "sb://localhost/q/$DeadLetterQueue/$management",
        "sb://localhost/t/Subscriptions/s/$DeadLetterQueue",
        "sb://localhost/$namespaceinfo",
        "sb://localhost/$resources/queues",
        // Whether a subscription exists is reported to its links.
        "sb://localhost/t/Subscriptions/nowhere",
    ] {
        assert_eq!(put(&mut harness, cbs, audience, NAMESPACE).0, 202, "{audience}");
    }
}

/// Otherwise unauthenticated peers could find out which names exist.
#[test]
fn a_bad_token_gets_the_same_answer_whether_its_entity_exists_or_not() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    for token in ["rubbish", &NAMESPACE.replace("se=1700003600", "se=1700003601")] {
        for entity in ["q", "nowhere"] {
            assert_eq!(put(&mut harness, cbs, &format!("sb://localhost/{entity}"), token).0, 401, "{entity}");
        }
    }
}

/// The peer has authenticated, and may retry once the entity is created.
#[test]
fn a_connection_with_a_good_token_for_a_missing_entity_counts_as_authenticated() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    put(&mut harness, cbs, "sb://localhost/nowhere", NAMESPACE);
    harness.advance(60_000);
    assert!(!harness.server.is_closed());
    assert_eq!(put(&mut harness, cbs, "sb://localhost/q", NAMESPACE).0, 202);
}

/// azure-sdk-for-python, live test `test_sb_client_bad_credentials` with uamqp.
#[test]
fn the_time_to_authenticate_does_not_pass_while_attempts_are_delayed() {
    let peer = Peer { address: Some(([192, 0, 2, 1], 5000).into()), ..Peer::default() };
    let mut harness = Harness::with(access(), &peer);
    let wrong = Value::String(NAMESPACE.replace("sig=zo5", "sig=zo6").into());
    let properties = [
        ("operation", Value::String("put-token".into())),
        ("name", Value::String("sb://localhost/q".into())),
    ];
    let mut delays_ms = [0; 5].into_iter().chain([100, 200, 400, 800, 1_600, 3_200]).chain([5_000; 4]);
    for _ in 0..3 {
        // Each has credit for a few answers.
        let cbs = harness.requester("$cbs");
        for delay_ms in delays_ms.by_ref().take(5) {
            harness.send(cbs, false, 0, request(Value::ULong(1), &properties, &wrong));
            harness.advance(delay_ms);
            assert_eq!(harness.messages().len(), 1, "{delay_ms}");
        }
    }
    harness.advance(20_000);
    assert!(harness.server.is_closed());
}

#[test]
fn guesses_of_an_authenticated_connection_are_delayed_as_well() {
    let peer = Peer { address: Some(([192, 0, 2, 1], 5000).into()), ..Peer::default() };
    let mut harness = Harness::with(access(), &peer);
    let cbs = harness.requester("$cbs");
    assert_eq!(put(&mut harness, cbs, "sb://localhost/q", NAMESPACE).0, 202);
    let wrong = NAMESPACE.replace("sig=zo5", "sig=zo6");
    for _ in 0..5 {
        assert_eq!(put(&mut harness, cbs, "sb://localhost/q", &wrong).0, 401, "may be a mistake");
    }
    let properties = [
        ("operation", Value::String("put-token".into())),
        ("name", Value::String("sb://localhost/q".into())),
    ];
    harness.send(cbs, false, 0, request(Value::ULong(1), &properties, &Value::String(wrong.into())));
    assert!(harness.messages().is_empty());
    harness.advance(5_000);
    assert_eq!(harness.messages().len(), 1);
    harness.advance(600_000);
    assert_eq!(put(&mut harness, cbs, "sb://localhost/q", NAMESPACE).0, 202, "failures are forgotten");
}

/// Its change has been handled before the credential is known to the connection.
#[test]
fn a_credential_whose_key_is_replaced_while_its_attempt_is_delayed_is_refused() {
    for is_replaced in [false, true] {
        let peer = Peer { address: Some(([192, 0, 2, 1], 5000).into()), ..Peer::default() };
        let access = access();
        let mut harness = Harness::with(access.clone(), &peer);
        let cbs = harness.requester("$cbs");
        let wrong = NAMESPACE.replace("sig=zo5", "sig=zo6");
        for _ in 0..5 {
            assert_eq!(put(&mut harness, cbs, "sb://localhost/q", &wrong).0, 401);
        }
        let properties = [
            ("operation", Value::String("put-token".into())),
            ("name", Value::String("sb://localhost/q".into())),
        ];
        let token = Value::String(NAMESPACE.into());
        harness.send(cbs, false, 0, request(Value::ULong(1), &properties, &token));
        assert!(harness.messages().is_empty(), "delayed");
        if is_replaced {
            access.replace(Policy { rules: vec![], ..Policy::development() });
        }
        harness.advance(5_000);
        assert_eq!(harness.messages().len(), 1);
        assert_eq!(harness.broker.is_unauthenticated(), is_replaced);
    }
}
