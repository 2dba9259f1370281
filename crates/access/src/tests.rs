//! Signatures of the SDKs, their scopes, and refusals.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use peeklock_engine::runtime::{ManualClock, ScriptedMachine, SystemClock};
use peeklock_engine::{QueueOptions, Right, Secret};
use ring::hmac;

use super::*;

/// Creation and expiry of the golden tokens, one hour apart.
const MADE_AT: Timestamp = Timestamp(1_900_000_000_000);
const END: Timestamp = Timestamp(1_900_003_600_000);

const SENDER_KEY: &str = "dGhlIGtleSBvZiB0aGUgc2VuZGVyIGlzIHRoaXM+Lz0=";

/// Made by azure-servicebus 7.15.0 (Python), @azure/core-amqp 4.4.2 and @azure/service-bus 7.9.5 (JS), with their
/// clocks at [`MADE_AT`]; then the shapes of .NET, Java, Go and the PHP sample of Service Bus's documentation. All with
/// the emulator's rule.
const GOLDEN: [(&str, &str); 7] = [
    (
        "Python",
        "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A5672%2Fmy+queue&sig=fcqQUddmDxb0xwLzetlggXedDGk9MG8T8KULCBYXT2o%3D&se=1900003600&skn=RootManageSharedAccessKey",
    ),
    (
        "Python, HTTP",
        "SharedAccessSignature sr=https%3A%2F%2Flocalhost%3A18301&sig=7WtO39lftp5L6rL9HKg6d1BHbTLojVxV%2FbsziaGL29M%3D&se=1900003600&skn=RootManageSharedAccessKey",
    ),
    (
        "JS",
        "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A5672%2Fmy%20queue&sig=6NMm3m9dQFqYgIg4xvybRjZH8551e35rfq5qc1KJFFQ%3D&se=1900003600&skn=RootManageSharedAccessKey",
    ),
    (
        ".NET",
        "SharedAccessSignature sr=sb%3a%2f%2fns.servicebus.windows.net%2fmy%2520queue&sig=hCvBx3WEUKCr2%2fy0Q6bVj793ELDSJJ0Y8ty59s2cen8%3d&se=1900003600&skn=RootManageSharedAccessKey",
    ),
    (
        "Java",
        "SharedAccessSignature sr=amqp%3A%2F%2Flocalhost%2Fmy+queue&sig=4ZW4h8XVYc%2FqERHZTn%2BlAf19BtcIaEbzSRps6LQIwzw%3D&se=1900003600&skn=RootManageSharedAccessKey",
    ),
    (
        "Go",
        "SharedAccessSignature sr=amqps%3A%2F%2Flocalhost%2Fmy+queue&sig=nX2ysqf5ZigWS4wrqkU%2FVfT2lvqY6DLAkbXRRm8A%2FnQ%3D&se=1900003600&skn=RootManageSharedAccessKey",
    ),
    (
        "PHP",
        "SharedAccessSignature sig=56whkL8%2BWk%2BX0WOrtuvmL5e4zMQejRRLqLzSq0lP534%3D&se=1900003600&skn=RootManageSharedAccessKey&sr=https%3a%2f%2fns.servicebus.windows.net%2fmy%20queue",
    ),
];

/// By the same SDKs, with the rule `sender` of `orders`, for a subscription of it and for its management node.
const GOLDEN_ENTITY: [&str; 2] = [
    "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A5672%2FOrders%2FSubscriptions%2Feu&sig=YWKW8tYrRP%2FZh4fiMdxxNXgXRKjQtXwnzY0xWSsDClI%3D&se=1900003600&skn=sender",
    "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A5672%2Forders%2FSubscriptions%2Feu%2F%24management&sig=hzgwF36J9ms%2B6pb8HWPQ1eYqW1iVhyHc8%2B5LbF7MORY%3D&se=1900003600&skn=sender",
];

#[derive(Default)]
struct SomeEntities(RwLock<HashMap<String, Arc<EntityOptions>>>);

impl SomeEntities {
    fn set(&self, name: &str, authorization_rules: Vec<AuthorizationRule>) {
        let options = QueueOptions { authorization_rules, ..QueueOptions::default() };
        self.0.write().unwrap().insert(name.to_owned(), Arc::new(options.into()));
    }
}

