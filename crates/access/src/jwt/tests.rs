//! Tokens of every algorithm, made with keys of the test, and invalid tokens of every kind.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use peeklock_engine::runtime::ManualClock;
use peeklock_engine::{EntityOptions, Right};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use ring::{hmac, rsa};
use serde_json::{Value, json};

use super::*;
use crate::{Access, EntityRules, Policy};

const NOW: Timestamp = Timestamp(1_900_000_000_000);
const NOW_S: u64 = NOW.0 / 1000;
const ISSUER: &str = "https://issuer.example/tenant";
const SEND: Rights = Rights { listen: false, send: true, manage: false };
const LISTEN: Rights = Rights { listen: true, send: false, manage: false };

/// For tests only: `openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -outform DER`.
const RSA: &[u8] = include_bytes!("testing-only-rsa-2048.pkcs8.der");

struct NoRules;

impl EntityRules for NoRules {
    fn options(&self, _: &str) -> Option<Arc<EntityOptions>> {
        None
    }
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The keys of an issuer.
struct Signer {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

impl Signer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let ecdsa = |algorithm: &'static signature::EcdsaSigningAlgorithm| {
            let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap()
        };
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(RSA).unwrap(),
            p256: ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ecdsa(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
        }
    }

    /// The keys in the format of issuers, with ids that name the algorithm, and some unusable keys.
    fn published(&self) -> Value {
        let rsa = rsa::PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let point = |key: &[u8]| {
            let (x, y) = key[1..].split_at(key.len() / 2);
            (base64(x), base64(y))
        };
        let (p256, p384) = (point(self.p256.public_key().as_ref()), point(self.p384.public_key().as_ref()));
        json!({ "keys": [
            { "kty": "oct", "kid": "shared", "k": "c2VjcmV0" },
            { "kty": "RSA", "kid": "encrypts", "use": "enc", "n": base64(&rsa.n), "e": base64(&rsa.e) },
            { "kty": "RSA", "kid": "rsa", "use": "sig", "n": base64(&rsa.n), "e": base64(&rsa.e) },
            { "kty": "EC", "kid": "p256", "crv": "P-256", "x": p256.0, "y": p256.1 },
            { "kty": "EC", "kid": "p384", "crv": "P-384", "x": p384.0, "y": p384.1 },
            { "kty": "OKP", "kid": "ed25519", "crv": "Ed25519", "x": base64(self.ed25519.public_key()) },
        ] })
    }

    fn keys(&self) -> KeySet {
        KeySet::parse(self.published().to_string().as_bytes()).unwrap()
    }

    fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let rsa = |encoding: &'static dyn signature::RsaEncoding| {
            let mut tag = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(encoding, &random, text, &mut tag).unwrap();
            tag
        };
        match algorithm {
            "RS256" => rsa(&signature::RSA_PKCS1_SHA256),
            "RS384" => rsa(&signature::RSA_PKCS1_SHA384),
            "RS512" => rsa(&signature::RSA_PKCS1_SHA512),
            "PS256" => rsa(&signature::RSA_PSS_SHA256),
            "PS384" => rsa(&signature::RSA_PSS_SHA384),
            "PS512" => rsa(&signature::RSA_PSS_SHA512),
            "ES256" => self.p256.sign(&random, text).unwrap().as_ref().to_vec(),
            "ES384" => self.p384.sign(&random, text).unwrap().as_ref().to_vec(),
            _ => self.ed25519.sign(text).as_ref().to_vec(),
        }
    }

    fn signed(&self, algorithm: &str, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let tag = self.sign(algorithm, text.as_bytes());
        format!("{text}.{}", base64(tag))
    }

    /// A token of the issuer with these claims.
    fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.signed(algorithm, &json!({ "typ": "JWT", "alg": algorithm, "kid": kid(algorithm) }), claims)
    }
}

fn kid(algorithm: &str) -> &'static str {
    match algorithm {
        "ES256" => "p256",
        "ES384" => "p384",
        "EdDSA" => "ed25519",
        _ => "rsa",
    }
}

/// Valid claims with these changes; `null` removes a claim.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "broker", "sub": "shop", "roles": ["sender"],
        "exp": NOW_S + 3600, "nbf": NOW_S, "iat": NOW_S,
    });
    let Value::Object(changes) = changes else { panic!("an object") };
    for (claim, value) in changes {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(&claim)
        } else {
            claims.as_object_mut().unwrap().insert(claim, value)
        };
    }
    claims
}

