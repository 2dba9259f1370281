//! The index says of every message what each filter says by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::postings::Candidates;
use super::{Index, RulePlace, Verdict};
use crate::{Arrival, CorrelationFilter, FactValue, Facts, Filter, Subject};

/// One thing that happens to an index.
#[derive(Debug, Clone)]
enum Move {
    Set(u64, Vec<Filter>),
    Remove(u64),
    Ask(Facts),
}

/// What an index has to say, told by asking every filter.
fn asked_one_by_one(groups: &BTreeMap<u64, Vec<Filter>>, subject: &Subject<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (group, filters) in groups {
        for (position, filter) in (0..).zip(filters) {
            let place = RulePlace { group: *group, position };
            match filter.matches(subject, &mut || 7) {
                Ok(false) => {}
                Ok(true) => verdicts.push(Verdict { place, failure: None }),
                Err(failure) => verdicts.push(Verdict { place, failure: Some(failure) }),
            }
        }
    }
    verdicts
}

fn ask(index: &Index<Filter>, facts: &Facts) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    index.ask(&Subject { facts, arrival: Arrival::default() }, &mut || 7, &mut verdicts);
    verdicts
}

fn shared(filters: Vec<Filter>) -> Vec<Arc<Filter>> {
    filters.into_iter().map(Arc::new).collect()
}

fn text() -> impl Strategy<Value = Box<str>> {
    select(&["", "x", "X", "y", "5", "é"]).prop_map(Into::into)
}

fn name() -> impl Strategy<Value = Box<str>> {
    select(&["a", "A", "b", "größe", "GRÖSSE", "Größe", "K", "\u{212a}", "k"]).prop_map(Into::into)
}

/// Few values, so that equal ones of different types meet.
fn value() -> impl Strategy<Value = FactValue> {
    let integers = select(&[0, 5, 1 << 53, (1 << 53) + 1, i64::MAX, -1]);
    let doubles =
        select(&[0.0, -0.0, 5.0, 5.5, 9_007_199_254_740_992.0, 9_223_372_036_854_775_808.0, f64::NAN]);
    prop_oneof![
        Just(FactValue::Null),
        any::<bool>().prop_map(FactValue::Boolean),
        integers.prop_map(FactValue::Integer),
        select(&[1 << 63, u64::MAX]).prop_map(FactValue::Unsigned),
        doubles.prop_map(FactValue::Double),
        text().prop_map(FactValue::Text),
        (0..2_i64).prop_map(FactValue::Timestamp),
        (0..2_u128).prop_map(FactValue::Uuid),
        (0..2_i64).prop_map(FactValue::TimeSpan),
        (0..2_i64).prop_map(FactValue::DateTimeOffset),
        (0..2_u128).prop_map(FactValue::Decimal),
        vec(0..2_u8, 0..2).prop_map(|bytes| FactValue::Other(bytes.into())),
    ]
}

fn facts() -> impl Strategy<Value = Facts> {
    let texts = [(); 4].map(|()| option::of(text()));
    (texts, vec((name(), value()), 0..4)).prop_map(|([label, session_id, message_id, to], user)| Facts {
        label,
        session_id,
        message_id,
        to,
        user,
        ..Facts::default()
    })
}

fn correlation() -> impl Strategy<Value = Filter> {
    let texts = [(); 4].map(|()| weighted(0.2, text()));
    (texts, vec((name(), value()), 0..3)).prop_map(|([label, session_id, message_id, to], user)| {
        let filter = CorrelationFilter { label, session_id, message_id, to, user, ..Default::default() };
        Filter::Correlation(Box::new(filter))
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    prop_oneof![1 => Just(Filter::True), 1 => Just(Filter::False), 8 => correlation()]
}

fn history() -> impl Strategy<Value = Vec<Move>> {
    let group = 0..4_u64;
    let one = prop_oneof![
        3 => (group.clone(), vec(filter(), 0..6)).prop_map(|(group, filters)| Move::Set(group, filters)),
        1 => group.prop_map(Move::Remove),
        6 => facts().prop_map(Move::Ask),
    ];
    vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn the_index_says_what_each_filter_says(history in history()) {
        let (mut index, mut groups) = (Index::default(), BTreeMap::new());
        for step in history {
            match step {
                Move::Set(group, filters) => {
                    index.set(group, &shared(filters.clone()));
                    groups.insert(group, filters);
                }
                Move::Remove(group) => {
                    index.remove(group);
                    groups.remove(&group);
                }
                Move::Ask(facts) => {
                    let subject = Subject { facts: &facts, arrival: Arrival::default() };
                    prop_assert_eq!(ask(&index, &facts), asked_one_by_one(&groups, &subject));
                }
            }
        }
        for group in 0..4 {
            index.remove(group);
        }
        prop_assert!(index.postings.is_empty() && index.unposted.is_empty(), "nothing is left: {:?}", index);
    }
}

/// How many rules are asked about a message.
fn asked(index: &Index<Filter>, facts: &Facts) -> usize {
    let mut candidates = Candidates::new();
    index.postings.find(&Subject { facts, arrival: Arrival::default() }, &mut candidates);
    candidates.len() + index.unposted.len()
}

fn labelled(label: &str, user: Vec<(Box<str>, FactValue)>) -> Filter {
    let filter = CorrelationFilter { label: Some(label.into()), user, ..CorrelationFilter::default() };
    Filter::Correlation(Box::new(filter))
}

#[test]
fn of_many_filters_those_are_asked_that_may_match() {
    let mut index = Index::default();
    for group in 0..2_000 {
        index.set(group, &shared(vec![labelled(&format!("label {group}"), vec![]), Filter::False]));
    }
    let facts = Facts { label: Some("label 77".into()), ..Facts::default() };
    assert_eq!(asked(&index, &facts), 1);
    let place = RulePlace { group: 77, position: 0 };
    assert_eq!(ask(&index, &facts), [Verdict { place, failure: None }]);
    assert_eq!(asked(&index, &Facts::default()), 0);
}

#[test]
fn a_rule_is_posted_under_the_equality_that_it_shares_with_fewest() {
    let mut index = Index::default();
    for group in 0..2_000_i64 {
        let customer = vec![("customer".into(), FactValue::Integer(group))];
        index.set(group as u64, &shared(vec![labelled("order", customer)]));
    }
    let facts = Facts {
        label: Some("order".into()),
        user: vec![("Customer".into(), FactValue::Double(1234.0))],
        ..Facts::default()
    };
    assert!(asked(&index, &facts) <= 2, "the first one could choose either");
    assert_eq!(ask(&index, &facts).len(), 1);
}

#[test]
fn memory_is_given_back() {
    let mut index = Index::default();
    for group in 0..10 {
        let filters = (0..1_000).map(|number| labelled(&format!("{group} {number}"), vec![]));
        index.set(group, &shared(filters.collect()));
    }
    let same = |count: usize| shared(vec![labelled("same", vec![]); count]);
    index.set(10, &same(10_000));
    for group in 0..10 {
        index.remove(group);
    }
    index.set(10, &same(1));
    index.set(11, &same(1));
    assert!(index.postings.capacity() <= 2 * 1_024, "{}", index.postings.capacity());
    assert_eq!(asked(&index, &Facts { label: Some("same".into()), ..Facts::default() }), 2);
}
