//! Rights of a connection: what they permit, how long, and what happens when they end.

use crate::servicebus::sasl::Outcome;
use peeklock_access::{Access, CertificateRule, EntityRules, Policy, Resource, default_rule};
use peeklock_engine::runtime::ManualClock;
use peeklock_engine::{AuthorizationRule, EntityOptions, Rights, Secret};

use super::harness::{Harness, NOW, request};
use crate::endpoint::Event;
use crate::server::Admission;
use crate::servicebus::envelope::lookup;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::Sections;
use crate::wire::performative::Attach;

/// Signatures of the emulator's rule, which expire ten seconds and an hour after [`NOW`].
pub(super) const BRIEF: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fq&sig=kJpmSWKfNNyajMb6D7JiZ2tJUnoswMwU%2BWBmEeFtXuk%3D&se=1700000010&skn=RootManageSharedAccessKey";
const HOUR: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fq&sig=aBnbwJRip3IdBhmUXg50tO0x5BaDROH7UNc1GXl2%2F%2BY%3D&se=1700003600&skn=RootManageSharedAccessKey";
const TOPIC_HOUR: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Ft&sig=lQ8M%2FIefljcn0qYs7LmkNbqaK9M69tDilXkd10gU1qM%3D&se=1700003600&skn=RootManageSharedAccessKey";

const UNAUTHORIZED: &str = "amqp:unauthorized-access";

struct NoRules;

impl EntityRules for NoRules {
    fn options(&self, _name: &str) -> Option<Arc<EntityOptions>> {
        None
    }
}

pub(super) fn access_and_clock() -> (Access, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(NOW));
    (Access::new(Policy::development(), Arc::new(NoRules), clock.clone()), clock)
}

/// The emulator's rule, and a clock fixed at [`NOW`].
pub(in crate::servicebus) fn access() -> Access {
    access_and_clock().0
}

/// The status with which a token for an audience is answered.
pub(super) fn put(harness: &mut Harness, cbs: LinkId, audience: &str, token: &str) -> Option<i64> {
    let properties =
        [("operation", Value::String("put-token".into())), ("name", Value::String(audience.into()))];
    harness.send(cbs, false, 0, request(Value::ULong(1), &properties, &Value::String(token.into())));
    property(harness, "status-code").and_then(|value| match value {
        Value::Int(code) => Some(i64::from(code)),
        _ => None,
    })
}

/// Puts the token for the queue `q` or the topic `t` that expires in an hour.
pub(super) fn put_token(harness: &mut Harness, entity: &str) {
    let cbs = harness.requester("$cbs");
    let token = if entity == "t" { TOPIC_HOUR } else { HOUR };
    assert_eq!(put(harness, cbs, &format!("sb://localhost/{entity}"), token), Some(202));
}

/// A link that sends by way of `q` to `t` loses its right when the token for either of them expires.
#[test]
fn a_link_that_sends_via_ends_with_the_token_for_either_entity() {
    for (via, destination) in [("q", "t"), ("t", "q")] {
        let (access, clock) = access_and_clock();
        let mut harness = Harness::with(access, &Peer::default());
        let cbs = harness.requester("$cbs");
        put(&mut harness, cbs, "sb://localhost/q", BRIEF);
        put(&mut harness, cbs, "sb://localhost/t", TOPIC_HOUR);
        let mut attach = harness.sender_attach(via);
        let key = "com.microsoft:transfer-destination-address";
        attach.properties = vec![(key.into(), Value::String(destination.into()))];
        harness.attach(attach);
        assert_eq!(ended(&mut harness), Vec::<String>::new());
        clock.advance(10_000);
        harness.advance(10_000);
        assert_eq!(ended(&mut harness), [UNAUTHORIZED], "{via} to {destination}");
    }
}

/// A property of the only response received.
fn property(harness: &mut Harness, key: &str) -> Option<Value> {
    let (_, _, payload) = harness.messages().remove(0);
    let sections = Sections::split(&payload).unwrap();
    lookup(&Sections::decode_map(&sections.application_properties).unwrap(), key).cloned()
}

fn condition_of(harness: &mut Harness, attach: Attach) -> String {
    harness.attach(attach);
    assert!(harness.commands().is_empty(), "the engine is not bothered");
    harness.refusal().expect("refused").condition.into()
}