fn policy() -> JsonWebPolicy {
    let role =
        |role: &str, rights, path| RoleRule { role: role.into(), rights, scope: Resource::entity(path) };
    JsonWebPolicy {
        issuer: Some(ISSUER.into()),
        keys: None,
        audience: "broker".into(),
        roles_claim: "roles".into(),
        roles: vec![
            role("sender", SEND, ""),
            role("clerk", LISTEN, "orders"),
            role("clerk", SEND, "invoices"),
            role("admin", Rights::ALL, ""),
        ],
    }
}

fn access_to(policy: JsonWebPolicy) -> Access {
    let policy = Policy { json_web: Some(policy), ..Policy::default() };
    Access::new(policy, Arc::new(NoRules), Arc::new(ManualClock::new(NOW)))
}

/// An `Access` with the keys of a signer.
fn access() -> (Access, Signer) {
    let (access, signer) = (access_to(policy()), Signer::new());
    access.set_issuer_keys(ISSUER, signer.keys());
    (access, signer)
}

fn shown(access: &Access, token: &str) -> Result<Grant, Denied> {
    access.token(token, &Resource::entity("orders"), NOW)
}

#[test]
fn each_algorithm_passes_with_its_key_only() {
    let (access, signer) = access();
    for algorithm in ALGORITHMS {
        for token in [
            signer.token(algorithm, &claims(json!({}))),
            signer.signed(algorithm, &json!({"alg": algorithm}), &claims(json!({}))),
        ] {
            let grant = shown(&access, &format!("Bearer {token}"))
                .unwrap_or_else(|error| panic!("{algorithm}: {error}"));
            assert_eq!((&*grant.principal, grant.expires_at), ("shop", Some(Timestamp(NOW.0 + 3_660_000))));
            assert!(grant.permits(&Resource::entity("orders"), Right::Send, NOW));
            assert!(!grant.permits(&Resource::entity("orders"), Right::Listen, NOW));
        }
        for other in ALGORITHMS.into_iter().filter(|other| *other != algorithm) {
            let header = json!({ "alg": other, "kid": kid(algorithm) });
            let token = signer.signed(algorithm, &header, &claims(json!({})));
            assert_eq!(shown(&access, &token), Err(Denied::Signature), "{algorithm} as {other}");
        }
        let stranger = Signer { rsa: RsaKeyPair::from_pkcs8(RSA).unwrap(), ..Signer::new() };
        let token = stranger.token(algorithm, &claims(json!({})));
        let expected = if kid(algorithm) == "rsa" { Ok(()) } else { Err(Denied::Signature) };
        assert_eq!(shown(&access, &token).map(|_| ()), expected, "{algorithm} of another signer");
        let (start, _) = token.rsplit_once('.').unwrap();
        let forged = format!("{start}.{}", base64(vec![7; 256]));
        assert_eq!(shown(&access, &forged), Err(Denied::Signature), "{algorithm} forged");
    }
}

#[test]
fn neither_no_signature_nor_a_shared_secret_is_a_signature() {
    let (access, signer) = access();
    let published = signer.published();
    let secrets =
        [published["keys"][2]["n"].as_str().unwrap().as_bytes().to_vec(), RSA.to_vec(), b"secret".to_vec()];
    for algorithm in ["none", "None", "HS256", "HS384", "HS512", "ES256K", "rs256", ""] {
        for kid in ["rsa", "shared"] {
            let header = base64(json!({ "alg": algorithm, "kid": kid }).to_string());
            let text = format!("{header}.{}", base64(claims(json!({})).to_string()));
            for secret in &secrets {
                let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
                let denied = shown(&access, &format!("{text}.{}", base64(tag))).unwrap_err();
                assert!(matches!(denied, Denied::Malformed(_)), "{algorithm}: {denied}");
            }
            assert!(shown(&access, &format!("{text}.")).is_err(), "{algorithm}");
        }
    }
}

#[test]
fn a_key_that_names_its_algorithm_is_for_no_other() {
    let signer = Signer::new();
    let mut published = signer.published();
    published["keys"][2]["alg"] = "PS256".into();
    let access = access_to(policy());
    access.set_issuer_keys(ISSUER, KeySet::parse(published.to_string().as_bytes()).unwrap());
    assert!(shown(&access, &signer.token("PS256", &claims(json!({})))).is_ok());
    assert_eq!(shown(&access, &signer.token("RS256", &claims(json!({})))), Err(Denied::Signature));
}

