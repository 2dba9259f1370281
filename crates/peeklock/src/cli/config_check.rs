//! `peeklock config check FILE`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::output;
use crate::config::{self, FileConfig};
use crate::exit::Exit;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The configuration file; one whose name ends with .json is read as the Service Bus emulator's.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Exit {
    let file = args.file.display();
    match config::load(&args.file) {
        Ok(config) => {
            if args.json {
                output::json(&valid_json(&file.to_string(), &config));
            } else {
                let subscriptions: usize = config.topics.iter().map(|topic| topic.subscriptions.len()).sum();
                let (queues, topics) = (config.queues.len(), config.topics.len());
                output::line(format!(
                    "{file}: valid, queues declared: {queues}, topics: {topics}, subscriptions: {subscriptions}"
                ));
                for note in &config.notes {
                    output::note(note);
                }
            }
            Exit::Success
        }
        Err(problems) => {
            if args.json {
                output::json(&json!({ "file": file.to_string(), "valid": false, "problems": problems.list }));
            } else {
                output::error(format!("the configuration has {} mistakes\n{problems}", problems.list.len()));
            }
            Exit::Usage
        }
    }
}

/// What a right file declares.
fn valid_json(file: &str, config: &FileConfig) -> Value {
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
        "notes": config.notes,
    })
}
