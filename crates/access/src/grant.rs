//! Grants: the rights of an authenticated peer.

use peeklock_engine::{Right, Rights, Secret, Timestamp};

use crate::jwt::JsonWebBasis;
use crate::{Resource, Scope};

/// Rights within scopes, for a limited time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// At least one; several if a token's roles are for several entities.
    pub permissions: Box<[Permission]>,
    /// Expiry; `None` for as long as the rule exists unchanged.
    pub expires_at: Option<Timestamp>,
    /// The principal, for logs: the rule's name or the token's subject.
    pub principal: Box<str>,
    /// The credential on which the grant is based.
    pub(crate) basis: Basis,
}

/// Rights within a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// The resources to which the rights apply.
    pub scope: Scope,
    /// The rights.
    pub rights: Rights,
}

/// The kind of credential presented for a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownCredential {
    /// None: authorization is off.
    None,
    /// A key of a shared access rule, or a signature made with one.
    Key,
    /// A client certificate.
    Certificate,
    /// A JSON web token.
    JsonWebToken,
}

/// The basis of a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Basis {
    /// No credential is required.
    Open,
    /// A key of a shared access rule of the entity at `level`, or of the namespace.
    Rule { level: Resource, name: Box<str>, key: Secret },
    /// A client certificate of this subject.
    Certificate { subject: Box<str> },
    /// Roles of a JSON web token.
    JsonWeb(Box<JsonWebBasis>),
}

impl Grant {
    /// All rights on everything below a path, without expiry.
    pub(crate) fn everything(prefix: Resource) -> Self {
        let permissions = Box::new([Permission { scope: Scope::Prefix(prefix), rights: Rights::ALL }]);
        Self { permissions, expires_at: None, principal: "anybody".into(), basis: Basis::Open }
    }

    /// Whether it allows the right on the resource at `now`.
    #[must_use]
    pub fn permits(&self, resource: &Resource, right: Right, now: Timestamp) -> bool {
        let allows = |one: &Permission| one.scope.covers(resource) && one.rights.allow(right);
        !self.is_expired(now) && self.permissions.iter().any(allows)
    }

    /// Whether it is unexpired and applies to the resource.
    #[must_use]
    pub fn is_valid(&self, resource: &Resource, now: Timestamp) -> bool {
        !self.is_expired(now) && self.permissions.iter().any(|one| one.scope.covers(resource))
    }

    /// The kind of credential presented for it.
    #[must_use]
    pub fn shown(&self) -> ShownCredential {
        match self.basis {
            Basis::Open => ShownCredential::None,
            Basis::Rule { .. } => ShownCredential::Key,
            Basis::Certificate { .. } => ShownCredential::Certificate,
            Basis::JsonWeb(_) => ShownCredential::JsonWebToken,
        }
    }

    /// The credential as one holder of shared resources: the place of its rule and the principal. Rules of different
    /// entities may have the same name. `None` where no credential is required.
    #[must_use]
    pub fn holder(&self) -> Option<(Resource, Box<str>)> {
        let level = match &self.basis {
            Basis::Open => return None,
            Basis::Rule { level, .. } => level.clone(),
            Basis::Certificate { .. } | Basis::JsonWeb(_) => Resource::namespace(),
        };
        Some((level, self.principal.clone()))
    }

    /// Whether it has expired.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}
