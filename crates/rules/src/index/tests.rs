//! The index yields the same result for every message as evaluating each filter.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::postings::Candidates;
use super::{Index, RulePlace, Verdict};
use crate::{
    Arrival, CorrelationFilter, Filter, PropertyValue, RuleProperties, Selector, SqlFilter, Subject,
};

/// One operation on an index.
#[derive(Debug, Clone)]
enum Move {
    Set(u64, Vec<Filter>),
    Remove(u64),
    Ask(RuleProperties),
}

/// A text that is also a time, and that time in ticks.
const EPOCH: &str = "1970-01-01T00:00:00Z";
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
/// A text that is also a GUID.
const GUID: &str = "00000000-0000-0000-0000-000000000001";
/// 5 and 5.0 in AMQP's encoding of decimals.
const DECIMAL_5: u128 = 0x3040 << 112 | 5;
const DECIMAL_5_0: u128 = 0x303E << 112 | 50;

/// The expected result, by evaluating every filter.
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

fn ask(index: &Index<Filter>, rule_properties: &RuleProperties) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    index.ask(&Subject { rule_properties, arrival: ARRIVAL }, &mut || 7, &mut verdicts);
    verdicts
}

/// Published at time zero with number 5.
const ARRIVAL: Arrival<'static> = Arrival {
    sequence_number: 5,
    enqueued_sequence_number: 5,
    enqueued_at_ms: 0,
    time_to_live_ms: None,
    scheduled_enqueue_time_ms: None,
    size_bytes: 5,
    dead_letter_source: Some("x"),
};

fn shared(filters: Vec<Filter>) -> Vec<Arc<Filter>> {
    filters.into_iter().map(Arc::new).collect()
}

fn text() -> impl Strategy<Value = Box<str>> {
    select(&["", "x", "X", "5", "é", EPOCH, GUID, "00:00:00"]).prop_map(Into::into)
}

fn name() -> impl Strategy<Value = Box<str>> {
    select(&["a", "A", "b", "größe", "GRÖßE", "σ", "ς", "K", "\u{212a}", "k"]).prop_map(Into::into)
}

/// Few different values, so that equal ones of different types occur.
fn value() -> impl Strategy<Value = PropertyValue> {
    let integers = select(&[0, 5, 1 << 53, (1 << 53) + 1, i64::MAX, -1]);
    let doubles =
        select(&[0.0, -0.0, 5.0, 5.5, 9_007_199_254_740_992.0, 9_223_372_036_854_775_808.0, f64::NAN]);
    prop_oneof![
        Just(PropertyValue::Null),
        any::<bool>().prop_map(PropertyValue::Boolean),
        integers.prop_map(PropertyValue::Integer),
        select(&[1 << 63, u64::MAX]).prop_map(PropertyValue::Unsigned),
        doubles.prop_map(PropertyValue::Double),
        text().prop_map(PropertyValue::Text),
        (0..2_i64).prop_map(PropertyValue::Timestamp),
        (0..2_u128).prop_map(PropertyValue::Uuid),
        (0..2_i64).prop_map(PropertyValue::TimeSpan),
        select(&[0, EPOCH_TICKS]).prop_map(PropertyValue::DateTimeOffset),
        select(&[DECIMAL_5, DECIMAL_5_0]).prop_map(PropertyValue::Decimal),
        vec(0..2_u8, 0..2).prop_map(|bytes| PropertyValue::Other(bytes.into())),
    ]
}

