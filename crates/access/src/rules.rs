//! Finds the rule that a credential names.

use peeklock_engine::{AuthorizationRule, Rights, Secret, Timestamp};

use crate::grant::{Basis, Grant, Permission};
use crate::keys::{self, Proof};
use crate::policy::Policy;
use crate::{EntityRules, Resource, Scope};

/// A rule with the key that was used.
pub(crate) struct Found {
    level: Resource,
    name: Box<str>,
    rights: Rights,
    key: Secret,
}

impl Found {
    /// The entity, or the namespace, to which the rule belongs.
    pub(crate) fn level(&self) -> &Resource {
        &self.level
    }

    /// The grant of the rule.
    pub(crate) fn grant(self, scope: Scope, expires_at: Option<Timestamp>) -> Grant {
        let Self { level, name, rights, key } = self;
        let basis = Basis::Rule { level, name: name.clone(), key };
        Grant { permissions: Box::new([Permission { scope, rights }]), expires_at, principal: name, basis }
    }
}

/// The rule of that name with the key of the proof: a rule of the namespace, of the entity, or of the entity that
/// contains the resource. Rules of an entity `queue` do not apply to the entity `queue/new`. A missing rule and a wrong
/// key take the same time.
pub(crate) fn find(
    policy: &Policy,
    entities: Option<&dyn EntityRules>,
    name: &str,
    resource: &Resource,
    proof: &impl Proof,
) -> Option<Found> {
    let mut is_known = false;
    let mut check = |level: &dyn Fn() -> Resource, rules: &[AuthorizationRule]| {
        let rule = rules.iter().find(|rule| &*rule.name == name)?;
        is_known = true;
        let key = keys::key_of(rule, proof)?.clone();
        Some(Found { level: level(), name: rule.name.clone(), rights: rule.rights, key })
    };
    let found = check(&Resource::namespace, &policy.rules).or_else(|| {
        let entity = resource.entity_name()?;
        let options = entities?.options(entity)?;
        check(&|| Resource::entity(entity), options.authorization_rules())
    });
    if !is_known {
        keys::check_dummy_key(proof);
    }
    found
}

/// Whether the rule of that name and level exists and satisfies the condition.
pub(crate) fn named(
    policy: &Policy,
    entities: Option<&dyn EntityRules>,
    level: &Resource,
    name: &str,
    passes: impl Fn(&AuthorizationRule) -> bool,
) -> bool {
    let options;
    let rules = if *level == Resource::namespace() {
        &*policy.rules
    } else {
        options = entities.and_then(|entities| entities.options(level.path()));
        options.as_deref().map_or(&[][..], |options| options.authorization_rules())
    };
    rules.iter().any(|rule| &*rule.name == name && passes(rule))
}
