//! Descriptions of the expected terminals at an error.

/// Terminal that only begins values.
const VALUE: &str = "text";
/// Terminal that begins names; values may begin with it, too.
const NAME: &str = "delimited";
/// One of these can follow wherever an operator can.
const BEHIND_A_VALUE: [&str; 2] = ["+", "OR"];
/// Terminal that begins a statement.
const STATEMENT: &str = "SET";

const OPERATORS: [&str; 17] =
    ["AND", "OR", "NOT", "IN", "LIKE", "IS", "=", "<>", ">", ">=", "<", "<=", "+", "-", "*", "/", "%"];

/// Describes the terminals expected at a position, many of them by their purpose.
pub(super) fn expected(terminals: &[String]) -> String {
    let mut left: Vec<&str> = terminals.iter().map(|terminal| terminal.trim_matches('"')).collect();
    let has = |left: &[&str], terminal: &str| left.contains(&terminal);
    let mut phrases = Vec::new();
    if has(&left, VALUE) {
        phrases.push("a value".to_owned());
        left.clear();
    }
    if has(&left, NAME) {
        phrases.push("the name of a property".to_owned());
        left.clear();
    }
    if BEHIND_A_VALUE.iter().any(|terminal| has(&left, terminal)) {
        phrases.push("an operator".to_owned());
        // A name may turn out to be a function or a scope.
        left.retain(|terminal| !OPERATORS.contains(terminal) && !["(", "."].contains(terminal));
    }
    if has(&left, STATEMENT) {
        let is_first = phrases.is_empty() && left.len() == 2;
        phrases.push(if is_first { "SET or REMOVE" } else { "the next statement" }.to_owned());
        left.retain(|terminal| !["SET", "REMOVE", ",", ";", "."].contains(terminal));
    }
    let mut all: Vec<String> = left.into_iter().map(spelled).collect();
    all.append(&mut phrases);
    or(&all)
}

fn spelled(terminal: &str) -> String {
    let is_word = terminal.starts_with(|first: char| first.is_alphabetic());
    if is_word { terminal.to_owned() } else { format!("'{terminal}'") }
}

/// `a, b or c`.
fn or(all: &[String]) -> String {
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "the end".to_owned(),
    }
}
