//! Intentional differences from recorded answers: a table with the reason for each.

use std::collections::HashSet;

use regex::Regex;
use serde::Deserialize;

/// The changes, in the order in which they are applied.
#[derive(Debug)]
pub struct Changes(Vec<Change>);

#[derive(Debug)]
struct Change {
    /// The affected conversations, each as its name or as name and line; all if empty.
    conversations: HashSet<String>,
    recorded: Regex,
    now: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    changes: Vec<Row>,
}

/// Conversations (`*`, or names separated by blanks, each with the line of an answer if only that is affected), the
/// recorded answer (a regular expression), the current answer, the reason.
#[derive(Deserialize)]
struct Row(String, String, String, String);

impl Changes {
    /// Reads the table from TOML.
    ///
    /// # Panics
    /// When it can't be parsed, or a row has no reason.
    pub fn read(toml: &str) -> Self {
        let table: Table = toml::from_str(toml).unwrap();
        let change = |Row(conversations, recorded, now, why): Row| {
            assert!(!why.is_empty(), "{recorded}: a change has a reason");
            let conversations =
                conversations.split_whitespace().filter(|name| *name != "*").map(str::to_owned).collect();
            Change { conversations, recorded: Regex::new(&recorded).unwrap(), now }
        };
        Self(table.changes.into_iter().map(change).collect())
    }

    /// The current answer for an answer recorded in this line; empty if no answer is expected.
    pub(super) fn apply(&self, conversation: &str, line: usize, recorded: &str) -> String {
        self.apply_noting(conversation, line, recorded, &mut HashSet::new())
    }

    fn apply_noting(
        &self,
        conversation: &str,
        line: usize,
        recorded: &str,
        used: &mut HashSet<usize>,
    ) -> String {
        let mut text = recorded.to_owned();
        let answer = format!("{conversation}:{line}");
        for (place, change) in self.0.iter().enumerate() {
            let names = &change.conversations;
            let concerns = names.is_empty() || names.contains(conversation) || names.contains(&answer);
            if concerns && change.recorded.is_match(&text) {
                used.insert(place);
                text = change.recorded.replace_all(&text, &change.now).into_owned();
            }
        }
        text
    }

    /// The rows without effect in these conversations, each given as a name and a text.
    pub fn unused<'a>(&self, conversations: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
        let mut used = HashSet::new();
        for (name, text) in conversations {
            for (line, step) in super::script::steps(&text) {
                if let super::script::Step::Want(_, recorded) = step {
                    self.apply_noting(name, line, &recorded, &mut used);
                }
            }
        }
        let unused = self.0.iter().enumerate().filter(|(place, _)| !used.contains(place));
        unused.map(|(_, change)| change.recorded.to_string()).collect()
    }
}