impl EntityRules for SomeEntities {
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>> {
        self.0.read().unwrap().get(&name.to_lowercase()).cloned()
    }
}

fn rule(name: &str, rights: Rights, primary: &str, secondary: &str) -> AuthorizationRule {
    let (primary_key, secondary_key) = (Secret::new(primary), Secret::new(secondary));
    AuthorizationRule { name: name.into(), rights, primary_key, secondary_key, ..default_rule() }
}

const SEND: Rights = Rights { listen: false, send: true, manage: false };
const LISTEN: Rights = Rights { listen: true, send: false, manage: false };

/// The emulator's rule, and the rule `sender` on `orders`.
fn access() -> (Access, Arc<SomeEntities>) {
    let entities = Arc::new(SomeEntities::default());
    entities.set("orders", vec![rule("sender", SEND, "another", SENDER_KEY)]);
    entities.set("invoices", vec![rule("RootManageSharedAccessKey", LISTEN, "own", "")]);
    let clock = Arc::new(ManualClock::new(MADE_AT));
    (Access::new(Policy::development(), entities.clone(), clock), entities)
}

fn token(resource: &str, expiry: &str, name: &str, key: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&key, format!("{resource}\n{expiry}").as_bytes());
    let signature = BASE64_STANDARD.encode(tag).replace('+', "%2B").replace('/', "%2f");
    format!("SharedAccessSignature se={expiry}&sr={resource}&skn={name}&sig={signature}")
}

fn of(path: &str) -> Resource {
    Resource::of(path).unwrap()
}

#[test]
fn golden_tokens_of_every_sdk_pass() {
    let (access, _) = access();
    for (sdk, token) in GOLDEN {
        let grant = access.token(token, &of("my queue"), MADE_AT).unwrap();
        let whole = sdk == "Python, HTTP";
        assert_eq!(grant.permissions[0].scope.path(), if whole { "" } else { "my queue" }, "{sdk}");
        assert_eq!((grant.expires_at, grant.permissions[0].rights), (Some(END), Rights::ALL), "{sdk}");
        assert_eq!(access.token(token, &of("my queue"), END), Err(Denied::Expired(END)), "{sdk}");
        assert!(access.token(&format!("{token}x"), &of("my queue"), MADE_AT).is_err(), "{sdk}");
    }
    for token in GOLDEN_ENTITY {
        let grant = access.token(token, &of("orders/subscriptions/eu"), MADE_AT).unwrap();
        assert_eq!(
            (grant.permissions[0].scope.path(), grant.permissions[0].rights),
            ("orders/subscriptions/eu", SEND)
        );
    }
}

/// azure-servicebus 0.50 for Python signs the whole URL of each request, in lower case; its tests ran against the service
/// (`control_plane_tests/recordings` of azure-sdk-for-python).
#[test]
fn a_signature_of_the_url_of_an_operation_is_good_for_that_operation_only() {
    let (access, _) = access();
    let is_good = |signed: &str, rule: &str, key: &str, url: &str| {
        let resource = of(url.rsplit_once("/messages").unwrap().0);
        access.token_for_url(&token(signed, "1900003600", rule, key), &resource, url, MADE_AT).is_ok()
    };
    let root = |signed, url| is_good(signed, "RootManageSharedAccessKey", DEFAULT_KEY, url);
    let head = "https%3a%2f%2flocalhost%2forders%2fmessages%2fhead%3ftimeout%3d60";
    assert!(root(head, "/Orders/messages/head"));
    assert!(!root(head, "/orders/messages"));
    assert!(!root(head, "/invoices/messages/head"));
    let messages = "https%3a%2f%2flocalhost%2forders%2fmessages";
    assert!(root(messages, "/orders/messages") && root(messages, "/orders/messages/head"));
    assert!(is_good(messages, "sender", SENDER_KEY, "/orders/messages"));
    assert!(!is_good(messages, "sender", SENDER_KEY, "/invoices/messages"));
    assert!(!root("https%3a%2f%2flocalhost%2forders%2fmess", "/orders/messages"));
    let subscription = "https%3a%2f%2fh%2forders%2fsubscriptions%2feu%2fmessages%2fhead";
    assert!(root(subscription, "/orders/subscriptions/eu/messages/head"));
    assert!(!root(subscription, "/orders/subscriptions/us/messages/head"));
    // Elsewhere such a signature is one of an entity of that name.
    let signature = token(messages, "1900003600", "RootManageSharedAccessKey", DEFAULT_KEY);
    assert_eq!(access.token(&signature, &of("orders"), MADE_AT), Err(Denied::Audience));
}

