//! `peeklock ls`

use std::time::Duration;

use clap::Args;
use peeklock_client::{Admin, Found};
use serde_json::{Value as Json, json};

use super::text::shown_bytes;
use super::{ConnectionArgs, Failure, output};
use crate::cli::table::Table;

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock ls                  every queue, topic and subscription with its messages
  peeklock ls 'orders*'        those whose path matches a pattern (* any text, ? one character)
  peeklock ls --json           one JSON object per line
  peeklock ls --watch          again every two seconds";

const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Clears a terminal and moves the cursor to its corner.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// What to list.
#[derive(Debug, Args)]
pub(in crate::cli) struct LsArgs {
    /// Only entities whose path matches: * is any text, ? one character; case doesn't matter.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    /// List again every two seconds until interrupted.
    #[arg(long, conflicts_with = "json")]
    watch: bool,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: LsArgs) -> Result<(), Failure> {
    let admin = args.connection.admin()?;
    loop {
        let found = matching(&admin, args.pattern.as_deref()).await?;
        if args.json {
            found.iter().for_each(|found| output::json_line(&entity_json(found)));
            return Ok(());
        }
        if args.watch {
            output::text(CLEAR);
        }
        print(&found);
        if !args.watch || output::failed().is_some() {
            return Ok(());
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The entities whose path matches.
pub(super) async fn matching(admin: &Admin, pattern: Option<&str>) -> Result<Vec<Found>, Failure> {
    let mut found = admin.list().await?;
    if let Some(pattern) = pattern {
        let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
        found.retain(|found| {
            let path: Vec<char> = found.path.to_lowercase().chars().collect();
            matches(&pattern, &path)
        });
    }
    Ok(found)
}

fn print(found: &[Found]) {
    if found.is_empty() {
        output::note("no entities");
        return;
    }
    let mut table = Table::new(&["NAME", "KIND", "STATUS", "ACTIVE", "SCHEDULED", "DEAD", "SIZE"]);
    for found in found {
        let counts = found.described.counts();
        let size = found.described.get("SizeInBytes").and_then(|text| text.parse().ok());
        table.row([
            found.path.clone(),
            found.kind.name().to_owned(),
            found.described.get("Status").unwrap_or("-").to_owned(),
            counts.active.to_string(),
            counts.scheduled.to_string(),
            (counts.dead_letter + counts.transfer_dead_letter).to_string(),
            size.map_or_else(|| "-".to_owned(), shown_bytes),
        ]);
    }
    table.print();
}

/// An entity as JSON: path, kind, counts and every element of its description.
pub(super) fn entity_json(found: &Found) -> Json {
    let counts = found.described.counts();
    let elements = found.described.elements().iter();
    let options: serde_json::Map<String, Json> =
        elements.map(|(name, text)| (name.clone(), Json::from(text.as_str()))).collect();
    json!({
        "path": found.path,
        "kind": found.kind.name(),
        "counts": {
            "active": counts.active,
            "scheduled": counts.scheduled,
            "dead_lettered": counts.dead_letter,
            "transfer_dead_lettered": counts.transfer_dead_letter,
        },
        "options": options,
    })
}

/// Whether a text matches a pattern of `*` and `?`; takes time proportional to the product of their lengths.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for part in pattern {
        let mut next = vec![false; text.len() + 1];
        let mut any = false;
        for (index, is_reached) in reached.iter().enumerate() {
            any |= is_reached;
            let fits = |character: &char| *part == '?' || character == part;
            let stays = *part == '*' && any;
            let moves = *part != '*'
                && index > 0
                && reached.get(index - 1).copied().unwrap_or(false)
                && text.get(index - 1).is_some_and(fits);
            if let Some(slot) = next.get_mut(index) {
                *slot = stays || moves;
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_stars_and_question_marks() {
        let fits = |pattern: &str, text: &str| {
            matches(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>())
        };
        assert!(fits("*", "") && fits("*", "abc") && fits("a*c", "abbc") && fits("a?c", "abc"));
        assert!(fits("orders*", "orders") && fits("*/subscriptions/*", "news/subscriptions/all"));
        assert!(!fits("a", "ab") && !fits("", "a") && !fits("a?", "a") && !fits("*b", "ba"));
    }
}
