//! Index of all rules of a topic: the cost of a message depends on its own properties and on the rules that may match
//! it, not on the number of rules.
//!
//! A rule that can only match messages in which some property equals a constant is *posted* under that property and
//! value; a message is looked up with its own values (`postings`). The candidates found may be too many, never too few:
//! each is evaluated. `choice` finds the equalities in a filter and `key` hashes properties and values. All other rules
//! are evaluated for every message.

mod choice;
mod key;
mod postings;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use self::choice::choices;
use self::postings::{Candidates, Postings};
use self::steps::LikeSteps;
use crate::{Failure, Filter, Subject};

/// Most equalities of one filter that are considered.
const CHOICES_MAX: u16 = 32;

/// The position of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RulePlace {
    /// The group of the rule, which is its subscription.
    pub group: u64,
    /// Its position among the rules of its group.
    pub position: u32,
}

/// A rule that matches a message, or whose evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The rule.
    pub place: RulePlace,
    /// The failure of its evaluation, if it failed.
    pub failure: Option<Failure>,
}

/// The rules of a topic, shared with their owner. A rule `T` dereferences to its filter.
#[derive(Debug)]
pub struct Index<T> {
    /// Used for look-ups only, where a hash map needs fewer memory accesses than an ordered map.
    groups: HashMap<u64, Box<[Listed<T>]>, FxBuildHasher>,
    /// Rules that must be considered for every message, in order.
    unposted: BTreeMap<RulePlace, Unposted<T>>,
    postings: Postings,
    /// Number of steps of all rules.
    steps: usize,
}

/// A rule of a group.
#[derive(Debug)]
struct Listed<T> {
    rule: Arc<T>,
    listing: Listing,
}

/// A rule that must be considered for every message.
#[derive(Debug)]
enum Unposted<T> {
    /// It matches every message, without evaluation.
    True,
    /// It is evaluated.
    Asked(Arc<T>),
}

/// How a rule is listed.
#[derive(Debug, Clone, Copy)]
enum Listing {
    /// It matches no message.
    Never,
    /// It is among the unposted.
    Unposted,
    /// It is posted under this one of its filter's choices.
    Posted(u16),
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        let (unposted, postings) = (BTreeMap::new(), Postings::default());
        Self { groups: HashMap::default(), unposted, postings, steps: 0 }
    }
}

impl<T: AsRef<Filter>> Index<T> {
    /// Replaces the rules of a group, in order. The cost depends on the number of the group's rules, not on those of
    /// others.
    pub fn set(&mut self, group: u64, rules: &[Arc<T>]) {
        self.remove(group);
        let mut listed = Vec::with_capacity(rules.len());
        for (position, rule) in (0..).zip(rules) {
            let place = RulePlace { group, position };
            let listing = self.list(place, (**rule).as_ref());
            if matches!(listing, Listing::Unposted) {
                let asked = || Unposted::Asked(Arc::clone(rule));
                let is_true = (**rule).as_ref().constant() == Some(true);
                self.unposted.insert(place, if is_true { Unposted::True } else { asked() });
            }
            self.steps += (**rule).as_ref().steps();
            listed.push(Listed { rule: Arc::clone(rule), listing });
        }
        self.groups.insert(group, listed.into_boxed_slice());
    }

    /// Posts a rule under its currently most selective choice, if it has one.
    fn list(&mut self, place: RulePlace, filter: &Filter) -> Listing {
        if filter.constant() == Some(false) {
            return Listing::Never;
        }
        let choices = (0..CHOICES_MAX).zip(choices(filter));
        let best = choices.min_by_key(|(_, choice)| self.postings.crowd(choice));
        let Some((number, choice)) = best else { return Listing::Unposted };
        self.postings.add(&choice, place);
        Listing::Posted(number)
    }

    /// Removes a group.
    pub fn remove(&mut self, group: u64) {
        let listed = self.groups.remove(&group).unwrap_or_default();
        let mut keys = Vec::new();
        for (position, listed) in (0..).zip(&listed) {
            self.steps -= (*listed.rule).as_ref().steps();
            match listed.listing {
                Listing::Never => {}
                Listing::Unposted => drop(self.unposted.remove(&RulePlace { group, position })),
                Listing::Posted(number) => {
                    if let Some(choice) = choices((*listed.rule).as_ref()).get(usize::from(number)) {
                        self.postings.uncount(choice);
                        keys.extend_from_slice(&choice.keys);
                    }
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        self.postings.vacate(&keys, group);
    }

    /// Upper estimate of the steps of [`Self::ask`] for a message whose properties take so many bytes.
    #[must_use]
    pub const fn steps_max(&self, property_bytes: usize) -> usize {
        self.steps.saturating_mul(1 + property_bytes / steps::PROPERTY_BYTES_PER_STEP)
    }

    /// Appends the rules that match a message or whose evaluation failed, in order of group and position. Returns the
    /// number of steps of the evaluation, each of some ten nanoseconds.
    pub fn ask(
        &self,
        subject: &Subject<'_>,
        new_id: &mut dyn FnMut() -> u128,
        verdicts: &mut Vec<Verdict>,
    ) -> usize {
        let mut asking = Asking { subject, new_id, verdicts, steps: 0, like_steps: LikeSteps::default() };
        let mut candidates = Candidates::new();
        self.postings.find(subject, &mut candidates);
        candidates.sort_unstable();
        candidates.dedup();
        let mut candidates = candidates.into_iter().peekable();
        for (place, unposted) in &self.unposted {
            while let Some(earlier) = candidates.next_if(|candidate| candidate < place) {
                self.ask_posted(earlier, &mut asking);
            }
            match unposted {
                Unposted::True => asking.verdicts.push(Verdict { place: *place, failure: None }),
                Unposted::Asked(rule) => asking.ask((**rule).as_ref(), *place),
            }
        }
        for place in candidates {
            self.ask_posted(place, &mut asking);
        }
        asking.steps.saturating_add(asking.like_steps.used() / steps::PER_PROGRAM_STEP)
    }

    fn ask_posted(&self, place: RulePlace, asking: &mut Asking<'_>) {
        let listed = self.groups.get(&place.group).and_then(|group| group.get(place.position as usize));
        if let Some(listed) = listed {
            asking.ask((*listed.rule).as_ref(), place);
        }
    }
}

/// The evaluation of the rules for one message.
struct Asking<'a> {
    subject: &'a Subject<'a>,
    new_id: &'a mut dyn FnMut() -> u128,
    verdicts: &'a mut Vec<Verdict>,
    /// Steps of the programs evaluated so far.
    steps: usize,
    like_steps: LikeSteps,
}

impl Asking<'_> {
    fn ask(&mut self, filter: &Filter, place: RulePlace) {
        self.steps = self.steps.saturating_add(filter.steps());
        let matches = match filter {
            Filter::Sql(sql) => {
                self.like_steps.lend(|left| sql.matches_within(self.subject, self.new_id, left))
            }
            Filter::Selector(selector) => {
                Ok(self.like_steps.lend(|left| selector.matches_new(self.subject.rule_properties, left)))
            }
            other => other.matches(self.subject, self.new_id),
        };
        match matches {
            Ok(false) => {}
            Ok(true) => self.verdicts.push(Verdict { place, failure: None }),
            Err(failure) => self.verdicts.push(Verdict { place, failure: Some(failure) }),
        }
    }
}