fn rule_properties() -> impl Strategy<Value = RuleProperties> {
    let texts = [(); 4].map(|()| option::of(text()));
    (texts, vec((name(), value()), 0..4)).prop_map(|([label, session_id, message_id, to], user)| {
        RuleProperties { label, session_id, message_id, to, user, ..RuleProperties::default() }
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
    let plain = prop_oneof![1 => Just(Filter::True), 1 => Just(Filter::False), 5 => correlation()];
    prop_oneof![7 => plain, 10 => sql_filter(), 2 => selector()]
}

fn selector() -> impl Strategy<Value = Filter> {
    let texts = ["JMSType = 'a'", "a = 1 OR JMSPriority = 4", "b IS NULL", "JMSXDeliveryCount > 1"];
    prop::sample::select(texts.to_vec())
        .prop_map(|text| Filter::Selector(Box::new(Selector::new(text).unwrap())))
}

fn sql_filter() -> impl Strategy<Value = Filter> {
    let read_out_of_texts = prop_oneof![
        Just(PropertyValue::Uuid(1)),
        Just(PropertyValue::Timestamp(0)),
        Just(PropertyValue::DateTimeOffset(EPOCH_TICKS)),
        Just(PropertyValue::TimeSpan(0)),
    ];
    (condition(), prop_oneof![value(), read_out_of_texts]).prop_map(|(text, parameter)| {
        let filter = SqlFilter::new(&text, vec![("p".into(), parameter)]);
        Filter::Sql(Box::new(filter.unwrap_or_else(|error| panic!("{text}: {error}"))))
    })
}

/// An SQL condition; many of them contain equalities.
fn condition() -> impl Strategy<Value = String> {
    let property = || {
        select(&["a", "A", "b", "größe", "GRÖßE", "σ", "ς", "k", "sys.Label", "sys.MessageId"]).prop_union(
            select(&["sys.SequenceNumber", "sys.EnqueuedTimeUtc", "sys.DeadLetterSource", "property('A')"]),
        )
    };
    let constant = || {
        let usual =
            select(&["'x'", "''", "'5'", "5", "5.0", "0", "TRUE", "NULL", "9007199254740993", "-0.0"]);
        let others = select(&["'x' + ''", "'é'", "b", "'00:00:00'"]).prop_map(str::to_owned);
        let read = select(&[EPOCH, GUID]).prop_map(|text| format!("'{text}'"));
        prop_oneof![3 => usual.prop_map(str::to_owned), 2 => others, 1 => read, 1 => Just("@p".to_owned())]
    };
    let atom = prop_oneof![
        6 => (property(), constant()).prop_map(|(property, constant)| format!("{property} = {constant}")),
        2 => (property(), constant()).prop_map(|(property, constant)| format!("{constant} = {property}")),
        2 => (property(), constant(), constant()).prop_map(|(p, one, two)| format!("{p} IN ({one}, {two})")),
        1 => (property(), constant()).prop_map(|(property, constant)| format!("{property} <> {constant}")),
        1 => (property(), constant()).prop_map(|(p, constant)| format!("{p} NOT IN ({constant})")),
        1 => property().prop_map(|property| format!("{property} * 2 = 10")),
        1 => property().prop_map(|property| format!("{property} LIKE 'x%'")),
        1 => select(&["a", "b", "K", "TRUE", "FALSE", "a IS NULL", "EXISTS(b)", "NULL = a"]).prop_map(str::to_owned),
    ];
    atom.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(|terms| format!("({})", terms.join(" AND "))),
            vec(inner.clone(), 2..4).prop_map(|terms| format!("({})", terms.join(" OR "))),
            inner.prop_map(|term| format!("NOT ({term})")),
        ]
    })
}

fn history() -> impl Strategy<Value = Vec<Move>> {
    let group = 0..4_u64;
    let one = prop_oneof![
        3 => (group.clone(), vec(filter(), 0..6)).prop_map(|(group, filters)| Move::Set(group, filters)),
        1 => group.prop_map(Move::Remove),
        6 => rule_properties().prop_map(Move::Ask),
    ];
    vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_index_agrees_with_each_filter(history in history()) {
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
                Move::Ask(rule_properties) => {
                    let subject = Subject { rule_properties: &rule_properties, arrival: ARRIVAL };
                    prop_assert_eq!(ask(&index, &rule_properties), asked_one_by_one(&groups, &subject));
                }
            }
        }
        for group in 0..4 {
            index.remove(group);
        }
        prop_assert!(index.postings.is_empty() && index.unposted.is_empty(), "nothing is left: {:?}", index);
    }
}

/// Number of rules evaluated for a message.
fn asked(index: &Index<Filter>, rule_properties: &RuleProperties) -> usize {
    let mut candidates = Candidates::new();
    index.postings.find(&Subject { rule_properties, arrival: ARRIVAL }, &mut candidates);
    candidates.len() + index.unposted.len()
}

fn labelled(label: &str, user: Vec<(Box<str>, PropertyValue)>) -> Filter {
    let filter = CorrelationFilter { label: Some(label.into()), user, ..CorrelationFilter::default() };
    Filter::Correlation(Box::new(filter))
}

#[test]
fn of_many_filters_those_are_asked_that_may_match() {
    let mut index = Index::default();
    for group in 0..2_000 {
        index.set(group, &shared(vec![labelled(&format!("label {group}"), vec![]), Filter::False]));
    }
    let rule_properties = RuleProperties { label: Some("label 77".into()), ..RuleProperties::default() };
    assert_eq!(asked(&index, &rule_properties), 1);
    let place = RulePlace { group: 77, position: 0 };
    assert_eq!(ask(&index, &rule_properties), [Verdict { place, failure: None }]);
    assert_eq!(asked(&index, &RuleProperties::default()), 0);
}

