use super::super::rig::message;
use super::rig::{Rig, TOPIC, does_match, label, options, rule};
use crate::partition::handle::RULES_BYTES_MAX;
use crate::{
    Command, CorrelationFilter, Filter, PropertyValue, QueueId, Refusal, Rule, RuleProperties, Timestamp,
};

fn user(properties: &[(&str, PropertyValue)]) -> Vec<(Box<str>, PropertyValue)> {
    properties.iter().map(|(name, value)| ((*name).into(), value.clone())).collect()
}

fn wants(properties: &[(&str, PropertyValue)]) -> Filter {
    let filter = CorrelationFilter { user: user(properties), ..CorrelationFilter::default() };
    Filter::Correlation(Box::new(filter))
}

fn text(value: &str) -> PropertyValue {
    PropertyValue::Text(value.into())
}

#[test]
fn values_are_equal_when_kind_and_value_are() {
    let integer = PropertyValue::Integer;
    let unsigned = PropertyValue::Unsigned;
    let rows = [
        ("whatever their width, integers compare by value", integer(5), integer(5), true),
        ("different integers", integer(5), integer(6), false),
        ("large unsigned integers", unsigned(u64::MAX), unsigned(u64::MAX), true),
        ("a string is no integer", text("5"), integer(5), false),
        ("an integer is no string", integer(5), text("5"), false),
        (
            "numbers are equal regardless of type: JS writes all as doubles",
            PropertyValue::Double(5.0),
            integer(5),
            true,
        ),
        ("different numbers", PropertyValue::Double(5.5), integer(5), false),
        ("doubles", PropertyValue::Double(0.5), PropertyValue::Double(0.5), true),
        (
            "not a number equals nothing",
            PropertyValue::Double(f64::NAN),
            PropertyValue::Double(f64::NAN),
            false,
        ),
        ("strings", text("eu"), text("eu"), true),
        ("the case of values matters", text("eu"), text("EU"), false),
        ("truth values", PropertyValue::Boolean(true), PropertyValue::Boolean(true), true),
        ("a truth value is no integer", PropertyValue::Boolean(true), integer(1), false),
        ("null is a value", PropertyValue::Null, PropertyValue::Null, true),
        ("null is nothing else", PropertyValue::Null, text(""), false),
        ("timestamps", PropertyValue::Timestamp(7), PropertyValue::Timestamp(7), true),
        ("a timestamp is no integer", PropertyValue::Timestamp(7), integer(7), false),
        ("identifiers", PropertyValue::Uuid(7), PropertyValue::Uuid(7), true),
        ("other encodings", PropertyValue::Other([1, 2].into()), PropertyValue::Other([1, 2].into()), true),
    ];
    for (what, wanted, has, expected) in rows {
        let rule_properties =
            RuleProperties { user: user(&[("other", integer(9)), ("p", has)]), ..RuleProperties::default() };
        assert_eq!(does_match(&wants(&[("p", wanted)]), &rule_properties), expected, "{what}");
    }
}

#[test]
fn names_of_properties_match_whatever_their_case_and_missing_ones_do_not() {
    let rule_properties =
        RuleProperties { user: user(&[("Region", text("eu"))]), ..RuleProperties::default() };
    assert!(does_match(&wants(&[("rEGION", text("eu"))]), &rule_properties));
    assert!(!does_match(&wants(&[("regio", text("eu"))]), &rule_properties));
    assert!(!does_match(&wants(&[("other", PropertyValue::Null)]), &rule_properties), "missing is not null");

    let both = wants(&[("region", text("eu")), ("size", PropertyValue::Integer(1))]);
    assert!(!does_match(&both, &rule_properties), "all must hold");
}

#[test]
fn every_system_property_is_compared_with_its_own() {
    type Set<T> = fn(&mut T) -> &mut Option<Box<str>>;
    let fields: [(&str, Set<CorrelationFilter>, Set<RuleProperties>); 8] = [
        (
            "correlation id",
            |filter| &mut filter.correlation_id,
            |rule_properties| &mut rule_properties.correlation_id,
        ),
        ("message id", |filter| &mut filter.message_id, |rule_properties| &mut rule_properties.message_id),
        ("to", |filter| &mut filter.to, |rule_properties| &mut rule_properties.to),
        ("reply to", |filter| &mut filter.reply_to, |rule_properties| &mut rule_properties.reply_to),
        ("label", |filter| &mut filter.label, |rule_properties| &mut rule_properties.label),
        ("session id", |filter| &mut filter.session_id, |rule_properties| &mut rule_properties.session_id),
        ("reply-to session id", |f| &mut f.reply_to_session_id, |f| &mut f.reply_to_session_id),
        (
            "content type",
            |filter| &mut filter.content_type,
            |rule_properties| &mut rule_properties.content_type,
        ),
    ];
    for (index, (name, wanted, _)) in fields.iter().enumerate() {
        let mut filter = CorrelationFilter::default();
        *wanted(&mut filter) = Some("v".into());
        let filter = Filter::Correlation(Box::new(filter));
        for (other, (_, _, has)) in fields.iter().enumerate() {
            let mut rule_properties = RuleProperties::default();
            *has(&mut rule_properties) = Some("v".into());
            assert_eq!(does_match(&filter, &rule_properties), index == other, "{name}");
            *has(&mut rule_properties) = Some("V".into());
            assert!(!does_match(&filter, &rule_properties), "{name}: case matters");
        }
    }
}

#[test]
fn a_subscription_may_begin_without_rules() {
    let mut rig = Rig::plain();
    let (queue, rules) = (crate::QueueId(50), Vec::new());
    rig.done(Command::DeclareSubscription {
        intent: crate::Intent::Declare,
        queue,
        name: "none".into(),
        options: options(),
        rules,
    })
    .unwrap();
    rig.send(message("one"));
    assert_eq!((rig.waiting(queue).len(), rig.rules(queue, 0, 10)), (0, Ok(Vec::new())));
}

