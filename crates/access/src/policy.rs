//! An operator's policy for authorization.

use peeklock_engine::{AuthorizationRule, Rights, Secret, Timestamp};

use crate::{JsonWebPolicy, Resource};

/// The rule that the Service Bus emulator and every new namespace have.
pub const DEFAULT_RULE_NAME: &str = "RootManageSharedAccessKey";
/// The key in the documentation of the Service Bus emulator; it is public.
pub const DEFAULT_KEY: &str = "SAS_KEY_VALUE";

/// The credentials that the broker accepts in addition to the rules of entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether credentials are required at all.
    pub required: bool,
    /// The namespace's shared access rules.
    pub rules: Vec<AuthorizationRule>,
    /// The rights of client certificates.
    pub certificates: Vec<CertificateRule>,
    /// The requirements and rights of JSON web tokens; `None` refuses all.
    pub json_web: Option<JsonWebPolicy>,
}

/// The rights of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRule {
    /// The certificate's subject, in the form passed to [`crate::Access::certificate`].
    pub subject: Box<str>,
    /// The rights.
    pub rights: Rights,
    /// The resource on which they are granted.
    pub scope: Resource,
}

impl Default for Policy {
    /// Requires authentication and accepts no credential.
    fn default() -> Self {
        Self { required: true, rules: Vec::new(), certificates: Vec::new(), json_web: None }
    }
}

impl Policy {
    /// For development: the emulator's rule with its public key.
    #[must_use]
    pub fn development() -> Self {
        Self { rules: vec![default_rule()], ..Self::default() }
    }
}

/// The emulator's rule.
#[must_use]
pub fn default_rule() -> AuthorizationRule {
    AuthorizationRule {
        name: DEFAULT_RULE_NAME.into(),
        rights: Rights::ALL,
        primary_key: Secret::new(DEFAULT_KEY),
        secondary_key: Secret::new(""),
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    }
}
