//! Which rules to ask about a message with certain values.

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

/// The table keeps room for this many.
const CAPACITY_KEPT: usize = 1024;
/// A larger one gives memory back when fewer than one in this many of its places are used.
const SPARSE_RATIO: usize = 8;

/// Rules that may match a message.
pub(super) type Candidates = SmallVec<[RulePlace; 16]>;

/// Rules by a property and the value it must have.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// Only ever looked up, never walked: its order is unobservable. Most values are one rule's.
    by_key: HashMap<Key, SmallVec<[RulePlace; 1]>, FxBuildHasher>,
    /// System properties under which rules are posted, and how many.
    system: BTreeMap<SystemProperty, usize>,
    /// Rules posted under application properties.
    user: usize,
}

impl Postings {
    /// How many rules are posted as this one would be.
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

    /// A rule that was posted like this goes; its place goes by [`Self::vacate`].
    pub(super) fn uncount(&mut self, choice: &Choice) {
        *self.count_mut(choice.system) -= 1;
        self.system.retain(|_, count| *count > 0);
    }

    /// Takes away all rules of a group that are posted under these keys.
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

    /// Room for keys, and for rules under each.
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

    /// Appends the rules that may match a message; some of them more than once.
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
