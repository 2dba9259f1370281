//! JSON web tokens (RFC 7519) of an OpenID issuer or of whoever holds the keys of a file. Read as RFC 8725 advises: only
//! signatures by public keys, each key for the algorithms that fit it, and every claim that counts must be there.
//!
//! The crate `jsonwebtoken` (10.4.0) was weighed for this and left out, because most of these lines would stay:
//! - It reads the machine's clock itself, so `exp` and `nbf` would be checked here all the same, by the clock of [`Access`].
//! - An `iss` or `aud` of the wrong type passes as a missing one unless it is also listed as required; `crit` is read and
//!   not looked at; `nbf` is not checked unless it is asked to.
//! - A set with one key of a kind that it does not know is no set to it; RFC 7517 §5 wants such a key left out.
//! - Its providers of cryptography are `aws-lc-rs` and the RustCrypto crates, each a second one beside `ring`, which TLS
//!   brings; a provider on `ring` would be the lines in `key_set.rs` that verify, behind two traits more.
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

/// Clocks of issuers and of this machine may differ by so much.
const LEEWAY_MS: u64 = 60_000;

/// Whose JSON web tokens are accepted, and what they allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonWebPolicy {
    /// What `iss` must be; `None` if only the keys matter, which must be fixed then.
    pub issuer: Option<Box<str>>,
    /// Keys from a file; `None` for those of the issuer, which [`crate::Access::set_issuer_keys`] hands over.
    pub keys: Option<Arc<KeySet>>,
    /// What `aud` must be or contain.
    pub audience: Box<str>,
    /// The claim that names roles: a list, or a text of words.
    pub roles_claim: Box<str>,
    /// What roles allow.
    pub roles: Vec<RoleRule>,
}

/// What a role allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRule {
    /// The role's name, as tokens have it.
    pub role: Box<str>,
    /// What its owner may do.
    pub rights: Rights,
    /// On what.
    pub scope: Resource,
}

impl JsonWebPolicy {
    /// Who has to be asked for keys.
    pub(crate) fn asked(&self) -> Option<&str> {
        self.issuer.as_deref().filter(|_| self.keys.is_none())
    }

    /// What the roles of a token allow on the resource, on a part of it or on what it is a part of.
    fn permissions(&self, claims: &Claims, resource: &Resource) -> Box<[Permission]> {
        let concerns = |rule: &&RoleRule| rule.scope.contains(resource) || resource.contains(&rule.scope);
        let roles = self.roles.iter().filter(|rule| claims.has_role(&self.roles_claim, &rule.role));
        let permission =
            |rule: &RoleRule| Permission { scope: rule.scope.clone().into(), rights: rule.rights };
        roles.filter(concerns).map(permission).collect()
    }

    /// Whether every one of these permissions is still given to the roles.
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

/// What a token's grant rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonWebBasis {
    issuer: Option<Box<str>>,
    audience: Box<str>,
    roles_claim: Box<str>,
    /// Of those that the policy knew.
    roles: Box<[Box<str>]>,
    /// The key that it was signed with.
    pub(crate) key: key_set::Thumbprint,
}

/// The header of a token. What must be understood is not.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde::de::IgnoredAny>,
}

/// Verifies a token of the right shape.
///
/// # Errors
/// [`Denied`]; [`Denied::UnknownKey`] when no key has the id that it names.
pub(crate) fn verify(
    policy: &JsonWebPolicy,
    keys: &KeySet,
    token: &str,
    resource: &Resource,
    now: Timestamp,
) -> Result<Grant, Denied> {
    let (signed, signature) = token.rsplit_once('.').ok_or(Denied::Malformed("it has no signature"))?;
    let (header, claims) = signed.split_once('.').ok_or(Denied::Malformed("it has no claims"))?;
    let header: Header = part(header, "its header is no JSON object with alg, in base64url")?;
    if header.crit.is_some() {
        return Err(Denied::Malformed("its header demands an extension (crit), and none is known"));
    }
    let signature = bytes(signature).ok_or(Denied::Malformed("its signature is not base64url"))?;
    let key = keys.verify(&header.alg, header.kid.as_deref(), signed.as_bytes(), &signature)?;
    let claims = Claims::new(part(claims, "its claims are no JSON object in base64url")?);
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
