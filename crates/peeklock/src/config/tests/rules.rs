//! SQL in rules: parsed from TOML, and written again.

use peeklock_engine::{Filter, PropertyValue, Rule, RuleLimits, SqlAction};
use proptest::prelude::*;

use super::*;
use crate::config::convert::to_toml;
use crate::config::file;

const BEFORE: &str = "[[topics]]\nname = \"t\"\n[[topics.subscriptions]]\nname = \"s\"\n[[topics.subscriptions.rules]]\nname = \"r\"\n";

fn rule(keys: &str) -> Rule {
    let config = merged(ServeArgs::default(), &format!("{BEFORE}{keys}"));
    config.topics[0].subscriptions[0].rules[0].clone()
}

#[test]
fn filter_and_action_have_their_parameters_in_common() {
    let found =
        rule("sql = \"a = @x\"\naction = 'SET b = @y'\nparameters = { x = 5, y = 2026-01-31T12:00:00Z }");
    let parameters = vec![
        ("x".into(), PropertyValue::Integer(5)),
        ("y".into(), PropertyValue::Timestamp(1_769_860_800_000)),
    ];
    assert_eq!(found.filter, Filter::sql("a = @x", parameters.clone()).unwrap());
    assert_eq!(found.action, Some(SqlAction::new("SET b = @y", parameters).unwrap()));
    let found =
        rule("filter = \"true\"\naction = \"\"\"\nSET b = @y\nREMOVE c\"\"\"\nparameters = { \"@y\" = 0.5 }");
    let parameters = vec![("@y".into(), PropertyValue::Double(0.5))];
    assert_eq!(found.filter, Filter::True);
    assert_eq!(found.action, Some(SqlAction::new("SET b = @y\nREMOVE c", parameters).unwrap()));
    assert!(rule("correlation = { to = \"x\" }\naction = \"REMOVE c\"").action.is_some());
}

/// An export must not change what a rule matches.
#[test]
fn values_of_types_that_toml_does_not_have_are_written_with_their_type() {
    let values = [
        ("a", PropertyValue::Null),
        ("b", PropertyValue::Uuid(7)),
        ("c", PropertyValue::TimeSpan(-36_000_000_000)),
        ("d", peeklock_admin::untyped(Some(("decimal".to_owned(), "1.50".to_owned()))).unwrap()),
        ("e", PropertyValue::DateTimeOffset(638_000_000_000_000_000)),
        ("f", PropertyValue::Other([0xa0, 1, 9].into())),
        ("g", PropertyValue::Timestamp(i64::MAX)),
    ];
    let parameters: Vec<_> = values.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let mut config = file::parse("f", &format!("{BEFORE}sql = \"x = 1\"\n")).unwrap();
    let rule = &mut config.topics[0].subscriptions[0].rules[0];
    rule.filter = Filter::sql("a = b", parameters.clone()).unwrap();
    let read = file::parse("f", &to_toml(&config)).unwrap();
    let Filter::Sql(filter) = &read.topics[0].subscriptions[0].rules[0].filter else { panic!("no SQL") };
    let plain = |all: &[(Box<str>, PropertyValue)]| -> Vec<_> {
        all.iter().map(|(name, value)| (name.clone(), value.plain())).collect()
    };
    assert_eq!(plain(filter.parameters()), plain(&parameters));
}

#[test]
fn limits_of_rules_are_said_by_name() {
    let limits = |keys: &str| merged(ServeArgs::default(), keys).limits.rules;
    assert_eq!(limits(""), RuleLimits::default());
    let all = "[limits]\nsubscriptions_per_topic = 1\nsql_filters_per_topic = 0\n\
               correlation_filters_per_topic = 2\nsql_expression_characters = 3\naction_statements = 4";
    let expected = RuleLimits {
        subscriptions_per_topic: 1,
        sql_filters_per_topic: 0,
        correlation_filters_per_topic: 2,
        sql_expression_characters: 3,
        action_statements: 4,
    };
    assert_eq!(limits(all), expected);
    let text =
        format!("[limits]\nsql_expression_characters = 5\naction_statements = 1\n{BEFORE}sql = \"a = 12\"\n");
    let message = only_message(&text);
    assert!(
        message.contains("sql: has 6 characters, and sql_expression_characters in [limits] is 5"),
        "{message}"
    );
    let text = format!(
        "[limits]\naction_statements = 1\n{BEFORE}filter = \"true\"\naction = \"REMOVE a REMOVE b\"\n"
    );
    let message = only_message(&text);
    assert!(
        message.contains("action: has 2 statements, and action_statements in [limits] is 1"),
        "{message}"
    );
}

fn value() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        any::<bool>().prop_map(PropertyValue::Boolean),
        any::<i64>().prop_map(PropertyValue::Integer),
        (1_u64 << 63..).prop_map(PropertyValue::Unsigned),
        any::<f64>().prop_filter("no TOML", |number| !number.is_nan()).prop_map(PropertyValue::Double),
        "\\PC{0,20}".prop_map(|text| PropertyValue::Text(text.into())),
        (-1_i64 << 45..1 << 45).prop_map(PropertyValue::Timestamp),
    ]
}

fn rules() -> impl Strategy<Value = Rule> {
    let text =
        "[ -~ü\\n\\t\\r\u{7}]{0,20}".prop_map(|text: String| format!("'{}'", text.replace('\'', "''")));
    (text, value(), 0..4, 0..3).prop_map(|(text, value, filter, action)| {
        let parameters = if filter == 3 || action == 2 { vec![("p".into(), value)] } else { Vec::new() };
        let filter = match filter {
            0 => Filter::True,
            1 => Filter::sql("1=0", parameters.clone()).unwrap(),
            2 => Filter::sql(&format!("a = {text}"), parameters.clone()).unwrap(),
            _ => Filter::sql(&format!("a = {text} AND b > @p"), parameters.clone()).unwrap(),
        };
        let action = match action {
            0 => None,
            1 => Some(SqlAction::new(&format!("SET a = {text};"), parameters).unwrap()),
            _ => Some(SqlAction::new("SET a = @p\nREMOVE b", parameters).unwrap()),
        };
        Rule { filter, action, ..rule("filter = \"true\"") }
    })
}

proptest! {
    #[test]
    fn rules_are_written_as_they_are_read(rule in rules()) {
        let mut config = file::parse("t", &format!("{BEFORE}filter = \"true\"")).unwrap();
        config.topics[0].subscriptions[0].rules = vec![rule];
        let toml = to_toml(&config);
        let again = file::parse("toml", &toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
        prop_assert_eq!(again.topics, config.topics, "{}", toml);
    }
}
