//! Operations on rules of subscriptions.

use peeklock_engine::{CorrelationFilter, Filter, Given, PropertyValue, Rule, SqlAction, SqlFilter};

use super::*;
use crate::servicebus::errors::condition;

const NODE: &str = "t/Subscriptions/s";

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(key, value)| (string(key), value.clone())).collect())
}

fn add(name: &str, description: &[(&str, Value)]) -> Result<Rule, Fault> {
    let body = [("rule-name", string(name)), ("rule-description", map(description))];
    match prepare("com.microsoft:add-rule", NODE, &body)?.command {
        Command::AddRule { queue: QueueId(2), rule } => Ok(rule),
        other => panic!("{other:?}"),
    }
}

fn sql(expression: &str) -> (&'static str, Value) {
    ("sql-filter", map(&[("expression", string(expression))]))
}

fn code(result: Result<Rule, Fault>) -> (&'static str, i32) {
    result.unwrap_err().condition_and_status()
}

fn rule(name: &str, filter: Filter) -> Arc<Rule> {
    Arc::new(Rule { name: name.into(), filter, action: None, created_at: Timestamp(5) })
}

fn listed(rules: Vec<Arc<Rule>>) -> Answer {
    let body = [("top", Value::Int(i32::MAX)), ("skip", Value::Int(0))];
    let prepared = prepare("com.microsoft:enumerate-rules", NODE, &body).unwrap();
    assert_eq!(prepared.command, Command::ListRules { queue: QueueId(2), skip: 0, top: 100 });
    finish(&prepared, Response::Rules(Ok(rules))).unwrap()
}

fn act(expression: &str) -> (&'static str, Value) {
    ("sql-rule-action", map(&[("expression", string(expression))]))
}

#[test]
fn true_and_false_travel_as_sql_and_stay_sql() {
    let filter = |text| Filter::sql(text, Vec::new()).unwrap();
    assert_eq!(add("r", &[sql("1=1")]).unwrap().filter, filter("1=1"));
    let repeated = [sql(" 1 = 0\n"), ("rule-name", string("r")), ("sql-rule-action", Value::Null)];
    let added = add("r", &repeated).unwrap();
    assert_eq!((&added.filter, &added.action), (&filter(" 1 = 0\n"), &None));
    let answer = listed(vec![Arc::new(added)]);
    let Value::List(rules) = entry(&answer, "rules") else { panic!("a list") };
    let Some(Value::Described(description)) = rules[0].get("rule-description") else { panic!("described") };
    let Value::List(fields) = &description.value else { panic!("a list") };
    let expected = Value::described(Value::ULong(0x13_7000_0006), Value::List(vec![string(" 1 = 0\n")]));
    assert_eq!(fields[0], expected, "a SQL filter with its text");
}

/// Each type that the codec knows is returned unchanged.
#[test]
fn values_of_correlation_filters_keep_their_types() {
    let given = [
        Value::Null,
        Value::Bool(true),
        Value::UByte(1),
        Value::UShort(2),
        Value::UInt(3),
        Value::ULong(4),
        Value::ULong(u64::MAX),
        Value::Byte(-1),
        Value::Short(-2),
        Value::Int(-3),
        Value::Long(-4),
        Value::Float(0.1),
        Value::Double(0.1),
        Value::Decimal32([0x22, 0xd0, 0x00, 0x7b]),
        Value::Decimal64([0x31, 0xa0, 0, 0, 0, 0, 0, 0x7b]),
        Value::Decimal128(((6175_u128 << 113) | 125).to_be_bytes()),
        Value::Char('ß'),
        Value::Timestamp(253_402_300_799_999),
        Value::Uuid([7; 16]),
        Value::Binary("b".into()),
        string("text"),
        Value::symbol("symbol"),
        Value::List(vec![Value::Int(1)]),
        Value::described(Value::symbol("com.microsoft:uri"), string("sb://x")),
        Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(7)),
        Value::described(Value::symbol("com.microsoft:datetime-offset"), Value::Long(7)),
    ];
    let named = given.iter().enumerate().map(|(number, value)| (string(&number.to_string()), value.clone()));
    let properties = Value::Map(named.collect());
    let filter = ("correlation-filter", map(&[("properties", properties.clone())]));
    let answer = listed(vec![Arc::new(add("r", &[filter]).unwrap())]);
    let Value::List(rules) = entry(&answer, "rules") else { panic!("a list") };
    let Some(Value::Described(description)) = rules[0].get("rule-description") else { panic!("described") };
    let Value::List(fields) = &description.value else { panic!("a list") };
    let Value::Described(filter) = &fields[0] else { panic!("described") };
    let Value::List(fields) = &filter.value else { panic!("a list") };
    assert_eq!(fields[8], properties);
}

