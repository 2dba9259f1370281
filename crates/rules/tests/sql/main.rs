//! Results of filters and actions: one table for each part of the language. Each row names its source, "semantics §",
//! the page "sql-filter" of the Azure documentation (service-bus-messaging-sql-filter) or a public thread, or is marked
//! as inferred.

#![cfg(test)]

mod actions;
mod actions_system;
mod actions_user;
mod allocations;
mod arithmetic;
mod comparisons;
mod like;
mod limits;
mod lists;
mod logic;
mod message;
mod names;
mod system;

use peeklock_rules::{Failure, SqlFilter};

/// The result of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// TRUE.
    T,
    /// FALSE.
    F,
    /// UNKNOWN.
    U,
    /// A failure whose text contains this.
    Fails(&'static str),
}

/// An expression, its result, and the source.
pub(crate) type Row = (&'static str, Answer, &'static str);

/// All tables.
const TABLES: [&[Row]; 7] =
    [arithmetic::ROWS, comparisons::ROWS, like::ROWS, lists::ROWS, logic::ROWS, names::ROWS, system::ROWS];

/// Evaluates each filter of a table for the shared message.
pub(crate) fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (expression, expected, source) in rows {
        let answer = message::ask(expression);
        let is_right = match (&answer, expected) {
            (Ok(truth), Answer::T) => *truth == Some(true),
            (Ok(truth), Answer::F) => *truth == Some(false),
            (Ok(truth), Answer::U) => truth.is_none(),
            (Err(failure), Answer::Fails(part)) => {
                failure.kind == Failure::FILTER && failure.text.contains(part) && failure.text.ends_with('.')
            }
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{expression}: {answer:?} instead of {expected:?} ({source})"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_row_is_asked_once_and_has_a_source() {
    let mut expressions: Vec<&str> =
        TABLES.iter().copied().flatten().map(|(expression, ..)| *expression).collect();
    let count = expressions.len();
    expressions.sort_unstable();
    expressions.dedup();
    assert_eq!(expressions.len(), count, "an expression is in two rows");
    for (expression, _, source) in TABLES.iter().copied().flatten() {
        let is_known = ["semantics §", "sql-filter", "(inferred)", "C#", "azure-s"]
            .iter()
            .any(|known| source.contains(known));
        assert!(is_known, "{expression}: {source}");
    }
}

#[test]
fn only_true_matches() {
    let matches = |expression: &str| {
        let filter = SqlFilter::new(expression, Vec::new()).expect("a filter");
        let rule_properties = message::rule_properties();
        filter.matches(&message::subject(&rule_properties), &mut || 0)
    };
    assert_eq!(matches("quantity = 5"), Ok(true));
    assert_eq!(matches("quantity = 6"), Ok(false));
    assert_eq!(matches("missing = 5"), Ok(false));
    assert!(matches("quantity / 0 = 1").is_err());
}
