//! Shared access rules. The engine stores them; the front ends enforce them.

use std::fmt;

use crate::Timestamp;

/// A right granted by a rule (wire reference §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Receive, browse, settle.
    Listen,
    /// Send, schedule, cancel.
    Send,
    /// Administer; implies the others.
    Manage,
}

/// A set of [`Right`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// See [`Right::Listen`].
    pub listen: bool,
    /// See [`Right::Send`].
    pub send: bool,
    /// See [`Right::Manage`].
    pub manage: bool,
}

impl Rights {
    /// Every right.
    pub const ALL: Self = Self { listen: true, send: true, manage: true };

    /// Whether `right` is granted, directly or by [`Right::Manage`].
    #[must_use]
    pub const fn allow(self, right: Right) -> bool {
        match right {
            Right::Listen => self.listen || self.manage,
            Right::Send => self.send || self.manage,
            Right::Manage => self.manage,
        }
    }
}

/// A key. Its text is the secret itself, without base64 decoding, and never appears in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// A key with this text.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for signing and for administrators.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// A shared access rule of the namespace or of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// Its name, by which tokens refer to it; unique in the namespace or entity.
    pub name: Box<str>,
    /// The rights that its keys grant.
    pub rights: Rights,
    /// One key.
    pub primary_key: Secret,
    /// The other key, so that keys can be changed one after the other.
    pub secondary_key: Secret,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub modified_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manage_implies_the_others() {
        let manage = Rights { manage: true, ..Rights::default() };
        for right in [Right::Listen, Right::Send, Right::Manage] {
            assert!(manage.allow(right) && Rights::ALL.allow(right) && !Rights::default().allow(right));
        }
        let listen = Rights { listen: true, ..Rights::default() };
        assert!(listen.allow(Right::Listen) && !listen.allow(Right::Send) && !listen.allow(Right::Manage));
    }

    #[test]
    fn keys_do_not_show_in_logs() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
