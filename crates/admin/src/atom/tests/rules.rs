//! Filters and actions of rules.

use axum::http::Method;
use peeklock_engine::{Filter, Given, PropertyValue, RuleLimits, SqlAction};
use proptest::prelude::*;

use super::{Broker, entry, typed_value};
use crate::Limits;
use crate::atom::xml::{Document, Element, parse};
use crate::atom::{action, filter};

const PYTHON_SQL_RULE: &str = include_str!("bodies/python-sql-rule.xml");
const JS_SQL_RULE: &str = include_str!("bodies/js-sql-rule.xml");
const RULE: &str = "/t/subscriptions/s/rules/r";

fn sql_filter(inner: &str) -> String {
    format!("<Filter i:type=\"SqlFilter\">{inner}</Filter>")
}

fn sql_action(inner: &str) -> String {
    format!("<Action i:type=\"SqlRuleAction\">{inner}</Action>")
}

fn expression(sql: &str) -> String {
    format!("<SqlExpression>{}</SqlExpression>", quick_xml::escape::escape(sql))
}

fn rule(inner: &str) -> String {
    format!("<RuleDescription>{inner}</RuleDescription>")
}

fn typed(key: &str, kind: &str, text: &str) -> String {
    let value = typed_value(kind, text);
    format!("<KeyValueOfstringanyType><Key>{key}</Key>{value}</KeyValueOfstringanyType>")
}

#[tokio::test]
async fn sql_comes_back_as_js_reads_it() {
    let broker = Broker::with_subscription().await;
    for (path, body) in
        [("/t/subscriptions/s/rules/py", PYTHON_SQL_RULE), ("/t/subscriptions/s/rules/js", JS_SQL_RULE)]
    {
        let put = broker.ask(Method::PUT, path, &[], body).await;
        assert_eq!(put.status, 201, "{}", put.body);
    }
    let python = broker.get("/t/subscriptions/s/rules/py").await.body;
    for part in [
        "<Filter i:type=\"SqlFilter\"><SqlExpression>a = @a AND b &gt; @b AND c &lt; @c AND d = @d AND e &lt;&gt; @e AND f = @f AND g = @g</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters>",
        "<Action i:type=\"SqlRuleAction\"><SqlExpression>SET a = @a; REMOVE b</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters>",
        &typed("@a", "int", "5"),
        &typed("@b", "long", "1099511627776"),
        &typed("@c", "double", "1.5"),
        &typed("@d", "boolean", "true"),
        &typed("@e", "string", "x"),
        &typed("@f", "dateTime", "2026-01-01T00:00:00"),
        &typed("@g", "duration", "PT5S"),
    ] {
        assert!(python.contains(part), "{part}: {python}");
    }
    let js = broker.get("/t/subscriptions/s/rules/js").await.body;
    for part in [
        typed("@a", "double", "5"),
        typed("@f", "dateTime", "1970-01-01T00:00:00Z"),
        format!("<Parameters>{}</Parameters></Action>", typed("@a", "double", "1")),
    ] {
        assert!(js.contains(&part), "{part}: {js}");
    }
    let counted = broker.get("/t?api-version=2024-05").await;
    assert_eq!(counted.text_of("SqlFilterCount").as_deref(), Some("3"), "the default rule is counted");
    assert_eq!(counted.text_of("CorrelationFilterCount").as_deref(), Some("0"));
}

/// As asserted by .NET's live tests, and answered by the service in their recordings.
#[tokio::test]
async fn values_keep_type_zone_and_ticks() {
    let broker = Broker::with_subscription().await;
    let values = [
        typed("@long", "long", "3"),
        typed("@short", "short", "3"),
        typed("@byte", "byte", "-3"),
        typed("@unsignedByte", "unsignedByte", "3"),
        typed("@float", "float", "0.1"),
        typed("@ticks", "dateTime", "2020-08-03T20:44:01.3987201Z"),
        typed("@max", "dateTime", "9999-12-31T23:59:59.9999999Z"),
        typed("@maxWithoutZone", "dateTime", "9999-12-31T23:59:59.9999999"),
        typed("@min", "dateTime", "0001-01-01T00:00:00"),
        typed("@withoutZone", "dateTime", "2020-07-05T11:12:13"),
        typed("@offset", "dateTime", "2020-07-05T11:12:13.5+02:00"),
    ];
    let sql = format!("{}<Parameters>{}</Parameters>", expression("a = @long"), values.concat());
    let created = broker.create(RULE, &rule(&sql_filter(&sql))).await;
    assert_eq!(created.status, 201, "{}", created.body);
    for value in &values {
        assert!(created.body.contains(value), "{value}: {}", created.body);
    }
    assert_eq!(broker.get(RULE).await.body, created.body);
    for (kind, text) in
        [("short", "32768"), ("byte", "128"), ("unsignedByte", "-1"), ("dateTime", "9999-12-32")]
    {
        let wrong = format!("{}<Parameters>{}</Parameters>", expression("a = @a"), typed("@a", kind, text));
        broker
            .create(RULE, &rule(&sql_filter(&wrong)))
            .await
            .refused(400, &format!("has a value that is not a valid {kind}."));
    }
}