#[test]
fn filters_and_actions_are_sql_as_it_was_written() {
    let rule = add("r", &[sql("color = 'red' "), act("SET\na = 1;")]).unwrap();
    let filter = SqlFilter::new("color = 'red' ", Vec::new()).unwrap();
    assert_eq!(rule.filter, Filter::Sql(Box::new(filter)));
    assert_eq!(rule.action, Some(SqlAction::new("SET\na = 1;", Vec::new()).unwrap()));
    let correlation = ("correlation-filter", map(&[("label", string("l"))]));
    assert!(add("r", &[correlation, act("REMOVE a")]).unwrap().action.is_some());
}

#[test]
fn no_action_is_written_in_many_ways() {
    let null = ("sql-rule-action", map(&[("expression", Value::Null)]));
    for action in [("sql-rule-action", Value::Null), ("other", Value::Null), null, act(""), act(" \n")] {
        assert_eq!(add("r", &[sql("a = 1"), action]).unwrap().action, None);
    }
}

#[test]
fn invalid_sql_is_an_argument_error_with_its_place() {
    for (description, text) in [
        (&[sql("color = ")][..], "The SQL of the rule's filter can't be read: "),
        (&[sql("a b")], "(at character 3 of the expression)."),
        (&[sql("a = @missing")], "(at character 5 of the expression)."),
        (&[sql("1=1"), act("SET a 1")], "The SQL of the rule's action can't be read: "),
        (&[sql("1=1"), act("SET a 1")], "(at character 7 of the expression)."),
        (&[sql("1=1"), act("a = 1")], "SET or REMOVE"),
    ] {
        let fault = add("r", description).unwrap_err();
        assert_eq!(fault.condition_and_status(), (condition::ARGUMENT_ERROR, 400));
        assert!(fault.to_string().contains(text), "{fault}");
    }
}

#[test]
fn correlation_filters_keep_their_fields_and_the_types_of_properties() {
    let filter = map(&[
        ("correlation-id", string("c")),
        ("message-id", string("m")),
        ("to", string("to")),
        ("reply-to", string("reply")),
        ("label", string("label")),
        ("session-id", string("s")),
        ("reply-to-session-id", string("back")),
        ("content-type", string("type")),
        (
            "properties",
            map(&[
                ("n", Value::Int(1)),
                ("t", Value::Timestamp(2)),
                ("x", Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(7))),
                ("y", Value::Binary("b".into())),
            ]),
        ),
    ]);
    let Filter::Correlation(read) = add("r", &[("correlation-filter", filter)]).unwrap().filter else {
        panic!("a correlation filter")
    };
    let user = vec![
        ("n".into(), PropertyValue::Given(Box::new(Given::Int(1)))),
        ("t".into(), PropertyValue::Timestamp(2)),
        ("x".into(), PropertyValue::TimeSpan(7)),
        ("y".into(), PropertyValue::Other(Value::Binary("b".into()).to_bytes().as_ref().into())),
    ];
    let expected = CorrelationFilter {
        correlation_id: Some("c".into()),
        message_id: Some("m".into()),
        to: Some("to".into()),
        reply_to: Some("reply".into()),
        label: Some("label".into()),
        session_id: Some("s".into()),
        reply_to_session_id: Some("back".into()),
        content_type: Some("type".into()),
        user,
    };
    assert_eq!(*read, expected);
    let answer = listed(vec![rule("r", Filter::Correlation(read))]);
    let Value::List(rules) = entry(&answer, "rules") else { panic!("a list") };
    let Some(Value::Described(description)) = rules[0].get("rule-description") else { panic!("described") };
    let Value::List(fields) = &description.value else { panic!("a list") };
    let Value::Described(filter) = &fields[0] else { panic!("described") };
    let text = ["c", "m", "to", "reply", "label", "s", "back", "type"].map(string);
    let properties = map(&[
        ("n", Value::Int(1)),
        ("t", Value::Timestamp(2)),
        ("x", Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(7))),
        ("y", Value::Binary("b".into())),
    ]);
    assert_eq!(filter.descriptor, Value::ULong(0x13_7000_0009));
    assert_eq!(filter.value, Value::List(text.into_iter().chain([properties]).collect()));
}

