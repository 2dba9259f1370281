//! Evaluating a filter allocates nothing, unless texts are concatenated or it fails.

use allocation_counter::measure;
use peeklock_rules::sql::DEPTH_MAX;
use peeklock_rules::{Failure, SqlFilter};

use super::{Answer, TABLES, message};

/// Number of allocations of one evaluation.
fn allocations(expression: &str) -> u64 {
    let filter = SqlFilter::new(expression, message::parameters()).expect("a filter");
    let rule_properties = message::rule_properties();
    let subject = message::subject(&rule_properties);
    let mut answer: Result<bool, Failure> = Ok(false);
    let counted = measure(|| answer = filter.matches(&subject, &mut || 7));
    drop(answer);
    counted.count_total
}

/// The rows that concatenate texts which depend on the message.
const JOINING: [&str; 8] = [
    "color + 's' = 'blues'",
    "'dark' + color = 'darkblue'",
    "color + Shade LIKE 'blue%Blue'",
    "long + 'x' > 'x'",
    "color + 's' LIKE '%s'",
    "color LIKE pattern + 'x'",
    "color LIKE '%' + Shade",
    "sys.MessageId + sys.To = 'message-1Store5'",
];

#[test]
fn filters_are_asked_without_an_allocation() {
    let rows = TABLES.iter().copied().flatten();
    let answered = rows.filter(|(_, answer, _)| !matches!(answer, Answer::Fails(_)));
    let expressions: Vec<&str> = answered.map(|(expression, ..)| *expression).collect();
    assert!(expressions.len() > 400, "most of the language: {}", expressions.len());
    let allocating: Vec<_> =
        expressions.into_iter().filter(|expression| allocations(expression) > 0).collect();
    assert_eq!(allocating, JOINING);
}

#[test]
fn deep_expressions_allocate_nothing_either() {
    let depth = DEPTH_MAX / 2 - 4;
    let sum = format!("{}0{} = 0", "(quantity + ".repeat(depth), ")".repeat(depth));
    let terms = vec!["missing = 1"; 100].join(" OR ");
    for expression in [sum, terms] {
        assert_eq!(allocations(&expression), 0, "{expression}");
    }
}
