//! Malicious and very long texts.

use crate::sql::{DEPTH_MAX, parse};

/// Longer than any reasonable limit.
const LONG: usize = 20_000;

fn message(text: &str) -> String {
    parse::filter(text, &[]).expect_err("a mistake").message
}

#[test]
fn nesting_is_limited_wherever_it_comes_from() {
    let deep = |count: usize| {
        [
            format!("{}a{}", "(".repeat(count), ")".repeat(count)),
            format!("{}a", "NOT ".repeat(count)),
            format!("a = {}b", "-".repeat(count - 1)),
            format!("a = b{}", " + b".repeat(count - 1)),
            format!("a = b{}", " * b".repeat(count - 1)),
            format!("a = {}'b'{}", "p(".repeat(count - 1), ")".repeat(count - 1)),
            format!("{}a{}", "a AND (".repeat(count / 2), ")".repeat(count / 2)),
            format!("{}a{}", "a OR (b AND (".repeat(count / 4), "))".repeat(count / 4)),
            format!("{}a{}", "a IN (".repeat(count), ")".repeat(count)),
        ]
    };
    for text in deep(DEPTH_MAX - 1) {
        let tree = parse::filter(&text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parse::filter(&tree.to_string(), &[]), Ok(tree), "{text}");
    }
    for count in [DEPTH_MAX + 4, LONG] {
        for text in deep(count) {
            assert_eq!(message(&text), "the expression that starts here is nested more than 256 levels deep");
        }
    }
}

#[test]
fn chains_and_lists_are_as_long_as_they_like() {
    let words = [
        format!("a{}", " AND a".repeat(LONG)),
        format!("a{}", " OR a = 1".repeat(LONG)),
        format!("a IN (1{})", ", 1".repeat(LONG)),
        format!("a = '{}'", "''x".repeat(LONG)),
        format!("[{}] = 1", "x ]]".repeat(LONG)),
        format!("{} = 1", "é".repeat(LONG)),
        format!("a = {}", "0".repeat(LONG)),
        format!("a{}= 1", " ".repeat(LONG)),
    ];
    for text in words {
        let tree = parse::filter(&text, &[]).expect("a condition");
        assert_eq!(parse::filter(&tree.to_string(), &[]), Ok(tree));
    }
    let statements = parse::action(&"SET a = 1 REMOVE b; ".repeat(LONG), &[]).expect("statements");
    assert_eq!(statements.len(), 2 * LONG);
}

#[test]
fn long_mistakes_are_found() {
    assert_eq!(
        message(&format!("a = '{}", "x".repeat(LONG))),
        "the text that starts here has no closing quote"
    );
    assert_eq!(message(&format!("a = {}", "(".repeat(LONG))), "the text ends where a value was expected");
    assert_eq!(message(&format!("a = {}", "9".repeat(LONG))), "this integer does not fit into 64 bits");
    assert_eq!(message(&format!("a = 1{}", "x".repeat(LONG))).chars().count(), 72);
}
