//! `docs/log.md` lists exactly the events of the levels info, warn and error in the code.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../docs/log.md");
const LEVELS: [&str; 3] = ["info", "warn", "error"];
/// Targets of events that are not written to the log: administrative changes.
const AUDIT: [&str; 2] = ["audit::TARGET", "\"peeklock::audit\""];

/// A level and a message, with placeholders for values.
type LogEvent = (String, String);

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// A message without the names of its placeholders.
fn normal(message: &str) -> String {
    let mut normal = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((_, after)) = after.split_once('}') else { break };
        normal.extend([before, "{}"]);
        rest = after;
    }
    normal + rest
}

/// A string literal's text, and the literal's length in bytes. `source` begins after the opening quote.
fn literal(source: &str) -> (String, usize) {
    let mut text = String::new();
    let mut characters = source.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, at + 1),
            '\\' => match characters.next() {
                // A line continuation skips the indentation.
                Some((_, '\n')) => while characters.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                Some((_, 'n')) => text.push('\n'),
                Some((_, escaped)) => text.push(escaped),
                None => {}
            },
            other => text.push(other),
        }
    }
    panic!("a literal without an end: {text}");
}

/// The message of a macro whose arguments begin here: the first string among them that is not the value of a field.
fn message(arguments: &str) -> Option<String> {
    let (mut depth, mut previous, mut rest) = (1, ' ', arguments);
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '"' => {
                let (text, bytes) = literal(rest);
                if depth == 1 && previous != '=' {
                    return Some(text);
                }
                rest = &rest[bytes..];
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return None;
        }
        if !character.is_whitespace() {
            previous = character;
        }
    }
    None
}

fn events_of_the_code() -> BTreeSet<LogEvent> {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for entry in fs::read_dir(crates).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    let mut events = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for level in LEVELS {
            for arguments in code.split(&format!("tracing::{level}!(")).skip(1) {
                let target = arguments.trim_start().strip_prefix("target:").unwrap_or_default().trim_start();
                if AUDIT.iter().any(|audit| target.starts_with(audit)) {
                    continue;
                }
                let message =
                    message(arguments).unwrap_or_else(|| panic!("no message in {}", file.display()));
                events.insert((level.to_owned(), normal(&message)));
            }
        }
    }
    events
}

/// Levels and messages of all tables; a message that is continued ends with an ellipsis.
fn events_of_the_document() -> Vec<(LogEvent, bool)> {
    let mut events = Vec::new();
    for line in DOCUMENT.lines() {
        let Some((level, rest)) = line.strip_prefix("| ").and_then(|row| row.split_once(" | `")) else {
            continue;
        };
        if let Some((message, rest)) = rest.split_once('`').filter(|_| LEVELS.contains(&level)) {
            events.push(((level.to_owned(), normal(message)), rest.starts_with(" …")));
        }
    }
    events
}

#[test]
fn the_document_lists_exactly_the_events_that_there_are() {
    let (code, document) = (events_of_the_code(), events_of_the_document());
    assert!(code.len() > 80, "{code:#?}");
    let is_row_of = |(row, goes_on): &(LogEvent, bool), event: &LogEvent| {
        row == event || (*goes_on && row.0 == event.0 && event.1.starts_with(&row.1))
    };
    let missing: Vec<_> =
        code.iter().filter(|event| !document.iter().any(|row| is_row_of(row, event))).collect();
    let gone: Vec<_> =
        document.iter().filter(|row| !code.iter().any(|event| is_row_of(row, event))).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not in docs/log.md: {missing:#?}\nnot in the code: {gone:#?}"
    );
}

#[test]
fn messages_are_found_among_fields_and_behind_breaks() {
    let found = |arguments: &str| message(arguments);
    assert_eq!(found("peer = \"a, \\\"b\", \"c {d} \\\n    e\"); f").as_deref(), Some("c {d} e"));
    assert_eq!(found("name = f(\"a\"), \"it {}\", \"b\");").as_deref(), Some("it {}"));
    assert_eq!(found("a = 1); \"b\""), None);
    assert_eq!(normal("a {b} and {}{c:?}"), "a {} and {}{}");
}
