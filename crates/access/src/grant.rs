//! What somebody may do.

use peeklock_engine::{Right, Rights, Timestamp};

use crate::Resource;

/// Rights on a resource and all below it, for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// On what.
    pub scope: Resource,
    /// Which.
    pub rights: Rights,
    /// Until when; `None` for as long as the rule stands.
    pub expires_at: Option<Timestamp>,
    /// Who, for logs: the rule's name, the token's subject.
    pub principal: Box<str>,
}

impl Grant {
    /// Everything on a resource, without end.
    pub(crate) fn everything(scope: Resource) -> Self {
        Self { scope, rights: Rights::ALL, expires_at: None, principal: "anybody".into() }
    }

    /// Whether it allows this now.
    #[must_use]
    pub fn permits(&self, resource: &Resource, right: Right, now: Timestamp) -> bool {
        self.scope.covers(resource) && self.rights.allow(right) && self.expires_at.is_none_or(|at| now < at)
    }
}
