//! A filter or an action in SQL, behind a byte that says which: any text is read or refused, what is read is the same
//! when it is printed and read again, and asked about a message it answers or says why not.

use peeklock_rules::sql::parse;
use peeklock_rules::sql::tree::Statement;
use peeklock_rules::{Arrival, FactValue, Facts, SqlAction, SqlFilter, Subject};

fn parameters() -> Vec<(Box<str>, FactValue)> {
    vec![
        ("@text".into(), FactValue::Text("x_%".into())),
        ("@number".into(), FactValue::Integer(5)),
        ("@yes".into(), FactValue::Boolean(true)),
    ]
}

/// A message with a value of each kind, by the first letter of the kind.
fn facts() -> Facts {
    let user = [
        ("n", FactValue::Null),
        ("b", FactValue::Boolean(true)),
        ("i", FactValue::Integer(i64::MIN)),
        ("u", FactValue::Unsigned(u64::MAX)),
        ("d", FactValue::Double(1.5)),
        ("t", FactValue::Text("x_%".into())),
        ("instant", FactValue::Timestamp(1_000)),
        ("id", FactValue::Uuid(7)),
        ("o", FactValue::Other([1, 2].into())),
        ("span", FactValue::TimeSpan(i64::MAX)),
        ("offset", FactValue::DateTimeOffset(i64::MAX)),
        ("decimal", FactValue::Decimal(u128::MAX)),
    ];
    let user = user.map(|(name, value)| (name.into(), value)).into();
    Facts { label: Some("label".into()), user, ..Facts::default() }
}

pub(crate) fn exercise(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let facts = facts();
    let subject = Subject { facts: &facts, arrival: Arrival::default() };
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
