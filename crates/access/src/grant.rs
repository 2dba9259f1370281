//! What somebody may do.

use peeklock_engine::{Right, Rights, Secret, Timestamp};

use crate::jwt::JsonWebBasis;
use crate::{Resource, Scope};

/// Rights within scopes, for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// At least one; several if roles of a token are for several entities.
    pub permissions: Box<[Permission]>,
    /// Until when; `None` for as long as the rule stands.
    pub expires_at: Option<Timestamp>,
    /// Who, for logs: the rule's name, the token's subject.
    pub principal: Box<str>,
    /// Why.
    pub(crate) basis: Basis,
}

/// Rights within a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// On what.
    pub scope: Scope,
    /// Which.
    pub rights: Rights,
}

/// What somebody has shown to get a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownCredential {
    /// Nothing: authorization is off.
    None,
    /// A key of a shared access rule, or what was signed with it.
    Key,
    /// A client certificate.
    Certificate,
    /// A JSON web token.
    JsonWebToken,
}

/// What a grant rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Nothing has to be shown.
    Open,
    /// A key of a shared access rule of the entity at `level`, or of the namespace.
    Rule { level: Resource, name: Box<str>, key: Secret },
    /// A client certificate of this subject.
    Certificate { subject: Box<str> },
    /// Roles of a JSON web token.
    JsonWeb(Box<JsonWebBasis>),
}

impl Grant {
    /// Everything below a path, without end.
    pub(crate) fn everything(prefix: Resource) -> Self {
        let permissions = Box::new([Permission { scope: Scope::Prefix(prefix), rights: Rights::ALL }]);
        Self { permissions, expires_at: None, principal: "anybody".into(), basis: Basis::Open }
    }

    /// Whether it allows this now.
    #[must_use]
    pub fn permits(&self, resource: &Resource, right: Right, now: Timestamp) -> bool {
        let allows = |one: &Permission| one.scope.covers(resource) && one.rights.allow(right);
        !self.is_expired(now) && self.permissions.iter().any(allows)
    }

    /// Whether it says anything about the resource now.
    #[must_use]
    pub fn is_valid(&self, resource: &Resource, now: Timestamp) -> bool {
        !self.is_expired(now) && self.permissions.iter().any(|one| one.scope.covers(resource))
    }

    /// What was shown to get it.
    #[must_use]
    pub fn shown(&self) -> ShownCredential {
        match self.basis {
            Basis::Open => ShownCredential::None,
            Basis::Rule { .. } => ShownCredential::Key,
            Basis::Certificate { .. } => ShownCredential::Certificate,
            Basis::JsonWeb(_) => ShownCredential::JsonWebToken,
        }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}
