//! Parses a filter or an action in SQL, preceded by a byte that selects which: any text is accepted or rejected, an
//! accepted text is unchanged after printing and parsing again, and its evaluation for a message yields a result or an
//! error.

use peeklock_rules::sql::parse;
use peeklock_rules::sql::tree::Statement;
use peeklock_rules::{Arrival, PropertyValue, RuleProperties, SqlAction, SqlFilter, Subject};

fn parameters() -> Vec<(Box<str>, PropertyValue)> {
    vec![
        ("@text".into(), PropertyValue::Text("x_%".into())),
        ("@number".into(), PropertyValue::Integer(5)),
        ("@yes".into(), PropertyValue::Boolean(true)),
    ]
}

/// A message with a value of each type, named by the first letter of the type.
fn rule_properties() -> RuleProperties {
    let user = [
        ("n", PropertyValue::Null),
        ("b", PropertyValue::Boolean(true)),
        ("i", PropertyValue::Integer(i64::MIN)),
        ("u", PropertyValue::Unsigned(u64::MAX)),
        ("d", PropertyValue::Double(1.5)),
        ("t", PropertyValue::Text("x_%".into())),
        ("instant", PropertyValue::Timestamp(1_000)),
        ("id", PropertyValue::Uuid(7)),
        ("o", PropertyValue::Other([1, 2].into())),
        ("span", PropertyValue::TimeSpan(i64::MAX)),
        ("offset", PropertyValue::DateTimeOffset(i64::MAX)),
        ("decimal", PropertyValue::Decimal(u128::MAX)),
    ];
    let user = user.map(|(name, value)| (name.into(), value)).into();
    RuleProperties { label: Some("label".into()), user, ..RuleProperties::default() }
}

pub(crate) fn exercise(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let rule_properties = rule_properties();
    let subject = Subject { rule_properties: &rule_properties, arrival: Arrival::default() };
    if kind % 2 == 0 {
        let Ok(tree) = parse::filter(text, &parameters()) else { return };
        assert_eq!(parse::filter(&tree.to_string(), &parameters()), Ok(tree));
        let filter = SqlFilter::new(text, parameters()).expect("it was read before");
        let _ = filter.matches(&subject, &mut || 1);
    } else {
        let Ok(statements) = parse::action(text, &parameters()) else { return };
        let printed: Vec<String> = statements.iter().map(Statement::to_string).collect();
        assert_eq!(parse::action(&printed.join("\n"), &parameters()), Ok(statements));
        let action = SqlAction::new(text, parameters()).expect("it was read before");
        let _ = action.changes(&subject, &mut || 1);
    }
}