#[test]
fn rules_are_listed_byte_for_byte_as_the_sdks_read_them() {
    let label = CorrelationFilter { label: Some("l".into()), ..CorrelationFilter::default() };
    let answer =
        listed(vec![rule("$Default", Filter::True), rule("r", Filter::Correlation(Box::new(label)))]);
    let Value::List(rules) = entry(&answer, "rules") else { panic!("a list") };
    let encoded = |index: usize| rules[index].get("rule-description").unwrap().to_bytes();
    let ulong = |code: u64| [&[0x00, 0x80][..], &code.to_be_bytes()].concat();
    let created_at = [&[0x83][..], &5_i64.to_be_bytes()].concat();
    let default = [
        ulong(0x137_0000_0004),
        vec![0xc0, 42, 4],
        ulong(0x13_7000_0007),
        vec![0x45],
        ulong(0x137_0000_0005),
        vec![0x45],
        b"\xa1\x08$Default".to_vec(),
        created_at.clone(),
    ];
    assert_eq!(encoded(0)[..], default.concat());
    let correlation = [
        ulong(0x137_0000_0004),
        vec![0xc0, 50, 4],
        ulong(0x13_7000_0009),
        // Nine fields, the last a map without entries.
        vec![0xc0, 14, 9, 0x40, 0x40, 0x40, 0x40, 0xa1, 1, b'l', 0x40, 0x40, 0x40, 0xc1, 1, 0],
        ulong(0x137_0000_0005),
        vec![0x45],
        b"\xa1\x01r".to_vec(),
        created_at,
    ];
    assert_eq!(encoded(1)[..], correlation.concat());
}

#[test]
fn sql_is_listed_byte_for_byte_as_the_sdks_read_it() {
    let filter = SqlFilter::new("a > 5", Vec::new()).unwrap();
    let action = SqlAction::new("SET b = 'x'", Vec::new()).unwrap();
    let rule = Rule { action: Some(action), ..Rule::clone(&rule("r", Filter::Sql(Box::new(filter)))) };
    let answer = listed(vec![Arc::new(rule)]);
    let Value::List(rules) = entry(&answer, "rules") else { panic!("a list") };
    let ulong = |code: u64| [&[0x00, 0x80][..], &code.to_be_bytes()].concat();
    // J and Ja compare the numbers and read the first field; the filter's has one digit less than the action's.
    let expected = [
        ulong(0x137_0000_0004),
        vec![0xc0, 59, 4],
        ulong(0x13_7000_0006),
        vec![0xc0, 8, 1],
        b"\xa1\x05a > 5".to_vec(),
        ulong(0x137_0000_0006),
        vec![0xc0, 14, 1],
        b"\xa1\x0bSET b = 'x'".to_vec(),
        b"\xa1\x01r".to_vec(),
        [&[0x83][..], &5_i64.to_be_bytes()].concat(),
    ];
    assert_eq!(rules[0].get("rule-description").unwrap().to_bytes()[..], expected.concat());
}