/// A refusal after a correct signature is not a guess, so other clients with the same address are not delayed.
#[test]
fn only_who_may_lack_the_key_may_be_guessing() {
    let (access, _) = access();
    let (_, token) = GOLDEN[0];
    let denied = |token: &str, path: &str, now| access.token(token, &of(path), now).unwrap_err();
    assert!(!denied(token, "my queue", END).may_be_guess(), "expired");
    assert!(!denied(token, "another", MADE_AT).may_be_guess(), "for something else");
    let forged = token.replace("sig=", "sig=A");
    for now in [MADE_AT, END] {
        assert_eq!(denied(&forged, "my queue", now), Denied::Signature);
    }
    assert!(Denied::Signature.may_be_guess() && denied("nonsense", "my queue", MADE_AT).may_be_guess());
}

/// A token of an hour, while the wall clock jumps ahead by two hours and by ten years, and back.
#[test]
fn a_wall_clock_that_jumps_forth_and_back_ends_no_token() {
    let machine = ScriptedMachine::new(MADE_AT.0);
    let clock = Arc::new(SystemClock::over(Arc::new(machine.clone())));
    let access = Access::new(Policy::development(), Arc::new(SomeEntities::default()), clock);
    let is_good = || access.token(GOLDEN[0].1, &of("my queue"), access.now()).is_ok();
    // The start is no longer recent.
    for _ in 0..360 {
        machine.pass(1_000);
        assert!(is_good());
    }
    for off_ms in [7_200_000, 315_360_000_000] {
        machine.disturb(off_ms, 120_000);
        for second in 0..240 {
            machine.pass(1_000);
            assert!(is_good(), "after {second} s of a jump by {off_ms} ms");
        }
    }
    machine.pass(3_600_000);
    assert!(!is_good(), "its hour is over");
}

#[test]
fn a_changed_letter_anywhere_is_a_wrong_signature() {
    let (access, _) = access();
    let (_, token) = GOLDEN[0];
    for (from, to) in
        [("my+queue", "my%20queue"), ("se=1900003600", "se=1900003601"), ("fcq", "fcQ"), ("my+", "mz+")]
    {
        let changed = token.replace(from, to);
        assert_ne!(changed, token);
        assert_eq!(access.token(&changed, &of("my queue"), MADE_AT), Err(Denied::Signature), "{from}");
    }
    assert!(access.token(&token[..token.len() / 2], &of("my queue"), MADE_AT).is_err());
}

#[test]
fn an_unknown_rule_and_a_wrong_key_get_the_same_answer() {
    let (access, _) = access();
    for (name, key) in
        [("nobody", "SAS_KEY_VALUE"), ("RootManageSharedAccessKey", "wrong"), ("sender", SENDER_KEY)]
    {
        let token = token("sb%3a%2f%2fh%2fq", "1900003600", name, key);
        assert_eq!(access.token(&token, &of("q"), MADE_AT), Err(Denied::Signature), "{name}");
    }
    assert_eq!(access.password("nobody", "SAS_KEY_VALUE"), Err(Denied::Signature));
    assert_eq!(access.password("RootManageSharedAccessKey", "wrong"), Err(Denied::Signature));
    assert_eq!(
        access.password("RootManageSharedAccessKey", ""),
        Err(Denied::Signature),
        "there is no second key"
    );
    let unsigned = token("sb%3a%2f%2fh%2fq", "1900003600", "RootManageSharedAccessKey", "");
    assert_eq!(access.token(&unsigned, &of("q"), MADE_AT), Err(Denied::Signature), "nor does it sign");
}

