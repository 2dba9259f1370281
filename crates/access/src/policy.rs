//! What an operator decides about access.

use peeklock_engine::{AuthorizationRule, Rights, Secret, Timestamp};

use crate::{JsonWebPolicy, Resource};

/// The rule that the Service Bus emulator and every new namespace have.
pub const DEFAULT_RULE_NAME: &str = "RootManageSharedAccessKey";
/// The key that the Service Bus emulator's documentation gives; everybody knows it.
pub const DEFAULT_KEY: &str = "SAS_KEY_VALUE";

/// Who is known to the broker beside the rules of entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether anything has to be shown at all.
    pub required: bool,
    /// The namespace's shared access rules.
    pub rules: Vec<AuthorizationRule>,
    /// Whose client certificates allow what.
    pub certificates: Vec<CertificateRule>,
    /// Whose JSON web tokens allow what; `None` refuses all.
    pub json_web: Option<JsonWebPolicy>,
}

/// What a client certificate allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRule {
    /// The certificate's subject, as [`crate::Access::certificate`] is told it.
    pub subject: Box<str>,
    /// What its owner may do.
    pub rights: Rights,
    /// On what.
    pub scope: Resource,
}

impl Default for Policy {
    /// Access is required and nobody has it.
    fn default() -> Self {
        Self { required: true, rules: Vec::new(), certificates: Vec::new(), json_web: None }
    }
}

impl Policy {
    /// For development: the emulator's rule with the key that everybody knows.
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
