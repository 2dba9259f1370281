//! Shared access signatures.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;

/// The name and key of a shared access rule.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedAccessKey {
    name: String,
    key: String,
}

impl std::fmt::Debug for SharedAccessKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SharedAccessKey({})", self.name)
    }
}

impl SharedAccessKey {
    /// A key of the rule `name`.
    #[must_use]
    pub fn new(name: &str, key: &str) -> Self {
        Self { name: name.to_owned(), key: key.to_owned() }
    }

    /// The name of the rule.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A token that grants the rule's rights on `resource` (`sb://host/entity`) for `lifetime` from now.
    #[must_use]
    pub fn token(&self, resource: &str, lifetime: Duration) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.token_until(resource, now.saturating_add(lifetime).as_secs())
    }

    /// A token that expires at a time in seconds since 1970.
    #[must_use]
    pub fn token_until(&self, resource: &str, expires_at_s: u64) -> String {
        let resource = utf8_percent_encode(resource, NON_ALPHANUMERIC).to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.as_bytes());
        let signature = hmac::sign(&key, format!("{resource}\n{expires_at_s}").as_bytes());
        let signature = STANDARD.encode(signature);
        let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
        let name = utf8_percent_encode(&self.name, NON_ALPHANUMERIC);
        format!("SharedAccessSignature sr={resource}&sig={signature}&se={expires_at_s}&skn={name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's hmac for the key "key".
    #[test]
    fn a_token_signs_the_encoded_resource_and_the_expiry() {
        let token = SharedAccessKey::new("Root Rule", "key").token_until("sb://localhost/q", 1_700_000_000);
        let (start, rest) = token.split_once("&sig=").unwrap();
        assert_eq!(start, "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fq");
        assert!(rest.ends_with("&se=1700000000&skn=Root%20Rule"), "{rest}");
        assert_eq!(rest.split('&').next().unwrap(), EXPECTED);
    }

    const EXPECTED: &str = "IHq8IJK7MX%2Be2fJm92usGVZSmZctPlM7IsgBRfpMFF0%3D";
}