#[test]
fn a_rule_of_an_entity_never_grants_beyond_it() {
    let (access, _) = access();
    for signed in ["sb%3A%2F%2Fh", "sb%3A%2F%2Fh%2F", "sb%3A%2F%2Fh%2Forders"] {
        let token = token(signed, "1900003600", "sender", SENDER_KEY);
        let grant = access.token(&token, &of("orders"), MADE_AT).unwrap();
        assert_eq!(grant.permissions[0].scope.path(), "orders");
        assert!(grant.permits(&of("orders/subscriptions/eu"), Right::Send, MADE_AT));
        assert!(!grant.permits(&of("orders"), Right::Listen, MADE_AT));
        assert!(!grant.permits(&of("invoices"), Right::Send, MADE_AT));
        for other in ["", "invoices", "orders2"] {
            assert_eq!(access.token(&token, &of(other), MADE_AT), Err(Denied::Signature), "{other}");
        }
    }
}

#[test]
fn a_rule_of_an_entity_is_for_no_entity_whose_name_only_starts_with_its_own() {
    let (access, entities) = access();
    entities.set("orders/sub", vec![rule("own", Rights::ALL, "own", "")]);
    for signed in ["sb%3A%2F%2Fh", "sb%3A%2F%2Fh%2Forders", "sb%3A%2F%2Fh%2Forders%2Fsub"] {
        let token = token(signed, "1900003600", "sender", SENDER_KEY);
        for other in ["orders/sub", "orders/new", "orders/sub/subscriptions/s"] {
            assert_eq!(access.token(&token, &of(other), MADE_AT), Err(Denied::Signature), "{signed} {other}");
        }
        if let Ok(grant) = access.token(&token, &of("orders"), MADE_AT) {
            assert!(!grant.permits(&of("orders/sub"), Right::Send, MADE_AT), "{signed}");
        }
    }
    let token = token("sb%3A%2F%2Fh%2Forders", "1900003600", "own", "own");
    assert!(access.token(&token, &of("orders/sub"), MADE_AT).is_ok(), "signed for more than its rule has");
    assert_eq!(access.token(&token, &of("orders"), MADE_AT), Err(Denied::Signature));
}

#[test]
fn a_signature_for_a_resource_without_canonical_form_is_for_nothing() {
    let (access, _) = access();
    for signed in ["sb%3A%2F%2Fh%2F%24x%2Fq", "sb%3A%2F%2Fh%2Fa%25252fb", "sb%3A%2F%2Fh%2Fa%2F%2Fb", "%24x"] {
        let token = token(signed, "1900003600", "RootManageSharedAccessKey", DEFAULT_KEY);
        for resource in ["", "q", "a/b", "a", "$resources/queues"] {
            assert_eq!(access.token(&token, &of(resource), MADE_AT), Err(Denied::Audience), "{signed}");
        }
    }
}

#[test]
fn a_signature_without_a_scheme_is_for_the_namespace_only_if_no_entity_has_that_name() {
    let (access, _) = access();
    for (signed, is_for_all) in
        [("localhost", true), ("localhost%3A5300", true), ("10.0.0.1", false), ("shop", false)]
    {
        let token = token(signed, "1900003600", "RootManageSharedAccessKey", DEFAULT_KEY);
        assert_eq!(access.token(&token, &of(""), MADE_AT).is_ok(), is_for_all, "{signed}");
        assert_eq!(access.token(&token, &of("another"), MADE_AT).is_ok(), is_for_all, "{signed}");
        let name = signed.replace("%3A", ":");
        assert_eq!(peeklock_engine::reads_like_a_host(&name), is_for_all, "then it is the name of no entity");
    }
}

#[test]
fn a_signature_by_the_namespace_is_for_its_resource_and_everything_below() {
    let (access, _) = access();
    let token = token("sb%3A%2F%2Fh%2Forders", "1900003600", "RootManageSharedAccessKey", DEFAULT_KEY);
    assert!(access.token(&token, &of("orders/subscriptions/eu"), MADE_AT).is_ok());
    assert!(access.token(&token, &of("orders/new"), MADE_AT).is_ok(), "as on Service Bus");
    for other in ["", "invoices", "orders2"] {
        assert_eq!(access.token(&token, &of(other), MADE_AT), Err(Denied::Audience), "{other}");
    }
}