#[test]
fn past_the_end_is_204() {
    assert_eq!(listed(Vec::new()), Answer::no_content());
}

#[test]
fn senseless_rules_are_argument_errors() {
    let null_fields = map(&[("label", Value::Null), ("properties", Value::Null)]);
    let twice = map(&[("a", Value::Int(1)), ("A", Value::Int(2))]);
    let descriptions: [&[(&str, Value)]; 8] = [
        &[],
        &[("sql-filter", Value::Null)],
        &[("sql-filter", string("1=1"))],
        &[("sql-filter", map(&[("expression", Value::Int(1))]))],
        &[("correlation-filter", null_fields)],
        &[("correlation-filter", map(&[("label", Value::Int(1))]))],
        &[("correlation-filter", map(&[("properties", twice)]))],
        &[sql("1=1"), ("correlation-filter", map(&[("label", string("l"))]))],
    ];
    for description in descriptions {
        assert_eq!(code(add("r", description)), (condition::ARGUMENT_ERROR, 400), "{description:?}");
    }
    for name in ["", &"n".repeat(51), "a/b", "a\\b", "a@b", "a?b", "a#b"] {
        assert_eq!(code(add(name, &[sql("1=1")])), (condition::ARGUMENT_ERROR, 400), "{name}");
    }
    assert!(add(&"ä".repeat(50), &[sql("1=1")]).is_ok());
    assert_eq!(status(prepare("com.microsoft:remove-rule", NODE, &[])), 400);
}

#[test]
fn rules_there_already_and_rules_not_there() {
    let body = [("rule-name", string("r")), ("rule-description", map(&[sql("1=1")]))];
    let prepared = prepare("com.microsoft:add-rule", NODE, &body).unwrap();
    assert_eq!(finish(&prepared, Response::Done(Ok(()))).unwrap(), Answer::ok(Vec::new()));
    let fault = finish(&prepared, Response::Done(Err(Refusal::RuleExists("r".into())))).unwrap_err();
    assert_eq!(fault.condition_and_status(), (condition::ENTITY_ALREADY_EXISTS, 409));
    let prepared = prepare("com.microsoft:remove-rule", NODE, &body).unwrap();
    assert_eq!(prepared.command, Command::RemoveRule { queue: QueueId(2), name: "r".into() });
    let fault = finish(&prepared, Response::Done(Err(Refusal::RuleNotFound("r".into())))).unwrap_err();
    assert_eq!(fault.condition_and_status(), (condition::NOT_FOUND, 404));
    assert!(
        fault.to_string().starts_with("The messaging entity 'r' could not be found"),
        "the text that J looks for"
    );
}

#[test]
fn messages_scheduled_on_a_topic_carry_the_properties_that_rules_use() {
    let entry = |message: Bytes| Value::List(vec![map(&[("message", Value::Binary(message))])]);
    let schedule = |path: &str| {
        let body = [("messages", entry(encoded(Some(99))))];
        match prepare("com.microsoft:schedule-message", path, &body).unwrap().command {
            Command::Send { messages } => messages[0].rule_properties.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(schedule("t").unwrap().message_id.as_deref(), Some("m"));
    assert_eq!(schedule("q"), None, "no rule needs them");
}

#[test]
fn names_follow_the_rules_that_hold_for_declared_ones() {
    let named = |name: &str| add(name, &[sql("1=1")]);
    assert!(named(&"n".repeat(50)).is_ok());
    let longest = "n".repeat(51);
    for (name, cause) in
        [("", "empty"), (longest.as_str(), "longer than 50"), ("a/b", "'/'"), ("a\nb", "'\\n'")]
    {
        let fault = named(name).unwrap_err();
        assert_eq!(fault.condition_and_status().0, "com.microsoft:argument-error");
        assert!(fault.to_string().contains(cause), "{fault}");
    }
}
