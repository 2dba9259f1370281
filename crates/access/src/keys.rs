//! Verification against keys, in a time that reveals nothing about them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use peeklock_engine::{AuthorizationRule, Secret};
use percent_encoding::percent_decode_str;
use ring::hmac;

/// Accepts missing padding, which is often lost when tokens are copied.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Used in place of a key when the rule does not exist, so that the check takes the same time.
const DUMMY_KEY: &str = "a dummy key that no client has";

/// Evidence of the knowledge of a key.
pub(crate) trait Proof {
    /// Whether it was made with this key.
    fn is_of(&self, key: &str) -> bool;
}

/// The signed text of a shared access signature, and the signature.
pub(crate) struct Signed {
    text: String,
    signature: Vec<u8>,
}

impl Signed {
    /// Takes the fields as they are in the token; a signature that is not valid base64 matches no key.
    pub(crate) fn new(resource_encoded: &str, expiry: &str, signature: &str) -> Self {
        let text = format!("{resource_encoded}\n{expiry}");
        Self { text, signature: BASE64.decode(signature).unwrap_or_default() }
    }
}

impl Proof for Signed {
    /// The key is the UTF-8 bytes of the key's text, which is not decoded from base64 although it looks like base64.
    fn is_of(&self, key: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        hmac::verify(&key, self.text.as_bytes(), &self.signature).is_ok()
    }
}

/// A key sent in the clear, as received and percent-decoded: clients given a URL with a password encode it, and some
/// send it encoded.
pub(crate) struct PlainKey<'k> {
    plain: &'k str,
    decoded: Option<String>,
}

impl<'k> PlainKey<'k> {
    pub(crate) fn new(plain: &'k str) -> Self {
        let decoded = plain.contains('%').then(|| percent_decode_str(plain).decode_utf8().ok());
        Self { plain, decoded: decoded.flatten().map(String::from) }
    }
}

impl Proof for PlainKey<'_> {
    fn is_of(&self, key: &str) -> bool {
        let plain = is_same_secret(key, self.plain);
        let decoded = self.decoded.as_deref().is_some_and(|decoded| is_same_secret(key, decoded));
        plain | decoded
    }
}

/// Whether a text equals a secret. Compares tags of both, so that the time does not depend on where they differ.
#[must_use]
pub fn is_same_secret(secret: &str, shown: &str) -> bool {
    let tagging = hmac::Key::new(hmac::HMAC_SHA256, b"peeklock compares keys");
    let expected = hmac::sign(&tagging, secret.as_bytes());
    hmac::verify(&tagging, shown.as_bytes(), expected.as_ref()).is_ok()
}

/// The key of a rule that matches; both are always tried.
pub(crate) fn key_of<'r>(rule: &'r AuthorizationRule, proof: &impl Proof) -> Option<&'r Secret> {
    let check = |key: &Secret| proof.is_of(if key.expose().is_empty() { DUMMY_KEY } else { key.expose() });
    let [primary, secondary] = [&rule.primary_key, &rule.secondary_key].map(|key| (key, check(key)));
    [primary, secondary]
        .into_iter()
        .find_map(|(key, matches)| (matches && !key.expose().is_empty()).then_some(key))
}

/// Takes as long as [`key_of`].
pub(crate) fn check_dummy_key(proof: &impl Proof) {
    let matches = [DUMMY_KEY, DUMMY_KEY].map(|key| proof.is_of(std::hint::black_box(key)));
    std::hint::black_box(matches);
}
