//! `[authorization]`: principals and their rights.

use std::ops::RangeInclusive;

use peeklock_access::{CertificateRule, JsonWebPolicy, Policy, Resource, default_rule};
use peeklock_engine::AuthorizationRule;

use super::authorization_rule::{read_all, read_rights};
use super::table::Table;
use super::{ConfigError, ListenAddress, json_web};

const SECOND_MS: u64 = 1_000;
const TIME_OUT_MS: RangeInclusive<u64> = SECOND_MS..=600 * SECOND_MS;

/// Settings of authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorizationConfig {
    /// Whether credentials are required.
    pub(crate) required: bool,
    /// Whether access without credentials is allowed even if other machines can connect.
    pub(crate) allow_anybody: bool,
    /// Whether the publicly known default key is accepted even if other machines can connect.
    pub(crate) allow_default_key: bool,
    /// Whether SASL PLAIN is accepted.
    pub(crate) plain_enabled: bool,
    /// A connection without a valid credential is closed after this time.
    pub(crate) time_out_ms: u64,
    /// The namespace's shared access rules.
    pub(crate) rules: Vec<AuthorizationRule>,
    /// The rights of client certificates.
    pub(crate) certificates: Vec<CertificateRule>,
    /// Issuer, keys and roles of accepted JSON web tokens.
    pub(crate) json_web: Option<JsonWebPolicy>,
}

impl Default for AuthorizationConfig {
    fn default() -> Self {
        Self {
            required: true,
            allow_anybody: false,
            allow_default_key: false,
            plain_enabled: true,
            time_out_ms: 20 * SECOND_MS,
            rules: Vec::new(),
            certificates: Vec::new(),
            json_web: None,
        }
    }
}

impl AuthorizationConfig {
    /// Whether the emulator's rule is in force, because no rule is configured.
    pub(crate) fn has_default_key(&self) -> bool {
        self.rules.is_empty() && self.certificates.is_empty() && self.json_web.is_none()
    }

    /// The policy for the access checks.
    pub(crate) fn policy(&self) -> Policy {
        let rules = if self.has_default_key() { vec![default_rule()] } else { self.rules.clone() };
        let (certificates, json_web) = (self.certificates.clone(), self.json_web.clone());
        Policy { required: self.required, rules, certificates, json_web }
    }

    /// Whether a SASL mechanism of the dialect is usable with this configuration.
    pub(crate) fn offers(&self, mechanism: &str) -> bool {
        match mechanism {
            "PLAIN" => self.plain_enabled,
            "EXTERNAL" => !self.required || !self.certificates.is_empty(),
            _ => true,
        }
    }

    /// Refuses access from other machines with the publicly known key, or without one, unless it is explicitly allowed.
    ///
    /// # Errors
    /// [`ConfigError::Combination`] with the first address that is not on loopback.
    pub(crate) fn check(&self, listeners: &[(&str, &ListenAddress)]) -> Result<(), ConfigError> {
        let Some((what, address)) = listeners.iter().find(|(_, address)| !address.is_loopback()) else {
            return Ok(());
        };
        let exposed = format!("{what} listens on {address}, which other machines may reach, and");
        let refusal = if !self.required {
            (!self.allow_anybody).then(|| {
                format!(
                    "{exposed} clients need no credentials; write required = true under [authorization], or \
                     allow_anybody = true if that is meant"
                )
            })
        } else {
            (self.has_default_key() && !self.allow_default_key).then(|| {
                format!(
                    "{exposed} the key in force is the emulator's, which is public; write a rule with keys of \
                     your own, [[authorization.rules]], or give --allow-default-key (allow_default_key = true under \
                     [authorization]) if that is meant"
                )
            })
        };
        refusal.map_or(Ok(()), |text| Err(ConfigError::Combination(text)))
    }
}

/// Settings that flags may override; `None` where the file does not set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AuthorizationFlags {
    /// `authorization.required`
    pub(crate) required: Option<bool>,
    /// `authorization.allow_default_key`
    pub(crate) allow_default_key: Option<bool>,
}

impl AuthorizationFlags {
    /// Combines these flags with the file's settings.
    pub(super) fn over(self, file: Self, config: AuthorizationConfig) -> AuthorizationConfig {
        let required = self.required.or(file.required).unwrap_or(config.required);
        let allow_default_key =
            self.allow_default_key.or(file.allow_default_key).unwrap_or(config.allow_default_key);
        AuthorizationConfig { required, allow_default_key, ..config }
    }
}

/// Reads the section: the settings that flags may override, and the rest.
pub(super) fn read(mut table: Table<'_, '_>) -> (AuthorizationFlags, AuthorizationConfig) {
    let default = AuthorizationConfig::default();
    let flags = AuthorizationFlags {
        required: table.boolean_or_none("required", default.required),
        allow_default_key: table.boolean_or_none("allow_default_key", default.allow_default_key),
    };
    let config = AuthorizationConfig {
        allow_anybody: table.boolean("allow_anybody", default.allow_anybody),
        plain_enabled: table.boolean("plain_enabled", default.plain_enabled),
        time_out_ms: table.duration_ms("time_out", default.time_out_ms, &TIME_OUT_MS),
        rules: read_all(&mut table, "rules", "authorization.rules"),
        certificates: read_certificates(&mut table),
        json_web: json_web::read(&mut table),
        ..default
    };
    table.finish();
    (flags, config)
}

fn read_certificates(table: &mut Table<'_, '_>) -> Vec<CertificateRule> {
    let mut certificates = Vec::new();
    for (mut inner, place) in table.array("certificates", "authorization.certificates") {
        let subject = inner.text("subject", "\"CN=shop\"", |text| match text.trim() {
            "" => Err("is empty; write the subject of the certificate".to_owned()),
            text => Ok(Box::from(text)),
        });
        if inner.value("subject").is_none() {
            inner.report(&place, "subject", "missing; write subject = \"CN=shop\" or the like");
        }
        let rights = read_rights(&mut inner, &place);
        let scope = read_scope(&mut inner, "scope");
        inner.finish();
        if let (Some(subject), Some(rights)) = (subject, rights) {
            certificates.push(CertificateRule { subject, rights, scope });
        }
    }
    certificates
}

/// An entity's path; by default the whole namespace.
pub(super) fn read_scope(table: &mut Table<'_, '_>, key: &'static str) -> Resource {
    let scope = table.text(key, "\"orders\"", |text| {
        Resource::of(text)
            .ok_or_else(|| "is not the path of an entity; write the name of an entity".to_owned())
    });
    scope.unwrap_or_default()
}