#[test]
fn a_new_subscription_gets_everything_until_its_rules_say_otherwise() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("all");
    assert_eq!(rig.rules(queue, 0, 10), Ok(vec!["$Default".to_owned()]));
    rig.send(message("one"));
    rig.done(Command::RemoveRule { queue, name: "$default".into() }).unwrap();
    rig.send(message("two"));
    assert_eq!(rig.waiting(queue), [1], "without rules it gets nothing");
    assert_eq!(rig.rules(queue, 0, 10), Ok(Vec::new()));
    rig.restart();
    assert_eq!(rig.rules(queue, 0, 10), Ok(Vec::new()), "nor does the default come back");
    rig.done(Command::AddRule { queue, rule: rule("again", Filter::True) }).unwrap();
    rig.send(message("three"));
    assert_eq!(rig.waiting(queue), [1, 2], "the number of a removed message was free again");
}

#[test]
fn several_matching_rules_make_one_copy() {
    let mut rig = Rig::plain();
    let rules = vec![rule("a", Filter::True), rule("b", Filter::True), rule("c", Filter::False)];
    let queue = rig.try_subscribe("a", options(), rules).unwrap();
    rig.send(message("x"));
    assert_eq!(rig.waiting(queue), [1]);
}

#[test]
fn rules_are_listed_in_pages_the_default_first() {
    let mut rig = Rig::plain();
    let names = ["b", "$Default", "C", "a", "#", "d"];
    let rules = names[..4].iter().map(|name| rule(name, Filter::True)).collect();
    let queue = rig.try_subscribe("x", options(), rules).unwrap();
    for name in &names[4..] {
        rig.done(Command::AddRule { queue, rule: rule(name, Filter::False) }).unwrap();
    }
    let sorted = ["$Default", "#", "a", "b", "C", "d"].map(str::to_owned);
    assert_eq!(rig.rules(queue, 0, 100), Ok(sorted.to_vec()));
    assert_eq!(rig.rules(queue, 2, 3), Ok(sorted[2..5].to_vec()));
    assert_eq!(rig.rules(queue, 5, 3), Ok(sorted[5..].to_vec()));
    assert_eq!(rig.rules(queue, 6, 3), Ok(Vec::new()));
    assert_eq!(rig.rules(queue, 0, 0), Ok(Vec::new()));
}

#[test]
fn names_of_rules_are_unique_whatever_their_case() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("x");
    let other = rig.subscribe("y");
    let add = |queue, name: &str| Command::AddRule { queue, rule: rule(name, Filter::True) };
    rig.done(add(queue, "One")).unwrap();
    assert_eq!(rig.done(add(queue, "oNE")), Err(Refusal::RuleExists("oNE".into())));
    assert_eq!(rig.done(add(queue, "$DEFAULT")), Err(Refusal::RuleExists("$DEFAULT".into())));
    rig.done(add(other, "one")).unwrap();
    let remove = |name: &str| Command::RemoveRule { queue, name: name.into() };
    rig.done(remove("ONE")).unwrap();
    assert_eq!(rig.done(remove("ONE")), Err(Refusal::RuleNotFound("ONE".into())));
    let twice = vec![rule("a", Filter::True), rule("A", Filter::False)];
    let refused = rig.try_subscribe("z", options(), twice);
    assert_eq!(refused, Err(Refusal::InvalidArgument("There are two rules 'A'.".to_owned())));
}

#[test]
fn a_rule_was_created_when_the_partition_says_so() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe_to("x", Filter::True);
    let first = rig.now;
    rig.advance(5);
    let late = Rule { created_at: Timestamp(1), ..rule("s", Filter::True) };
    rig.done(Command::AddRule { queue, rule: late }).unwrap();
    rig.restart();
    let rules = &rig.partition.subscription(queue).unwrap().rules;
    let created: Vec<_> = rules.iter().map(|rule| rule.created_at).collect();
    assert_eq!(created, [first, rig.now]);
}

#[test]
fn an_empty_correlation_filter_is_refused() {
    let mut rig = Rig::plain();
    let empty = || rule("empty", Filter::Correlation(Box::default()));
    let queue = rig.subscribe("x");
    let refusals = [
        rig.done(Command::AddRule { queue, rule: empty() }),
        rig.try_subscribe("y", options(), vec![empty()]).map(|_| ()),
    ];
    for refusal in refusals {
        assert!(matches!(&refusal, Err(Refusal::InvalidArgument(text)) if text.contains("'empty' is empty")));
    }
    assert_eq!(rig.partition.subscription_count(), 1);
}

#[test]
fn rules_of_a_missing_subscription_are_refused() {
    let mut rig = Rig::plain();
    for queue in [QueueId(99), TOPIC] {
        let add = Command::AddRule { queue, rule: rule("r", Filter::True) };
        assert_eq!(rig.done(add), Err(Refusal::EntityDeleted));
        let remove = Command::RemoveRule { queue, name: "r".into() };
        assert_eq!(rig.done(remove), Err(Refusal::EntityDeleted));
        assert_eq!(rig.rules(queue, 0, 1), Err(Refusal::EntityDeleted));
    }
}

#[test]
fn rules_must_fit_into_one_stored_value() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("x");
    let large = label(&"x".repeat(RULES_BYTES_MAX));
    let refused = rig.done(Command::AddRule { queue, rule: rule("large", large) }).unwrap_err();
    assert!(refused.to_string().contains("at most 1048576 are kept"), "{refused}");
    assert_eq!(rig.rules(queue, 0, 10).unwrap().len(), 1);
}