#[tokio::test]
async fn a_condition_that_is_always_true_or_false_keeps_its_text_and_its_type() {
    let broker = Broker::with_subscription().await;
    for (kind, sql) in
        [("SqlFilter", " 1 = 1 "), ("SqlFilter", "1=0"), ("TrueFilter", "1=1"), ("FalseFilter", "1=0")]
    {
        let filter = format!("<Filter i:type=\"{kind}\">{}</Filter>", expression(sql));
        assert_eq!(broker.create(RULE, &rule(&filter)).await.status, 201);
        let shown = broker.get(RULE).await.description();
        let shown = shown.child("Filter").unwrap();
        assert_eq!((shown.kind.as_deref(), shown.text_of("SqlExpression")), (Some(kind), Some(sql)));
        assert_eq!(broker.delete(RULE).await.status, 200);
    }
}

#[tokio::test]
async fn without_parameters_there_is_no_list_of_them() {
    let broker = Broker::with_subscription().await;
    let plain = rule(&(sql_filter(&expression("a = 1")) + &sql_action(&expression("SET a = 2"))));
    let created = broker.create(RULE, &plain).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert!(!created.body.contains("Parameters"), "{}", created.body);
}

#[tokio::test]
async fn an_action_is_replaced_and_removed_by_an_update() {
    let broker = Broker::with_subscription().await;
    let with = |action: &str| rule(&(sql_filter(&expression("1=1")) + action));
    assert_eq!(broker.create(RULE, &with(&sql_action(&expression("SET a = 1")))).await.status, 201);
    let action = |answer: &super::Answer| {
        let description = answer.description();
        let action = description.child("Action").unwrap();
        (action.kind.clone().unwrap(), action.text_of("SqlExpression").map(str::to_owned))
    };
    let sql = |text: &str| ("SqlRuleAction".to_owned(), Some(text.to_owned()));
    assert_eq!(action(&broker.get(RULE).await), sql("SET a = 1"));
    let updated = broker.update(RULE, &with(&sql_action(&expression("REMOVE a")))).await;
    assert_eq!(action(&updated), sql("REMOVE a"));
    for none in [
        "",
        "<Action i:type=\"EmptyRuleAction\"/>",
        "<Action i:nil=\"true\"/>",
        &sql_action(&expression(" ")),
    ] {
        assert_eq!(broker.update(RULE, &with(&sql_action(&expression("REMOVE a")))).await.status, 200);
        let updated = broker.update(RULE, &with(none)).await;
        assert_eq!(action(&updated), ("EmptyRuleAction".to_owned(), None), "{none}");
    }
}

#[tokio::test]
async fn the_first_rule_may_be_sql_with_an_action() {
    let broker = Broker::with_subscription().await;
    let rule = format!(
        "<SubscriptionDescription><DefaultRuleDescription>{}{}<Name>first</Name></DefaultRuleDescription></SubscriptionDescription>",
        sql_filter(&expression("a LIKE 'x%'")),
        sql_action(&expression("SET b = 1")),
    );
    assert_eq!(broker.create("/t/subscriptions/first", &rule).await.status, 201);
    let shown = broker.get("/t/subscriptions/first/rules/first").await.description();
    assert_eq!(shown.child("Filter").unwrap().text_of("SqlExpression"), Some("a LIKE 'x%'"));
    assert_eq!(shown.child("Action").unwrap().text_of("SqlExpression"), Some("SET b = 1"));
}

