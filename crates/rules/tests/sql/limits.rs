//! Properties of a message without limits, and limits of expressions.

use peeklock_rules::{Arrival, PropertyValue, RuleProperties, SqlFilter, Subject};

fn truth(expression: &str, rule_properties: &RuleProperties, arrival: Arrival<'_>) -> Option<bool> {
    let filter = SqlFilter::new(expression, Vec::new()).expect(expression);
    filter.truth(&Subject { rule_properties, arrival }, &mut || 0).expect(expression)
}

#[test]
fn without_a_limit_a_message_lives_as_long_as_dotnet_can_count() {
    let rule_properties = RuleProperties::default();
    let arrival = Arrival { enqueued_at_ms: 1_795_341_600_123, ..Arrival::default() };
    for expression in [
        "sys.ExpiresAtUtc = '9999-12-31T23:59:59.9999999'",
        "sys.ExpiresAtUtc > '9999-12-31T23:59:59.998'",
        "sys.TimeToLive = '10675199.02:48:05.4775807'",
        "sys.ScheduledEnqueueTimeUtc IS NULL",
        "sys.DeadLetterSource IS NULL",
        "sys.Label IS NULL",
    ] {
        assert_eq!(truth(expression, &rule_properties, arrival), Some(true), "{expression}");
    }
    let longest = Arrival { time_to_live_ms: Some(u64::MAX), sequence_number: u64::MAX, ..arrival };
    for expression in [
        "sys.ExpiresAtUtc = '9999-12-31T23:59:59.9999999'",
        "sys.TimeToLive = '10675199.02:48:05.4775807'",
        "sys.SequenceNumber > 9223372036854775807",
    ] {
        assert_eq!(truth(expression, &rule_properties, longest), Some(true), "{expression}");
    }
}

#[test]
fn the_first_of_names_that_differ_in_case_counts() {
    let user = [("Color", "first"), ("color", "second")];
    let user = user.map(|(name, value)| (name.into(), PropertyValue::Text(value.into())));
    let rule_properties = RuleProperties { user: user.into(), ..RuleProperties::default() };
    assert_eq!(truth("COLOR = 'first'", &rule_properties, Arrival::default()), Some(true));
}

#[test]
fn deep_expressions_are_computed_like_flat_ones() {
    let rule_properties =
        RuleProperties { user: vec![("a".into(), PropertyValue::Integer(1))], ..RuleProperties::default() };
    // Each step uses two levels because of its parentheses.
    for depth in [10, 100, peeklock_rules::sql::DEPTH_MAX / 2 - 4] {
        let right = format!("{}0{} = {depth}", "(a + ".repeat(depth), ")".repeat(depth));
        let left = format!("{}0{} = {depth}", "(".repeat(depth), " + a)".repeat(depth));
        let not = format!("{}a = 1{}", "NOT (".repeat(depth), ")".repeat(depth));
        assert_eq!(truth(&right, &rule_properties, Arrival::default()), Some(true), "{depth}");
        assert_eq!(truth(&left, &rule_properties, Arrival::default()), Some(true), "{depth}");
        assert_eq!(truth(&not, &rule_properties, Arrival::default()), Some(depth % 2 == 0), "{depth}");
    }
}

#[test]
fn a_filter_of_many_likes_on_a_long_text_fails_after_so_many_steps() {
    let user = vec![("a".into(), PropertyValue::Text("x".repeat(60_000).into()))];
    let rule_properties = RuleProperties { user, ..RuleProperties::default() };
    let subject = Subject { rule_properties: &rule_properties, arrival: Arrival::default() };
    let ask = |likes: usize, pattern: &str| {
        let expression = vec![format!("a LIKE '{pattern}'"); likes].join(" OR ");
        SqlFilter::new(&expression, Vec::new()).expect(&expression).truth(&subject, &mut || 0)
    };
    for pattern in ["%y%", "%y_y%"] {
        let failure = ask(1_313, pattern).expect_err(pattern);
        assert_eq!(failure.kind, "FilterException");
        assert!(failure.text.contains("too many steps"), "{failure}");
        // As many as fit into an expression of the usual maximum length.
        assert_eq!(ask(60, pattern).as_ref(), Ok(&Some(false)));
    }
}
