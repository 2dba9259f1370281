//! Comparing with keys, in a time that tells nothing about them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use peeklock_engine::{AuthorizationRule, Secret};
use percent_encoding::percent_decode_str;
use ring::hmac;

/// Padding gets lost when people copy tokens.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What rules are compared with when there is none of the name asked for, so that this takes as long.
const NOBODY: &str = "nobody's key, which nothing verifies against";

/// Something that a key was used for.
pub(crate) trait Proof {
    /// Whether it was this key.
    fn is_of(&self, key: &str) -> bool;
}

/// The text under a shared access signature, and the signature.
pub(crate) struct Signed {
    text: String,
    signature: Vec<u8>,
}

impl Signed {
    /// Of the fields as they stand in the token; a signature that is no base64 is nobody's.
    pub(crate) fn new(resource_encoded: &str, expiry: &str, signature: &str) -> Self {
        let text = format!("{resource_encoded}\n{expiry}");
        Self { text, signature: BASE64.decode(signature).unwrap_or_default() }
    }
}

impl Proof for Signed {
    /// The key's text is the key, as UTF-8: it is not decoded from base64, though it looks like it.
    fn is_of(&self, key: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        hmac::verify(&key, self.text.as_bytes(), &self.signature).is_ok()
    }
}

/// A key that was shown, as it came and percent-decoded: clients that are given a URL with a password encode it, and some
/// send it so.
pub(crate) struct PresentedCredential<'k> {
    plain: &'k str,
    decoded: Option<String>,
}

impl<'k> PresentedCredential<'k> {
    pub(crate) fn new(plain: &'k str) -> Self {
        let decoded = plain.contains('%').then(|| percent_decode_str(plain).decode_utf8().ok());
        Self { plain, decoded: decoded.flatten().map(String::from) }
    }
}

impl Proof for PresentedCredential<'_> {
    fn is_of(&self, key: &str) -> bool {
        let plain = is_same_secret(key, self.plain);
        let decoded = self.decoded.as_deref().is_some_and(|decoded| is_same_secret(key, decoded));
        plain | decoded
    }
}

/// Whether a text is a secret. What is compared are tags of both: that takes the same time wherever they differ.
#[must_use]
pub fn is_same_secret(secret: &str, shown: &str) -> bool {
    let tagging = hmac::Key::new(hmac::HMAC_SHA256, b"peeklock compares keys");
    let expected = hmac::sign(&tagging, secret.as_bytes());
    hmac::verify(&tagging, shown.as_bytes(), expected.as_ref()).is_ok()
}

/// Which key of a rule it was; both are tried whatever the first one says.
pub(crate) fn key_of<'r>(rule: &'r AuthorizationRule, proof: &impl Proof) -> Option<&'r Secret> {
    let check = |key: &Secret| proof.is_of(if key.expose().is_empty() { NOBODY } else { key.expose() });
    let [primary, secondary] = [&rule.primary_key, &rule.secondary_key].map(|key| (key, check(key)));
    [primary, secondary]
        .into_iter()
        .find_map(|(key, matches)| (matches && !key.expose().is_empty()).then_some(key))
}

/// As long as [`key_of`] takes.
pub(crate) fn key_of_nobody(proof: &impl Proof) {
    let matches = [NOBODY, NOBODY].map(|key| proof.is_of(std::hint::black_box(key)));
    std::hint::black_box(matches);
}