#[test]
fn rules_of_the_same_name_are_distinguished_by_their_keys() {
    let (access, _) = access();
    let rights = |key: &str| {
        let token = token("sb%3A%2F%2Fh%2Finvoices", "1900003600", "RootManageSharedAccessKey", key);
        access.token(&token, &of("invoices"), MADE_AT).map(|grant| grant.permissions[0].rights)
    };
    assert_eq!(rights("own"), Ok(LISTEN));
    assert_eq!(rights(DEFAULT_KEY), Ok(Rights::ALL));
}

#[test]
fn passwords_are_the_keys_of_namespace_rules() {
    let (access, _) = access();
    let second = Policy { rules: vec![rule("app", SEND, "a+b/c=", "s%c")], ..Policy::default() };
    access.replace(second);
    for key in ["a+b/c=", "a%2Bb%2fc%3D", "s%c"] {
        let grant = access.password("app", key).unwrap();
        assert_eq!(
            (grant.permissions[0].scope.path(), grant.permissions[0].rights, grant.expires_at),
            ("", SEND, None)
        );
    }
    assert_eq!(access.password(DEFAULT_RULE_NAME, DEFAULT_KEY), Err(Denied::Signature));
}

#[test]
fn grants_stand_as_long_as_their_key_and_rights() {
    let (access, entities) = access();
    let changes = access.changes();
    let grant = access.token(GOLDEN_ENTITY[0], &of("orders/subscriptions/eu"), MADE_AT).unwrap();
    let root = access.password(DEFAULT_RULE_NAME, DEFAULT_KEY).unwrap();
    assert!(access.is_still_valid(&grant) && access.is_still_valid(&root));
    entities.set("orders", vec![rule("sender", Rights::ALL, SENDER_KEY, "")]);
    assert!(access.is_still_valid(&grant), "more rights, and the key moved");
    entities.set("orders", vec![rule("sender", LISTEN, SENDER_KEY, "")]);
    assert!(!access.is_still_valid(&grant), "the right is gone");
    entities.set("orders", vec![rule("sender", SEND, "new", "newer")]);
    assert!(!access.is_still_valid(&grant), "the key is gone");
    entities.set("orders", Vec::new());
    assert!(!access.is_still_valid(&grant), "the rule is gone");
    assert!(!changes.has_changed().unwrap());
    access.entities_changed();
    assert!(changes.has_changed().unwrap(), "a rule that was used has changed");
    let mut changes = access.changes();
    changes.mark_unchanged();
    entities.set("invoices", Vec::new());
    access.entities_changed();
    assert!(!changes.has_changed().unwrap(), "no grant depends on that rule");
    access.replace(Policy::default());
    assert!(changes.has_changed().unwrap() && !access.is_still_valid(&root));
    access.replace(Policy { required: false, ..Policy::default() });
    assert!(access.is_still_valid(&root) && access.is_still_valid(&grant), "nothing is asked for");
}

#[test]
fn certificates_have_the_rights_of_their_subject() {
    let (access, _) = access();
    let scope = Resource::entity("orders");
    let certificate = CertificateRule { subject: "CN=shop".into(), rights: SEND, scope };
    access.replace(Policy { certificates: vec![certificate], ..Policy::default() });
    let grant = access.certificate("CN=shop").unwrap();
    assert!(grant.permits(&of("orders"), Right::Send, MADE_AT) && access.is_still_valid(&grant));
    assert!(!grant.permits(&of("invoices"), Right::Send, MADE_AT));
    assert!(!grant.permits(&of("orders/new"), Right::Send, MADE_AT));
    assert_eq!(access.certificate("CN=shopper"), Err(Denied::Signature));
    access.replace(Policy::default());
    assert!(!access.is_still_valid(&grant));
}

#[test]
fn without_requirement_everything_is_granted() {
    let access = Access::open();
    assert!(access.token("nonsense", &of("q"), MADE_AT).is_ok());
    assert!(access.password("anybody", "").is_ok() && access.certificate("CN=anybody").is_ok());
}

#[test]
fn keys_are_not_shown() {
    let (access, _) = access();
    let grant = access.password(DEFAULT_RULE_NAME, DEFAULT_KEY).unwrap();
    assert!(!format!("{grant:?}{:?}", Policy::development()).contains(DEFAULT_KEY));
}
