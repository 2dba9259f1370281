//! JSON web tokens (RFC 7519), signed by an OpenID issuer or with keys from a file. Follows RFC 8725: only signatures
//! by public keys are accepted, each key only for matching algorithms, and every claim that is evaluated must be
//! present.
//!
//! The crate `jsonwebtoken` (10.4.0) was considered and not used, because most of this code would still be needed:
//! - It reads the machine's clock, so `exp` and `nbf` would have to be checked here anyway, by the clock of [`Access`].
//! - An `iss` or `aud` of the wrong type counts as missing unless it is also listed as required; `crit` is parsed and
//!   not checked; `nbf` is checked only on request.
//! - It rejects a whole set if one key is of an unknown kind; RFC 7517 §5 requires that such a key be ignored.
//! - Its providers of cryptography are `aws-lc-rs` and the RustCrypto crates, each in addition to `ring`, which TLS
//!   needs; a provider on `ring` would consist of the verification code of `key_set.rs` and two more traits.
//!
//! [`Access`]: crate::Access

mod claims;
mod key_set;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use peeklock_engine::{Rights, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::grant::{Basis, Permission};
use crate::{Denied, Grant, Resource};
use claims::Claims;
pub use key_set::{KeySet, KeySetError};

/// Tolerated difference between the clocks of issuers and of this machine.
const LEEWAY_MS: u64 = 60_000;

/// Requirements for JSON web tokens, and the rights of their roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonWebPolicy {
    /// The required `iss`; `None` if only the keys matter, which must be fixed then.
    pub issuer: Option<Box<str>>,
    /// Keys from a file; `None` for the issuer's keys, which [`crate::Access::set_issuer_keys`] sets.
    pub keys: Option<Arc<KeySet>>,
    /// The audience that `aud` must equal or contain.
    pub audience: Box<str>,
    /// The claim with the roles: a list, or a string of words.
    pub roles_claim: Box<str>,
    /// The rights of roles.
    pub roles: Vec<RoleRule>,
}

/// The rights of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRule {
    /// The role's name in tokens.
    pub role: Box<str>,
    /// The rights.
    pub rights: Rights,
    /// The resource on which they are granted.
    pub scope: Resource,
}

impl JsonWebPolicy {
    /// The issuer whose keys must be fetched.
    pub(crate) fn asked(&self) -> Option<&str> {
        self.issuer.as_deref().filter(|_| self.keys.is_none())
    }

    /// The permissions of the token's roles on the resource, on a part of it or on a resource that contains it.
    fn permissions(&self, claims: &Claims, resource: &Resource) -> Box<[Permission]> {
        let concerns = |rule: &&RoleRule| rule.scope.contains(resource) || resource.contains(&rule.scope);
        let roles = self.roles.iter().filter(|rule| claims.has_role(&self.roles_claim, &rule.role));
        let permission =
            |rule: &RoleRule| Permission { scope: rule.scope.clone().into(), rights: rule.rights };
        roles.filter(concerns).map(permission).collect()
    }

    /// Whether the policy still grants all these permissions to the roles.
    pub(crate) fn gives(&self, basis: &JsonWebBasis, permissions: &[Permission]) -> bool {
        basis.issuer == self.issuer
            && basis.audience == self.audience
            && basis.roles_claim == self.roles_claim
            && permissions.iter().all(|permission| {
                self.roles.iter().any(|rule| {
                    permission.scope.is_within(&rule.scope)
                        && basis.roles.contains(&rule.role)
                        && crate::rights::include(rule.rights, permission.rights)
                })
            })
    }
}

/// The basis of a token's grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonWebBasis {
    issuer: Option<Box<str>>,
    audience: Box<str>,
    roles_claim: Box<str>,
    /// The token's roles that the policy contained.
    roles: Box<[Box<str>]>,
    /// The key that made the signature.
    pub(crate) key: key_set::Thumbprint,
}

/// The header of a token. Any `crit` extension is unsupported.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde::de::IgnoredAny>,
}

/// Verifies a token with three parts.
///
/// # Errors
/// [`Denied`]; [`Denied::UnknownKey`] when no key has the token's key id.
pub(crate) fn verify(
    policy: &JsonWebPolicy,
    keys: &KeySet,
    token: &str,
    resource: &Resource,
    now: Timestamp,
) -> Result<Grant, Denied> {
    let (signed, signature) = token.rsplit_once('.').ok_or(Denied::Malformed("it has no signature"))?;
    let (header, claims) = signed.split_once('.').ok_or(Denied::Malformed("it has no claims"))?;
    let header: Header = part(header, "its header is not a JSON object with alg in base64url")?;
    if header.crit.is_some() {
        return Err(Denied::Malformed(
            "its header requires an extension (crit), and the broker supports none",
        ));
    }
    let signature = bytes(signature).ok_or(Denied::Malformed("its signature is not base64url"))?;
    let key = keys.verify(&header.alg, header.kid.as_deref(), signed.as_bytes(), &signature)?;
    let claims = Claims::new(part(claims, "its claims are not a JSON object in base64url")?);
    let expires_at = claims.check(policy, now)?;
    let permissions = policy.permissions(&claims, resource);
    if permissions.is_empty() {
        return Err(Denied::Role);
    }
    let known = policy.roles.iter().map(|rule| rule.role.clone());
    let roles = known.filter(|role| claims.has_role(&policy.roles_claim, role)).collect();
    let basis = JsonWebBasis {
        issuer: policy.issuer.clone(),
        audience: policy.audience.clone(),
        roles_claim: policy.roles_claim.clone(),
        roles,
        key,
    };
    let (expires_at, principal) = (Some(expires_at), claims.principal());
    Ok(Grant { permissions, expires_at, principal, basis: Basis::JsonWeb(Box::new(basis)) })
}

fn bytes(part: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(part).ok()
}

fn part<T: DeserializeOwned>(part: &str, broken: &'static str) -> Result<T, Denied> {
    let bytes = bytes(part).ok_or(Denied::Malformed(broken))?;
    serde_json::from_slice(&bytes).map_err(|_| Denied::Malformed(broken))
}

/// See [`crate::exercise::json_web_token`].
pub(crate) fn exercise(bytes: &[u8]) {
    let role = RoleRule { role: "role".into(), rights: Rights::ALL, scope: Resource::namespace() };
    let policy = JsonWebPolicy {
        issuer: Some("https://issuer".into()),
        keys: None,
        audience: "broker".into(),
        roles_claim: "roles".into(),
        roles: vec![role],
    };
    let (now, resource) = (Timestamp(1_900_000_000_000), Resource::namespace());
    let keys = KeySet::parse(bytes).unwrap_or_default();
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    if let Ok(token) = std::str::from_utf8(bytes) {
        let _ = verify(&policy, &keys, token, &resource, now);
    }
    let _ = verify(&policy, &keys, &format!("{encoded}.{encoded}.{encoded}"), &resource, now);
    if let Ok(claims) = part(&encoded, "") {
        let claims = Claims::new(claims);
        let _ = (claims.check(&policy, now), claims.principal(), policy.permissions(&claims, &resource));
    }
}
