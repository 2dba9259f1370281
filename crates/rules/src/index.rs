//! All rules of a topic, asked at once.

use std::collections::BTreeMap;

use crate::{Failure, Filter, Subject};

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

/// The filters of all rules of a topic.
#[derive(Debug, Default)]
pub struct Index {
    groups: BTreeMap<u64, Vec<Filter>>,
}

impl Index {
    /// Sets the filters of a group, in the order of its rules, in place of those it had.
    pub fn set<'a>(&mut self, group: u64, filters: impl IntoIterator<Item = &'a Filter>) {
        self.groups.insert(group, filters.into_iter().cloned().collect());
    }

    /// Forgets a group.
    pub fn remove(&mut self, group: u64) {
        self.groups.remove(&group);
    }

    /// Appends the rules that match a message or can't say, in order of group and position.
    pub fn ask(&self, subject: &Subject<'_>, new_id: &mut dyn FnMut() -> u128, verdicts: &mut Vec<Verdict>) {
        for (group, filters) in &self.groups {
            for (position, filter) in (0..).zip(filters) {
                let place = RulePlace { group: *group, position };
                match filter.matches(subject, new_id) {
                    Ok(false) => {}
                    Ok(true) => verdicts.push(Verdict { place, failure: None }),
                    Err(failure) => verdicts.push(Verdict { place, failure: Some(failure) }),
                }
            }
        }
    }
}