#[tokio::test]
async fn invalid_rules_are_refused_with_their_place() {
    let broker = Broker::with_subscription().await;
    let filter = |sql: &str| sql_filter(&expression(sql));
    let parameters =
        |list: &str| sql_filter(&format!("{}<Parameters>{list}</Parameters>", expression("a = @a")));
    let one = "<KeyValueOfstringanyType><Key>@a</Key><Value>1</Value></KeyValueOfstringanyType>";
    for (description, text) in [
        (filter("a >"), "The SQL of the rule's filter can't be read: "),
        (filter("a b"), "(at character 3 of the expression)."),
        (filter("a = @a"), "(at character 5 of the expression)."),
        (filter(""), "(at character 1 of the expression)."),
        (filter("1=1") + &sql_action(&expression("SET a 1")), "The SQL of the rule's action can't be read: "),
        (filter("1=1") + &sql_action(&expression("SET a 1")), "(at character 7 of the expression)."),
        (filter("1=1") + "<Action i:type=\"MagicAction\"/>", "xsi:type"),
        (
            parameters("<KeyValueOfstringanyType><Key>@a</Key></KeyValueOfstringanyType>"),
            "needs a Key and a Value",
        ),
        (
            parameters(&typed("@a", "int", "many")),
            "'@a' in the 'Parameters' of the rule's filter has a value that is not a valid int.",
        ),
        (parameters(&[one, one].concat()), "'@a' occurs twice in the 'Parameters'"),
        ("<Filter i:type=\"CorrelationFilter\"/>".to_owned(), "at least one field"),
        ("<Filter i:type=\"MagicFilter\"/>".to_owned(), "xsi:type"),
    ] {
        broker.create(RULE, &rule(&description)).await.refused(400, text);
        assert_eq!(broker.get(RULE).await.status, 404);
    }
}

fn value() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        Just(PropertyValue::Null),
        any::<bool>().prop_map(PropertyValue::Boolean),
        any::<i64>().prop_map(PropertyValue::Integer),
        any::<i32>().prop_map(|number| PropertyValue::Integer(number.into())),
        (1_u64 << 63..).prop_map(PropertyValue::Unsigned),
        any::<f64>()
            .prop_filter("NaN is nothing, not even itself", |number| !number.is_nan())
            .prop_map(PropertyValue::Double),
        "[ -~üß\\n\\t\\r]{0,20}".prop_map(|text| PropertyValue::Text(text.into())),
        any::<i64>().prop_map(PropertyValue::Timestamp),
        (-1_i64 << 47..1 << 47).prop_map(PropertyValue::Timestamp),
        any::<u128>().prop_map(PropertyValue::Uuid),
        any::<i64>().prop_map(PropertyValue::TimeSpan),
        any::<i64>().prop_map(PropertyValue::DateTimeOffset),
        any::<u128>().prop_map(PropertyValue::Decimal),
        (0_u128..1 << 60, 6140_u128..6180)
            .prop_map(|(coefficient, exponent)| PropertyValue::Decimal(exponent << 113 | coefficient)),
        any::<Vec<u8>>().prop_map(|bytes| {
            let value = peeklock_wire::Value::Binary(bytes.into());
            peeklock_message::rule_properties::from_value(value)
        }),
    ]
}

/// Writes an element and reads it again.
fn again(write: impl FnOnce(&mut Document)) -> Element {
    let mut document = Document::new();
    let namespace = "http://www.w3.org/2001/XMLSchema-instance";
    document.element("RuleDescription", &[("xmlns:i", namespace)], write);
    parse(&document.finish()).unwrap()
}

/// Values with a specified type.
fn given() -> impl Strategy<Value = PropertyValue> {
    let given = prop_oneof![
        any::<i8>().prop_map(Given::Byte),
        any::<i16>().prop_map(Given::Short),
        any::<i32>().prop_map(Given::Int),
        any::<i64>().prop_map(Given::Long),
        any::<u8>().prop_map(Given::UByte),
        any::<u16>().prop_map(Given::UShort),
        any::<u32>().prop_map(Given::UInt),
        any::<u64>().prop_map(Given::ULong),
        any::<f32>().prop_filter("NaN is nothing", |number| !number.is_nan()).prop_map(Given::Float),
        any::<char>().prop_map(Given::Char),
        "[a-z:/.?&<>]{1,20}".prop_map(|uri| Given::Uri(uri.into())),
    ];
    given.prop_map(|given| PropertyValue::Given(Box::new(given)))
}

fn plain(parameters: &[(Box<str>, PropertyValue)]) -> Vec<PropertyValue> {
    parameters.iter().map(|(_, value)| value.plain()).collect()
}