fn refuses(harness: &mut Harness, address: &str) {
    for attach in [harness.sender_attach(address), harness.receiver_attach(address)] {
        assert_eq!(condition_of(harness, attach), UNAUTHORIZED, "{address}");
    }
}

/// The conditions with which links were ended since the last call.
pub(super) fn ended(harness: &mut Harness) -> Vec<String> {
    let events = harness.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::Detached { error, .. } => Some(error.expect("a reason").condition.into()),
            _ => None,
        })
        .collect()
}

#[test]
fn an_unauthenticated_connection_sees_nothing_but_cbs() {
    let mut harness = Harness::with(access(), &Peer::default());
    for address in ["q", "nowhere", "t/Subscriptions/s", "", "q/$Nowhere"] {
        refuses(&mut harness, address);
    }
    for address in ["q/$management", "nowhere/$management"] {
        for attach in [harness.sender_attach(address), harness.receiver_attach(address)] {
            harness.attach(attach);
            assert!(harness.refusal().is_none(), "the token may still come");
            assert!(harness.broker.links.is_empty(), "{address}");
        }
    }
    harness.requester("$cbs");
}

#[test]
fn a_token_opens_its_entity_and_no_other() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    assert_eq!(put(&mut harness, cbs, "sb://localhost:5672/q", HOUR), Some(202));
    harness.sender("amqps://localhost/Q");
    harness.receiver("q/$DeadLetterQueue");
    harness.requester("q/$management");
    refuses(&mut harness, "my queue");
    refuses(&mut harness, "nowhere");
}

#[test]
fn a_token_opens_no_other_audience() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    for audience in ["sb://localhost/", "sb://localhost/my queue", "sb://localhost/q2"] {
        assert_eq!(put(&mut harness, cbs, audience, HOUR), Some(401), "{audience}");
    }
    for token in
        [HOUR.replace("se=1700003600", "se=1700003601"), HOUR.replace("%2Fq", "%2Ft"), "x".repeat(70_000)]
    {
        assert_eq!(put(&mut harness, cbs, "sb://localhost/q", &token), Some(401));
    }
    refuses(&mut harness, "q");
}

#[test]
fn an_audience_without_canonical_form_is_refused() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    for audience in ["sb://localhost/q%252fx", "sb://localhost/$x/q", "sb://localhost/q//x", "$cbs"] {
        assert_eq!(put(&mut harness, cbs, audience, HOUR), Some(400), "{audience}");
    }
    refuses(&mut harness, "q");
}

#[test]
fn an_encoded_slash_is_a_slash_in_audiences_and_addresses_of_links() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("%24cbs");
    assert_eq!(put(&mut harness, cbs, "sb://localhost/t%2FSubscriptions%2Fs", TOPIC_HOUR), Some(202));
    for address in ["t%2FSubscriptions%2fS", "/t/subscriptions/s/", "amqp://user@h/t%2fSubscriptions%2FS"] {
        let attach = harness.receiver_attach(address);
        harness.attach(attach);
        assert!(matches!(harness.command().1, Command::OpenReceiver { .. }), "{address}");
    }
    refuses(&mut harness, "t%2fSubscriptions%2fother");
    refuses(&mut harness, "t");
}

#[test]
fn a_token_for_a_topic_is_one_for_its_subscriptions() {
    let mut harness = Harness::with(access(), &Peer::default());
    let cbs = harness.requester("$cbs");
    assert_eq!(put(&mut harness, cbs, "sb://localhost/t", TOPIC_HOUR), Some(202));
    let node = harness.requester("t/Subscriptions/s/$management");
    let operation = [("operation", "com.microsoft:enumerate-rules".into())];
    let body = Value::Map(vec![("top".into(), Value::Int(5))]);
    harness.send(node, true, 0, request(Value::ULong(1), &operation, &body));
    assert!(matches!(harness.command().1, Command::ListRules { .. }));
}