#[test]
fn a_rule_is_posted_under_the_equality_that_it_shares_with_fewest() {
    let mut index = Index::default();
    for group in 0..2_000_i64 {
        let customer = vec![("customer".into(), PropertyValue::Integer(group))];
        index.set(group as u64, &shared(vec![labelled("order", customer)]));
    }
    let rule_properties = RuleProperties {
        label: Some("order".into()),
        user: vec![("Customer".into(), PropertyValue::Double(1234.0))],
        ..RuleProperties::default()
    };
    assert!(asked(&index, &rule_properties) <= 2, "the first one could choose either");
    assert_eq!(ask(&index, &rule_properties).len(), 1);
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
    assert_eq!(asked(&index, &RuleProperties { label: Some("same".into()), ..RuleProperties::default() }), 2);
}

#[test]
fn a_rule_that_is_found_twice_answers_once() {
    let mut index = Index::default();
    index.set(1, &shared(vec![sql("a IN ('x', 'y')", PropertyValue::Null)]));
    let user = [("a", "x"), ("A", "y")].map(|(name, text)| (name.into(), PropertyValue::Text(text.into())));
    let rule_properties = RuleProperties { user: user.into(), ..RuleProperties::default() };
    assert_eq!((asked(&index, &rule_properties), ask(&index, &rule_properties).len()), (2, 1));
}

fn sql(text: &str, parameter: PropertyValue) -> Filter {
    Filter::Sql(Box::new(SqlFilter::new(text, vec![("p".into(), parameter)]).unwrap()))
}

/// A message that matches none of the conditions below.
fn other() -> RuleProperties {
    let user =
        vec![("a".into(), PropertyValue::Text("other".into())), ("b".into(), PropertyValue::Integer(7))];
    RuleProperties { label: Some("other".into()), user, ..RuleProperties::default() }
}

#[test]
fn conditions_with_an_equality_are_not_asked_about_other_messages() {
    for text in [
        "a = 'x'",
        "'x' = A",
        "b = 5",
        "b = 5.0",
        "a = @p",
        "sys.Label = 'x'",
        "property('sys.Label') = 'x'",
        "a = 'x' + 'y'",
        "a IN ('x', 'y')",
        "a = 'x' OR a = 'y' OR A IN ('z')",
        "a = 'x' AND b > 5",
        "b > 5 AND c IS NULL AND EXISTS(a) AND a = 'x'",
        "(a = 'x' AND b = 5) OR (a = 'y' AND b = 6)",
        "a = 'x' AND NOT (b = 7)",
        "a = 'x' AND c LIKE 'd%'",
        "a = 'x' AND TRUE",
        "b = -5",
        "a IN (NULL)",
        "sys.EnqueuedTimeUtc = '2000-01-01T00:00:00Z'",
    ] {
        let mut index = Index::default();
        index.set(1, &shared(vec![sql(text, PropertyValue::Text("x".into()))]));
        assert_eq!(asked(&index, &other()), 0, "{text}");
    }
}

/// Because they may fail, or be true without the equality.
#[test]
fn conditions_without_a_needed_equality_are_asked_about_every_message() {
    for text in [
        "a <> 'x'",
        "a = 'x' OR b = 5",
        "NOT (a = 'x')",
        "a NOT IN ('x')",
        "a = 'x' AND b + 1 > 5",
        "a = 'x' AND b",
        "a = b",
        "a LIKE 'x%'",
        "a IS NULL",
        "a = @p",
        "a = 'x' AND property(b) = 5",
        "newid() = a",
        "1 = 1",
    ] {
        let mut index = Index::default();
        index.set(1, &shared(vec![sql(text, PropertyValue::Timestamp(0))]));
        assert_eq!(asked(&index, &other()), 1, "{text}");
    }
}

#[test]
fn the_steps_of_the_rules_evaluated_are_counted() {
    let sql = |text: &str| Filter::sql(text, Vec::new()).unwrap();
    let mut index = Index::default();
    index.set(1, &shared(vec![Filter::True, sql("a > 5")]));
    let one = index.steps_max(0);
    assert!(one > 0);
    index.set(2, &shared(vec![sql("b > 5"), sql("a = 'posted' AND b > 5")]));
    let steps = |index: &Index<Filter>, a: &str| {
        let user = vec![("a".into(), PropertyValue::Text(a.into()))];
        let rule_properties = RuleProperties { user, ..RuleProperties::default() };
        let subject = Subject { rule_properties: &rule_properties, arrival: ARRIVAL };
        index.ask(&subject, &mut || 7, &mut Vec::new())
    };
    assert_eq!(steps(&index, "other"), 2 * one, "the posted rule is not evaluated");
    assert_eq!(steps(&index, "posted"), index.steps_max(0));
    index.set(2, &shared(vec![sql("a LIKE '%x%'")]));
    let (brief, long) = (steps(&index, "y"), steps(&index, &"y".repeat(32 << 10)));
    assert!(long >= brief + 100, "{brief} {long}");
    assert!(index.steps_max(32 << 10) >= long);
    index.remove(2);
    assert_eq!(index.steps_max(0), one);
    index.remove(1);
    assert_eq!(index.steps_max(0), 0);
}