proptest! {
    #[test]
    fn values_of_every_kind_come_back(values in prop::collection::vec(value(), 1..5)) {
        let parameters: Vec<_> = (0..).zip(values).map(|(n, value)| (format!("@p{n}").into(), value)).collect();
        let read = Filter::sql("a = @p0", parameters.clone()).unwrap();
        let element = again(|document| filter::write(document, &read));
        let Ok(Filter::Sql(found)) = filter::read(&element) else { panic!("{element:?}") };
        prop_assert_eq!(plain(found.parameters()), plain(&parameters));
        let read = SqlAction::new("SET a = @p0", parameters.clone()).unwrap();
        let element = again(|document| action::write(document, Some(&read)));
        let found = action::read(&element).unwrap().unwrap();
        prop_assert_eq!(plain(found.parameters()), plain(&parameters));
    }

    #[test]
    fn types_of_values_come_back(values in prop::collection::vec(given(), 1..5)) {
        let parameters: Vec<_> = (0..).zip(values).map(|(n, value)| (format!("@p{n}").into(), value)).collect();
        let read = Filter::sql("a = @p0", parameters).unwrap();
        let element = again(|document| filter::write(document, &read));
        prop_assert_eq!(filter::read(&element).unwrap(), read);
    }

    #[test]
    fn expressions_come_back_letter_by_letter(text in "[ -~üß\\n\\t\\r]{0,20}", space in "[ \\n\\t\\r]{0,3}") {
        let text = format!("{space}a = '{}'{space}", text.replace('\'', "''"));
        let read = Filter::sql(&text, Vec::new()).unwrap();
        let element = again(|document| filter::write(document, &read));
        prop_assert_eq!(filter::read(&element).unwrap(), read);
    }
}

#[tokio::test]
async fn topics_have_limits_of_rules_and_subscriptions() {
    let limits = RuleLimits {
        subscriptions_per_topic: 1,
        sql_filters_per_topic: 1,
        correlation_filters_per_topic: 1,
        sql_expression_characters: 20,
        action_statements: 2,
    };
    let broker = Broker::with(Limits::default(), limits).await;
    assert_eq!(broker.create("/t", "<TopicDescription/>").await.status, 201);
    assert_eq!(broker.create("/t/subscriptions/s", "<SubscriptionDescription/>").await.status, 201);
    let sql = rule(&sql_filter(&expression("a = 1")));
    let correlation = rule("<Filter i:type=\"CorrelationFilter\"><Label>l</Label></Filter>");
    // N and J: QuotaExceeded for every 403 except that of sub-code 40301.
    for (first, second, body, sub_code, text) in [
        ("s/rules/one", "s/rules/two", sql, 40501, "at most 1 SQL filters"),
        ("s/rules/three", "s/rules/four", correlation, 40502, "at most 1 correlation filters"),
    ] {
        assert_eq!(broker.create(&format!("/t/subscriptions/{first}"), &body).await.status, 201);
        let refused = broker.create(&format!("/t/subscriptions/{second}"), &body).await;
        assert_eq!(refused.status, 403);
        refused.has_sub_code(sub_code, text);
    }
    let refused = broker.create("/t/subscriptions/other", "<SubscriptionDescription/>").await;
    assert_eq!(refused.status, 403);
    refused.has_sub_code(40503, "at most 1 subscriptions");
    let long = rule(&sql_filter(&expression("a = 'twenty characters'")));
    broker.update("/t/subscriptions/s/rules/one", &long).await.refused(400, "at most 20 are accepted");
    let three =
        rule(&(sql_filter(&expression("1=1")) + &sql_action(&expression("REMOVE a REMOVE b REMOVE c"))));
    broker.update("/t/subscriptions/s/rules/one", &three).await.refused(400, "at most");
}

#[tokio::test]
async fn nothing_of_a_rule_is_lost_between_get_and_update() {
    let broker = Broker::with_subscription().await;
    for body in [PYTHON_SQL_RULE, JS_SQL_RULE] {
        assert_eq!(broker.ask(Method::PUT, RULE, &[], body).await.status, 201);
        let got = broker.get(RULE).await;
        let updated = broker.ask(Method::PUT, RULE, &[("if-match", "*")], got.body.clone()).await;
        assert_eq!(updated.description(), got.description());
        assert_eq!(broker.delete(RULE).await.status, 200);
    }
    assert!(
        entry("<RuleDescription/>").contains("RuleDescription xmlns="),
        "the harness completes the namespace"
    );
}
