//! `peeklock config check FILE`

use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches};
use serde_json::{Value, json};

use super::output;
use crate::config::{self, FileConfig, Findings, Problems, Reach, ServeArgs};
use crate::exit::Exit;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The configuration file; one whose name ends with .json is read as the Service Bus emulator's.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Check only the text, for a file that is meant for another machine. Without this option, PEEKLOCK_... variables
    /// count as for `serve`, files named in the configuration must be readable, and the data directory must not be in
    /// use.
    #[arg(long)]
    text_only: bool,

    /// Fail (exit code 2) on notes as well: forwarding loops, and targets that are not declared.
    #[arg(long)]
    strict: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Exit {
    let file = args.file.display().to_string();
    match check(args) {
        Ok((config, mut notes)) => {
            notes.extend(config.notes.iter().cloned());
            report_valid(&file, &config, &notes, args.json);
            if args.strict && !notes.is_empty() { Exit::Usage } else { Exit::Success }
        }
        Err((problems, notes)) => {
            if args.json {
                output::json(
                    &json!({ "file": file, "valid": false, "problems": problems.list, "notes": notes }),
                );
            } else {
                output::error(format!("the configuration has {}\n{problems}", problems.count()));
                notes.iter().for_each(output::note);
            }
            problems.exit
        }
    }
}

/// The configuration and the notes, or the errors and the notes.
fn check(args: &CheckArgs) -> Result<(FileConfig, Vec<String>), (Problems, Vec<String>)> {
    let config = config::load(&args.file).map_err(|problems| (problems, Vec::new()))?;
    let file = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| (Problems::unreadable(file.clone(), &error), Vec::new()))?;
    let reach = if args.text_only { Reach::Text } else { Reach::Machine(Box::new(variables(&args.file))) };
    let Findings { problems, notes } = config::examine(&config, &text, &reach);
    let notes = Problems::mistakes(file.clone(), notes);
    let notes: Vec<String> = notes.lines().collect();
    if problems.is_empty() { Ok((config, notes)) } else { Err((Problems::mistakes(file, problems), notes)) }
}

/// The settings that `serve` would read from the variables of this process, with this file.
fn variables(file: &Path) -> ServeArgs {
    let command = ServeArgs::augment_args(clap::Command::new("peeklock"));
    let matches = command.get_matches_from(["peeklock"]);
    let args = ServeArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    ServeArgs { config: Some(file.to_owned()), ..args }
}

fn report_valid(file: &str, config: &FileConfig, notes: &[String], is_json: bool) {
    if is_json {
        output::json(&valid_json(file, config, notes));
        return;
    }
    let subscriptions: usize = config.topics.iter().map(|topic| topic.subscriptions.len()).sum();
    let (queues, topics) = (config.queues.len(), config.topics.len());
    output::line(format!(
        "{file}: valid, queues declared: {queues}, topics: {topics}, subscriptions: {subscriptions}"
    ));
    notes.iter().for_each(output::note);
}

/// The declarations of a valid file as JSON.
fn valid_json(file: &str, config: &FileConfig, notes: &[String]) -> Value {
    let queues: Vec<&str> = config.queues.iter().map(|queue| queue.name.as_str()).collect();
    let topics = config.topics.iter().map(|topic| {
        let names = topic.subscriptions.iter().map(|subscription| subscription.name.as_str());
        json!({ "name": topic.name, "subscriptions": names.collect::<Vec<_>>() })
    });
    json!({
        "file": file,
        "valid": true,
        "queues": queues,
        "topics": topics.collect::<Vec<_>>(),
        "problems": [],
        "notes": notes,
    })
}