#[test]
fn claims_must_be_there_and_right() {
    let (access, signer) = access();
    let cases = [
        (json!({ "exp": null }), "Malformed"),
        (json!({ "exp": "1900003600" }), "Malformed"),
        (json!({ "exp": -1 }), "Malformed"),
        (json!({ "exp": NOW_S - 60 }), "Expired"),
        (json!({ "exp": 0 }), "Expired"),
        (json!({ "nbf": NOW_S + 61 }), "NotYet"),
        (json!({ "nbf": "later" }), "Malformed"),
        (json!({ "aud": "another" }), "Audience"),
        (json!({ "aud": ["another", "Broker"] }), "Audience"),
        (json!({ "aud": null }), "Audience"),
        (json!({ "iss": "https://issuer.example/other" }), "Issuer"),
        (json!({ "iss": [ISSUER] }), "Issuer"),
        (json!({ "iss": null }), "Issuer"),
        (json!({ "roles": null }), "Role"),
        (json!({ "roles": ["Sender"] }), "Role"),
        (json!({ "roles": { "sender": true } }), "Role"),
    ];
    for (changes, expected) in cases {
        let denied = shown(&access, &signer.token("EdDSA", &claims(changes.clone()))).unwrap_err();
        assert!(format!("{denied:?}").starts_with(expected), "{changes}: {denied:?}");
    }
    for changes in [
        json!({ "exp": NOW_S - 59 }),
        json!({ "exp": NOW_S as f64 + 0.5 }),
        json!({ "nbf": NOW_S + 60 }),
        json!({ "nbf": null }),
        json!({ "aud": ["another", "broker"] }),
        json!({ "roles": "reader sender" }),
    ] {
        let token = signer.token("EdDSA", &claims(changes.clone()));
        assert!(shown(&access, &token).is_ok(), "{changes}");
    }
}

#[test]
fn broken_and_huge_tokens_are_refused() {
    let (access, signer) = access();
    let good = signer.token("ES256", &claims(json!({})));
    let critical = json!({ "alg": "ES256", "kid": "p256", "crit": ["b64"], "b64": false });
    let huge = signer.token("ES256", &claims(json!({ "padding": "x".repeat(1_000_000) })));
    let twice = signer.token("ES256", &claims(json!({}))).replacen('.', "..", 1);
    let critical = signer.signed("ES256", &critical, &claims(json!({})));
    let array = signer.token("ES256", &json!(["claims"]));
    for token in [
        huge,
        twice,
        critical,
        array,
        good.replace('.', " "),
        good[..good.len() / 2].to_owned(),
        format!("{good}==="),
        "a.b.c".into(),
    ] {
        let denied = shown(&access, &token).unwrap_err();
        assert!(matches!(denied, Denied::Malformed(_)), "{token:.60}: {denied:?}");
    }
    let (start, tag) = good.rsplit_once('.').unwrap();
    for cut in [1, 40, 85] {
        assert!(shown(&access, &format!("{start}.{}", &tag[..cut])).is_err(), "{cut}");
    }
    let other = base64(claims(json!({ "sub": "owner" })).to_string());
    let (header, _) = start.split_once('.').unwrap();
    assert_eq!(shown(&access, &format!("{header}.{other}.{tag}")), Err(Denied::Signature));
}

#[test]
fn several_roles_are_several_permissions() {
    let (access, signer) = access();
    let token = signer
        .token("ES384", &claims(json!({ "roles": ["clerk", "unknown"], "sub": null, "azp": "app\n7" })));
    let orders = access.token(&token, &Resource::entity("orders"), NOW).unwrap();
    assert_eq!(&*orders.principal, "app7");
    assert!(orders.permits(&Resource::subscription("orders", "x"), Right::Listen, NOW));
    assert!(!orders.permits(&Resource::entity("orders/new"), Right::Listen, NOW));
    assert!(!orders.permits(&Resource::entity("orders"), Right::Send, NOW));
    let whole = access.token(&token, &Resource::namespace(), NOW).unwrap();
    assert_eq!(whole.permissions.len(), 2);
    assert!(whole.permits(&Resource::entity("invoices"), Right::Send, NOW));
    assert!(!whole.is_valid(&Resource::namespace(), NOW));
    assert_eq!(access.token(&token, &Resource::entity("other"), NOW), Err(Denied::Role));
}