#[test]
fn each_operation_takes_its_right() {
    let rule = |name: &str, rights| AuthorizationRule {
        name: name.into(),
        rights,
        primary_key: Secret::new(name),
        ..default_rule()
    };
    let listen = Rights { listen: true, ..Rights::default() };
    let send = Rights { send: true, ..Rights::default() };
    let policy = Policy { rules: vec![rule("listen", listen), rule("send", send)], ..Policy::default() };
    for (name, sends) in [("listen", false), ("send", true)] {
        let access = access();
        access.replace(policy.clone());
        let mut harness = Harness::with(access.clone(), &Peer::default());
        harness.broker.authorization.identify(access.password(name, name).unwrap());
        let (sender, receiver) = (harness.sender_attach("q"), harness.receiver_attach("q"));
        let (allowed, refused) = if sends { (sender, receiver) } else { (receiver, sender) };
        assert_eq!(condition_of(&mut harness, refused), UNAUTHORIZED, "{name}");
        harness.attach(allowed);
        assert_eq!(harness.commands().len(), 1, "{name}");
        for (operation, allowed) in [
            ("schedule-message", sends),
            ("cancel-scheduled-message", sends),
            ("peek-message", !sends),
            ("receive-by-sequence-number", !sends),
            ("renew-lock", !sends),
            ("update-disposition", !sends),
            ("renew-session-lock", !sends),
            ("get-session-state", !sends),
            ("set-session-state", !sends),
            ("get-message-sessions", !sends),
            ("add-rule", false),
            ("remove-rule", false),
            ("enumerate-rules", false),
        ] {
            let node = harness.requester("q/$management");
            let operation_name = Value::String(format!("com.microsoft:{operation}").into());
            let ask = request(Value::ULong(1), &[("operation", operation_name)], &Value::Map(Vec::new()));
            harness.send(node, true, 0, ask);
            // A permitted request is processed, perhaps to be refused for its arguments.
            let went_on = !harness.commands().is_empty();
            let refused = !went_on && {
                let condition = property(&mut harness, "errorCondition").unwrap();
                condition.as_str() == Some(UNAUTHORIZED)
            };
            assert_eq!(refused, !allowed, "{name} {operation}");
        }
    }
}

#[test]
fn the_end_of_a_token_ends_links_unless_a_newer_one_covers_them() {
    let (access, clock) = access_and_clock();
    let mut harness = Harness::with(access, &Peer::default());
    let cbs = harness.requester("$cbs");
    put(&mut harness, cbs, "sb://localhost/q", BRIEF);
    harness.sender("q");
    put(&mut harness, cbs, "sb://localhost/q", HOUR);
    clock.advance(10_000);
    harness.advance(10_000);
    assert_eq!(ended(&mut harness), Vec::<String>::new(), "the newer one covers it");
    put(&mut harness, cbs, "sb://localhost/t", TOPIC_HOUR);
    harness.sender("t");
    let (_, receiver) = harness.receiver("q");
    harness.requester("q/$management");
    let waiting = harness.receiver_attach("q");
    harness.attach(waiting);
    harness.commands();
    clock.advance(3_590_000);
    harness.advance(3_590_000);
    let commands = harness.commands();
    let closed = commands.iter().any(|(_, command)| *command == Command::CloseReceiver { receiver });
    assert!(closed, "{commands:?}");
    // Of both entities: sender and receiver, one not open yet, two of the management node, and the topic's sender.
    assert_eq!(ended(&mut harness), vec![UNAUTHORIZED; 6]);
    refuses(&mut harness, "q");
}

#[test]
fn a_changed_rule_detaches_links_that_depend_on_it_at_once() {
    let access = access();
    let mut harness = Harness::with(access.clone(), &Peer::default());
    let cbs = harness.requester("$cbs");
    put(&mut harness, cbs, "sb://localhost/q", HOUR);
    harness.sender("q");
    access.replace(Policy::development());
    assert_eq!(ended(&mut harness), Vec::<String>::new(), "the same rule still");
    access.replace(Policy {
        rules: vec![AuthorizationRule { primary_key: Secret::new("new"), ..default_rule() }],
        ..Policy::default()
    });
    assert_eq!(ended(&mut harness), [UNAUTHORIZED]);
    harness.commands();
    access.replace(Policy { required: false, ..Policy::default() });
    harness.sender("q");
}

