//! Authorization of everything a connection does.
//!
//! A peer's credentials belong to its connection: its SASL identity, and the tokens it put to `$cbs`, each for a path;
//! each [`Grant`] defines its own scope. Links are checked when they are attached, management requests each time;
//! [`super::revocation`] detaches links whose rights end later.

use std::collections::HashMap;

use peeklock_access::{Access, AddressError, Denied, Grant, ResolvedNode, Resource, ShownCredential};
use peeklock_engine::{Right, Timestamp};
use tokio::sync::watch;

use super::errors::Fault;
use crate::wire::loggable;

/// Maximum number of audiences with a token per connection; tokens for further ones are refused.
pub(crate) const TOKENS_MAX: usize = 10_000;

/// The right that a link or a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A certain right.
    Right(Right),
    /// Any right: the management node checks the right of each operation.
    Any,
}

impl Need {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Right(Right::Send) => "Send",
            Self::Right(Right::Listen) => "Listen",
            Self::Right(Right::Manage) => "Manage",
            Self::Any => "Listen, Send or Manage",
        }
    }
}

/// A verified token and its audience.
pub(crate) struct Verified {
    audience: ResolvedNode,
    path: Box<str>,
    grant: Grant,
}

impl Verified {
    /// The queue or topic that its audience names or lies in.
    pub(crate) fn entity_name(&self) -> Option<&str> {
        self.audience.entity_name()
    }
}

/// The credentials of one connection.
pub(crate) struct Authorization {
    access: Access,
    changes: watch::Receiver<u64>,
    /// From SASL PLAIN or EXTERNAL.
    identity: Option<Grant>,
    /// Keyed by the path of the audience.
    tokens: HashMap<Box<str>, Grant>,
    /// The earliest expiry of a token, including tokens since replaced.
    next_expiry: Option<Timestamp>,
}

impl Authorization {
    /// A connection without credentials.
    #[must_use]
    pub(crate) fn new(access: Access) -> Self {
        let changes = access.changes();
        Self { access, changes, identity: None, tokens: HashMap::new(), next_expiry: None }
    }

    /// The access rules.
    #[must_use]
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Notifies of changed rules.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Sets the peer's SASL identity.
    pub(crate) fn identify(&mut self, grant: Grant) {
        self.identity = Some(grant);
    }

    /// Verifies a token for an audience.
    ///
    /// # Errors
    /// Tokens that grant nothing, invalid audiences, more than [`TOKENS_MAX`].
    pub(crate) fn verify(&self, audience: &str, token: &str) -> Result<Verified, Fault> {
        let (node, resource) = read_audience(audience).map_err(|error| {
            Fault::Argument(format!("The audience '{}' can't be used: {error}.", excerpt(audience)))
        })?;
        let now = self.access.now();
        let grant = self.access.token(token, &resource, now).map_err(|denied| {
            let claimed = Access::claimed_rule(token);
            let identity = claimed.as_deref().map(loggable).map(tracing::field::display);
            let (resource, reason) = (loggable(resource.path()), denied.reason());
            tracing::info!(%resource, identity, reason, "credentials refused");
            Fault::Denied(denied)
        })?;
        if self.tokens.len() >= TOKENS_MAX && !self.tokens.contains_key(resource.path()) {
            return Err(Fault::NotAllowed("A connection holds tokens for at most 10 000 audiences."));
        }
        Ok(Verified { audience: node, path: resource.path().into(), grant })
    }

    /// Keeps a verified token; it replaces one for the same audience, without effect on attached links.
    ///
    /// # Errors
    /// Its key was replaced or its time has passed since it was verified.
    pub(crate) fn keep(&mut self, Verified { path, grant, .. }: Verified) -> Result<(), Fault> {
        self.access.confirm(&grant).map_err(Fault::Denied)?;
        tracing::debug!(resource = &*path, principal = &*grant.principal, "token accepted");
        self.next_expiry = self.next_expiry.into_iter().chain(grant.expires_at).min();
        self.tokens.insert(path, grant);
        Ok(())
    }

    /// Checks whether an operation is permitted; `uri` is the requested address, for the error.
    ///
    /// # Errors
    /// [`Fault::Unauthorized`].
    pub(crate) fn permit(&self, resource: &Resource, need: Need, uri: &str) -> Result<(), Fault> {
        if self.permits(resource, need) {
            return Ok(());
        }
        self.access.count(&Denied::Right { right: need.name() });
        Err(Fault::Unauthorized { right: need.name(), uri: uri.to_owned() })
    }

    /// [`Self::permit`] without an error.
    pub(crate) fn permits(&self, resource: &Resource, need: Need) -> bool {
        if !self.access.is_required() {
            return true;
        }
        let now = self.access.now();
        let allows = |grant: &Grant| match need {
            Need::Right(right) => grant.permits(resource, right, now),
            Need::Any => grant.is_valid(resource, now),
        };
        self.shown(resource).any(allows)
    }

    /// The peer's credentials for a resource, valid or not.
    fn shown(&self, resource: &Resource) -> impl Iterator<Item = &Grant> {
        let tokens = resource.prefixes().chain([""]).filter_map(|path| self.tokens.get(path));
        self.identity.iter().chain(tokens)
    }

    /// The principal of an operation: one with the right, otherwise any known for the resource.
    pub(crate) fn principal(&self, resource: &Resource, right: Right) -> Option<&str> {
        let now = self.access.now();
        let mut permitted = self.shown(resource).filter(|grant| grant.permits(resource, right, now));
        let grant =
            permitted.next().or_else(|| self.shown(resource).find(|grant| grant.is_valid(resource, now)));
        grant.map(|grant| &*grant.principal)
    }

    /// The identities of all credentials that have not expired; one may occur several times.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (ShownCredential, &str)> {
        let now = self.access.now();
        let grants =
            self.identity.iter().chain(self.tokens.values()).filter(move |grant| !grant.is_expired(now));
        grants.map(|grant| (grant.shown(), &*grant.principal))
    }

    /// Whether the peer authenticated by SASL, so that no token is expected.
    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether the peer has presented no valid credential, though it has to.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.identity.is_none() && self.tokens.is_empty() && self.access.is_required()
    }

    /// Drops expired credentials.
    pub(crate) fn expire(&mut self) {
        let now = self.access.now();
        self.tokens.retain(|_, grant| !grant.is_expired(now));
        self.next_expiry = self.tokens.values().filter_map(|grant| grant.expires_at).min();
    }

    /// When [`Self::expire`] is due.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.next_expiry
    }

    /// Drops credentials that rest on changed rules, if any changed since the last call; returns whether any did.
    /// Nearly free if none did.
    pub(crate) fn revoke(&mut self) -> bool {
        if !self.changes.has_changed().unwrap_or(false) {
            return false;
        }
        self.changes.mark_unchanged();
        let access = &self.access;
        self.identity = self.identity.take().filter(|grant| access.is_still_valid(grant));
        self.tokens.retain(|_, grant| access.is_still_valid(grant));
        true
    }
}

/// The node that a token is for, and the resource as authorization sees it.
fn read_audience(audience: &str) -> Result<(ResolvedNode, Resource), AddressError> {
    let node = ResolvedNode::of(audience)?;
    let resource = node.resource().ok_or(AddressError::Empty)?;
    Ok((node, resource))
}

/// At most the first hundred characters, for error texts.
pub(crate) fn excerpt(text: &str) -> &str {
    text.char_indices().nth(100).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_end_on_character_boundaries() {
        assert_eq!(excerpt(&"ä".repeat(300)).chars().count(), 100);
        assert_eq!(excerpt("short"), "short");
    }
}