#[test]
fn unknown_keys_are_asked_for_and_refused_meanwhile() {
    let (access, signer) = (access_to(policy()), Signer::new());
    assert_eq!(access.issuer().as_deref(), Some(ISSUER));
    let token = signer.token("ES256", &claims(json!({})));
    let missed = |access: &Access| {
        let mut missed = Box::pin(access.keys_missed());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::future::Future::poll(missed.as_mut(), &mut context).is_ready()
    };
    assert!(!missed(&access));
    assert_eq!(shown(&access, &token), Err(Denied::UnknownKey));
    assert!(missed(&access) && !missed(&access));
    access.set_issuer_keys("https://other", signer.keys());
    assert_eq!(shown(&access, &token), Err(Denied::UnknownKey), "another issuer's");
    access.set_issuer_keys(ISSUER, signer.keys());
    assert!(missed(&access));
    let grant = shown(&access, &token).unwrap();
    assert!(access.is_still_valid(&grant) && !missed(&access));
    let changes = access.changes();
    access.set_issuer_keys(ISSUER, Signer::new().keys());
    assert!(changes.has_changed().unwrap() && !access.is_still_valid(&grant), "the key is gone");
    assert_eq!(shown(&access, &token), Err(Denied::Signature), "another key of that id");
}

#[test]
fn grants_are_valid_as_long_as_their_source() {
    let (access, signer) = access();
    let grant = shown(&access, &signer.token("EdDSA", &claims(json!({ "roles": ["clerk"] })))).unwrap();
    let changed = |change: &dyn Fn(&mut JsonWebPolicy)| {
        let mut policy = policy();
        change(&mut policy);
        access.replace(Policy { json_web: Some(policy), ..Policy::default() });
        access.is_still_valid(&grant)
    };
    assert!(changed(&|_| {}));
    assert!(changed(&|policy| policy.roles[1].rights = Rights::ALL));
    assert!(!changed(&|policy| policy.roles[1].rights = SEND));
    assert!(!changed(&|policy| policy.roles[1].scope = Resource::entity("elsewhere")));
    assert!(!changed(&|policy| policy.roles[1].role = "another".into()));
    assert!(!changed(&|policy| policy.audience = "another".into()));
    assert!(!changed(&|policy| policy.issuer = Some("https://another".into())));
    assert!(!changed(&|policy| policy.keys = Some(Arc::new(Signer::new().keys()))));
    assert!(changed(&|policy| policy.keys = Some(Arc::new(signer.keys()))), "the same key, from a file");
    access.replace(Policy::default());
    assert!(!access.is_still_valid(&grant));
}

#[test]
fn fixed_keys_need_no_issuer() {
    let signer = Signer::new();
    let access = access_to(JsonWebPolicy { issuer: None, keys: Some(Arc::new(signer.keys())), ..policy() });
    assert_eq!(access.issuer(), None);
    assert!(shown(&access, &signer.token("EdDSA", &claims(json!({ "iss": "anybody" })))).is_ok());
    let unknown = signer.signed("EdDSA", &json!({ "alg": "EdDSA", "kid": "new" }), &claims(json!({})));
    assert_eq!(shown(&access, &unknown), Err(Denied::Signature));
    assert!(matches!(shown(&access_to(policy()), "a.b.c"), Err(Denied::Malformed(_))));
    let nobody = Access::new(Policy::default(), Arc::new(NoRules), Arc::new(ManualClock::new(NOW)));
    assert_eq!(shown(&nobody, &unknown), Err(Denied::Signature));
}

#[test]
fn key_sets_that_are_of_no_use_say_why() {
    let text = |text: &str| KeySet::parse(text.as_bytes()).unwrap_err();
    assert_eq!(text("{\"keys\":[]}"), KeySetError::Empty);
    assert_eq!(text("{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}, 5]}"), KeySetError::Empty);
    assert!(
        matches!(text("{\"keys\": \"c2VjcmV0\"}"), KeySetError::Malformed(place) if place == "line 1, column 19")
    );
    let many = format!("{{\"keys\":[{}]}}", ["{}"; 65].join(","));
    assert_eq!(text(&many), KeySetError::TooMany);
    assert_eq!(format!("{:?}", Signer::new().keys()), "KeySet(4 keys)");
    assert!(!Signer::new().keys().is_empty());
}
