//! The rules of entities on which grants are based, to detect relevant changes of rules.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use peeklock_engine::{Rights, Secret};

use crate::grant::{Basis, Grant};
use crate::{EntityRules, Resource, rights};

/// The rights of each used rule when a grant was based on it, by entity, name and key. The number of entries is bounded
/// by the rules and keys of entities, plus those deleted since the last check.
#[derive(Default)]
pub(crate) struct UsedRules(Mutex<HashMap<RuleOf, Vec<(Secret, Rights)>>>);

/// An entity, and the name of one of its rules.
type RuleOf = (Resource, Box<str>);

impl UsedRules {
    /// Remembers the basis of a grant, if that is a rule of an entity.
    pub(crate) fn remember(&self, grant: &Grant) {
        let Basis::Rule { level, name, key } = &grant.basis else { return };
        if *level == Resource::namespace() {
            return;
        }
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = rules.entry((level.clone(), name.clone())).or_default();
        for used in grant.permissions.iter().map(|one| (key.clone(), one.rights)) {
            if !uses.contains(&used) {
                uses.push(used);
            }
        }
    }

    /// Removes the rules that no longer allow the same; returns whether there were any.
    pub(crate) fn forget_changed(&self, entities: Option<&dyn EntityRules>) -> bool {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_changed = false;
        rules.retain(|(level, name), uses| {
            let options = entities.and_then(|entities| entities.options(level.path()));
            let rule = options
                .as_deref()
                .and_then(|options| options.authorization_rules().iter().find(|rule| rule.name == *name));
            let before = uses.len();
            uses.retain(|(key, granted)| {
                rule.is_some_and(|rule| {
                    (rule.primary_key == *key || rule.secondary_key == *key)
                        && rights::include(rule.rights, *granted)
                })
            });
            has_changed |= uses.len() < before;
            !uses.is_empty()
        });
        has_changed
    }
}
