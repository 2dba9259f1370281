//! The claims of a token with a verified signature.

use peeklock_engine::Timestamp;
use serde_json::{Map, Value};

use super::{JsonWebPolicy, LEEWAY_MS};
use crate::Denied;

/// Most characters of a principal, which is written to logs.
const PRINCIPAL_CHARS_MAX: usize = 128;

/// The claims.
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    pub(super) fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// Checks issuer, audience and times; returns the expiry, leeway included. A claim of the wrong type is an error
    /// and does not count as missing.
    pub(super) fn check(&self, policy: &JsonWebPolicy, now: Timestamp) -> Result<Timestamp, Denied> {
        if let Some(issuer) = &policy.issuer
            && self.0.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(Denied::Issuer);
        }
        let is_audience = |value: &Value| value.as_str() == Some(&policy.audience);
        let for_us = match self.0.get("aud") {
            Some(Value::Array(audiences)) => audiences.iter().any(is_audience),
            Some(audience) => is_audience(audience),
            None => false,
        };
        if !for_us {
            return Err(Denied::Audience);
        }
        let expires_at_ms =
            self.instant_ms("exp")?.ok_or(Denied::Malformed("it has no expiry time (exp)"))?;
        let expires_at = Timestamp(expires_at_ms.saturating_add(LEEWAY_MS));
        if expires_at <= now {
            return Err(Denied::Expired(Timestamp(expires_at_ms)));
        }
        match self.instant_ms("nbf")? {
            Some(begin_ms) if begin_ms > now.0.saturating_add(LEEWAY_MS) => Err(Denied::NotYet),
            _ => Ok(expires_at),
        }
    }

    /// RFC 7519 §2, NumericDate: seconds since 1970, with a fraction or without; in milliseconds.
    fn instant_ms(&self, claim: &str) -> Result<Option<u64>, Denied> {
        let Some(value) = self.0.get(claim) else { return Ok(None) };
        let fits = |seconds: &f64| (0.0..1e15).contains(seconds);
        let seconds = value
            .as_f64()
            .filter(fits)
            .ok_or(Denied::Malformed("exp or nbf is not a number of seconds since 1970"))?;
        // Within the range checked above, only the fraction of a millisecond is lost.
        Ok(Some((seconds * 1000.0) as u64))
    }

    /// Whether the claim contains the role, in a list or as one of several words (`scp`).
    pub(super) fn has_role(&self, claim: &str, role: &str) -> bool {
        match self.0.get(claim) {
            Some(Value::Array(roles)) => roles.iter().any(|one| one.as_str() == Some(role)),
            Some(Value::String(words)) => words.split_ascii_whitespace().any(|word| word == role),
            _ => false,
        }
    }

    /// The principal, for logs: the subject, or the application (`appid` and `azp` of Entra's two versions).
    pub(super) fn principal(&self) -> Box<str> {
        let claims = ["sub", "appid", "azp"].into_iter().filter_map(|claim| self.0.get(claim)?.as_str());
        let who = claims.map(str::trim).find(|who| !who.is_empty()).unwrap_or("a token without subject");
        let shown = who.chars().filter(|char| !char.is_control()).take(PRINCIPAL_CHARS_MAX);
        shown.collect::<String>().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_S: u64 = 1_900_000_000;

    fn check(claim: &str, value: &Value) -> Result<Timestamp, Denied> {
        let policy = JsonWebPolicy {
            issuer: Some("https://issuer".into()),
            keys: None,
            audience: "broker".into(),
            roles_claim: "roles".into(),
            roles: Vec::new(),
        };
        let mut claims = json!({ "iss": "https://issuer", "aud": "broker", "exp": NOW_S + 60, "nbf": NOW_S });
        let claims = claims.as_object_mut().unwrap();
        claims.insert(claim.into(), value.clone());
        Claims::new(std::mem::take(claims)).check(&policy, Timestamp(NOW_S * 1000))
    }

    #[test]
    fn a_claim_of_the_wrong_type_is_never_taken_for_a_missing_one() {
        let mistyped = [
            json!(null),
            json!(true),
            json!("1900000000"),
            json!([NOW_S]),
            json!({ "at": NOW_S }),
            json!(-1),
            json!(1e300),
        ];
        for value in &mistyped {
            for claim in ["exp", "nbf"] {
                assert!(matches!(check(claim, value), Err(Denied::Malformed(_))), "{claim} {value}");
            }
            assert_eq!(check("iss", value), Err(Denied::Issuer), "{value}");
            assert_eq!(check("aud", value), Err(Denied::Audience), "{value}");
        }
        assert_eq!(check("iss", &json!(["https://issuer"])), Err(Denied::Issuer));
        assert!(check("aud", &json!([5, null, "broker"])).is_ok(), "one of them is this broker");
        assert_eq!(check("nbf", &json!(NOW_S + 61)), Err(Denied::NotYet), "by the clock that was given");
    }
}