#[tokio::test]
async fn a_change_wakes_an_idle_connection() {
    let access = access();
    let mut harness = Harness::with(access.clone(), &Peer::default());
    for _ in 0..3 {
        let woken = std::future::poll_fn(|context| harness.broker.poll_wake(context));
        let mut woken = std::pin::pin!(woken);
        tokio::select! {
            biased;
            () = &mut woken => panic!("nothing changed"),
            () = std::future::ready(()) => {}
        }
        access.replace(Policy::development());
        woken.await;
    }
}

#[test]
fn an_unauthenticated_connection_is_dropped_after_twenty_seconds_and_others_are_not() {
    let (access, clock) = access_and_clock();
    let mut harness = Harness::with(access.clone(), &Peer::default());
    harness.requester("$cbs");
    harness.advance(19_999);
    assert!(!harness.server.is_closed());
    harness.advance(1);
    let closed = harness.events().into_iter().find_map(|event| match event {
        Event::Closed { error, .. } => error,
        _ => None,
    });
    assert_eq!(&*closed.expect("closed").condition, UNAUTHORIZED);

    let mut harness = Harness::with(access, &Peer::default());
    let cbs = harness.requester("$cbs");
    harness.advance(19_999);
    put(&mut harness, cbs, "sb://localhost/q", BRIEF);
    harness.advance(5_000);
    assert!(!harness.server.is_closed());
    clock.advance(10_000);
    harness.advance(5_000);
    harness.advance(19_999);
    assert!(!harness.server.is_closed(), "its token has ended a while ago");
    harness.advance(1);
    assert!(
        harness.server.is_closed()
            || harness.events().iter().any(|event| matches!(event, Event::Closed { .. }))
    );
}

#[test]
fn the_acceptor_is_notified_when_a_connection_is_authenticated() {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let admission = Admission::new(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let peer = Peer { admission, ..Peer::default() };
    let admitted = || count.load(std::sync::atomic::Ordering::Relaxed) > 0;
    let mut harness = Harness::with(access(), &peer);
    let cbs = harness.requester("$cbs");
    put(&mut harness, cbs, "sb://localhost/q", "rubbish");
    assert!(!admitted());
    put(&mut harness, cbs, "sb://localhost/q", HOUR);
    assert!(admitted());
    count.store(0, std::sync::atomic::Ordering::Relaxed);
    Harness::with(Access::open(), &peer);
    assert!(admitted());
}

#[test]
fn sasl_identifies_the_peer() {
    let access = access();
    let certificate =
        CertificateRule { subject: "CN=shop".into(), rights: Rights::ALL, scope: Resource::entity("q") };
    access.replace(Policy { certificates: vec![certificate], ..Policy::development() });
    let outcome = |certificate, exchange| sasl::outcome(&access, true, certificate, exchange);
    let plain = |text: &'static str| outcome(None, ("PLAIN", Some(text.as_bytes())));
    for right in
        ["\0RootManageSharedAccessKey\0SAS_KEY_VALUE", "\0RootManage%53haredAccessKey\0SAS%5FKEY%5FVALUE"]
    {
        assert!(
            matches!(plain(right), Outcome::Known(grant) if grant.permissions[0].scope.path().is_empty())
        );
    }
    for wrong in
        ["\0RootManageSharedAccessKey\0wrong", "\0nobody\0SAS_KEY_VALUE", "\0RootManageSharedAccessKey\0"]
    {
        assert_eq!(plain(wrong), Outcome::Refused, "{wrong}");
    }
    assert!(
        matches!(outcome(Some("CN=shop"), ("EXTERNAL", None)), Outcome::Known(grant) if grant.permissions[0].scope.path() == "q")
    );
    assert_eq!(outcome(Some("CN=other"), ("EXTERNAL", None)), Outcome::Refused);
    assert_eq!(outcome(None, ("EXTERNAL", None)), Outcome::Refused);
    assert_eq!(outcome(None, ("ANONYMOUS", None)), Outcome::Anonymous);
}

#[test]
fn tokens_end_by_the_machine_clock() {
    let (access, clock) = access_and_clock();
    let mut harness = Harness::with(access, &Peer::default());
    let cbs = harness.requester("$cbs");
    clock.advance(10_000);
    assert_eq!(put(&mut harness, cbs, "sb://localhost/q", BRIEF), Some(401));
    assert_eq!(harness.broker.entities.now(), NOW, "the clock of entities is another");
}
