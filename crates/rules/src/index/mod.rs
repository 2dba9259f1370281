//! All rules of a topic, asked at once: a message costs what its own properties cost and the rules that may match it, not
//! what all rules cost.
//!
//! A rule that can only match messages in which some property equals a constant is *posted* under that property and
//! value; a message leads to the rules posted under its own values (`postings`). What they lead to may be too much, never
//! too little: each is asked itself. `choice` finds the equalities in a filter and `key` makes numbers of properties and
//! values. All other rules are asked about every message.

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

/// Equalities of one filter that are looked at.
const CHOICES_MAX: u16 = 32;

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RulePlace {
    /// Whose it is: the subscription.
    pub group: u64,
    /// Its position among the rules of its group.
    pub position: u32,
}

/// A rule that matches a message, or that can't say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which rule.
    pub place: RulePlace,
    /// Why it can't say, if so.
    pub failure: Option<Failure>,
}

/// The rules of a topic, shared with whoever has set them. A rule `T` is what leads to its filter.
#[derive(Debug)]
pub struct Index<T> {
    /// Only ever looked up: found in fewer steps than in an ordered map, each of which waits for memory.
    groups: HashMap<u64, Box<[Listed<T>]>, FxBuildHasher>,
    /// Rules that concern every message, in order.
    unposted: BTreeMap<RulePlace, Unposted<T>>,
    postings: Postings,
}

/// A rule of a group.
#[derive(Debug)]
struct Listed<T> {
    rule: Arc<T>,
    listing: Listing,
}

/// A rule that concerns every message.
#[derive(Debug)]
enum Unposted<T> {
    /// It matches whatever it is asked, so it is not.
    True,
    /// It is asked.
    Asked(Arc<T>),
}

/// How a rule is found.
#[derive(Debug, Clone, Copy)]
enum Listing {
    /// It matches nothing.
    Never,
    /// It is among the unposted.
    Unposted,
    /// It is posted under this one of its filter's choices.
    Posted(u16),
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self { groups: HashMap::default(), unposted: BTreeMap::new(), postings: Postings::default() }
    }
}

impl<T: AsRef<Filter>> Index<T> {
    /// Sets the rules of a group, in order, in place of those it had. What this costs depends on the group's rules, not on
    /// those of others.
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
            listed.push(Listed { rule: Arc::clone(rule), listing });
        }
        self.groups.insert(group, listed.into_boxed_slice());
    }

    /// Posts a rule under the property and values that tell it apart best now, if any do.
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

    /// Forgets a group.
    pub fn remove(&mut self, group: u64) {
        let listed = self.groups.remove(&group).unwrap_or_default();
        let mut keys = Vec::new();
        for (position, listed) in (0..).zip(&listed) {
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

    /// Appends the rules that match a message or can't say, in order of group and position.
    pub fn ask(&self, subject: &Subject<'_>, new_id: &mut dyn FnMut() -> u128, verdicts: &mut Vec<Verdict>) {
        let mut asking = Asking { subject, new_id, verdicts, steps: LikeSteps::default() };
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
    }

    fn ask_posted(&self, place: RulePlace, asking: &mut Asking<'_>) {
        let listed = self.groups.get(&place.group).and_then(|group| group.get(place.position as usize));
        if let Some(listed) = listed {
            asking.ask((*listed.rule).as_ref(), place);
        }
    }
}

/// A message on its way through the rules.
struct Asking<'a> {
    subject: &'a Subject<'a>,
    new_id: &'a mut dyn FnMut() -> u128,
    verdicts: &'a mut Vec<Verdict>,
    steps: LikeSteps,
}

impl Asking<'_> {
    fn ask(&mut self, filter: &Filter, place: RulePlace) {
        let matches = match filter {
            Filter::Sql(sql) => self.steps.lend(|left| sql.matches_within(self.subject, self.new_id, left)),
            Filter::Selector(selector) => {
                Ok(self.steps.lend(|left| selector.matches_new(self.subject.rule_properties, left)))
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
