//! Look-up of candidate rules by a message's values.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::RulePlace;
use super::choice::Choice;
use super::key::{Key, PropertyKey};
use crate::Subject;
use crate::sql::tree::SystemProperty;
use crate::sql::{Message, Value};

/// The table keeps capacity for this many.
const CAPACITY_KEPT: usize = 1024;
/// A larger table is shrunk when fewer than one in this many of its places are used.
const SPARSE_RATIO: usize = 8;

/// Rules that may match a message.
pub(super) type Candidates = SmallVec<[RulePlace; 16]>;

/// Rules by a property and its required value.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// Used for look-ups only, never iterated, so its order is unobservable. Most values belong to one rule.
    by_key: HashMap<Key, SmallVec<[RulePlace; 1]>, FxBuildHasher>,
    /// System properties under which rules are posted, with the number of rules.
    system: BTreeMap<SystemProperty, usize>,
    /// Number of rules posted under application properties.
    user: usize,
}

impl Postings {
    /// Number of rules already posted under this choice.
    pub(super) fn crowd(&self, choice: &Choice) -> usize {
        choice.keys.iter().map(|key| self.by_key.get(key).map_or(0, SmallVec::len)).sum()
    }

    /// Posts a rule.
    pub(super) fn add(&mut self, choice: &Choice, place: RulePlace) {
        for key in &choice.keys {
            self.by_key.entry(*key).or_default().push(place);
        }
        *self.count_mut(choice.system) += 1;
    }

    /// Counts the removal of a rule posted under this choice; [`Self::vacate`] removes its postings.
    pub(super) fn uncount(&mut self, choice: &Choice) {
        *self.count_mut(choice.system) -= 1;
        self.system.retain(|_, count| *count > 0);
    }

    /// Removes all postings of a group under these keys.
    pub(super) fn vacate(&mut self, keys: &[Key], group: u64) {
        for key in keys {
            let Entry::Occupied(mut posted) = self.by_key.entry(*key) else { continue };
            let places = posted.get_mut();
            places.retain(|place| place.group != group);
            if places.is_empty() {
                posted.remove();
            } else if places.len() * SPARSE_RATIO < places.capacity() {
                places.shrink_to_fit();
            }
        }
        if self.by_key.capacity() > CAPACITY_KEPT.max(self.by_key.len() * SPARSE_RATIO) {
            self.by_key.shrink_to(self.by_key.len() * 2);
        }
    }

    /// Whether nothing is posted.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.system.is_empty() && self.user == 0
    }

    /// Capacity for keys, and for rules under each.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.by_key.capacity() + self.by_key.values().map(SmallVec::capacity).sum::<usize>()
    }

    fn count_mut(&mut self, system: Option<SystemProperty>) -> &mut usize {
        match system {
            Some(property) => self.system.entry(property).or_default(),
            None => &mut self.user,
        }
    }

    /// Appends the rules that may match a message, some of them possibly several times.
    pub(super) fn find(&self, subject: &Subject<'_>, candidates: &mut Candidates) {
        let mut find = |property: PropertyKey, value: &Value<'_>| {
            if let Some(places) = self.by_key.get(&property.with(value)) {
                candidates.extend_from_slice(places);
            }
        };
        let message = Message::new(subject);
        for property in self.system.keys() {
            find(PropertyKey::system(*property), &message.system(*property));
        }
        if self.user > 0 {
            for (name, value) in &subject.rule_properties.user {
                find(PropertyKey::user(name), &Value::of(value));
            }
        }
    }
}
