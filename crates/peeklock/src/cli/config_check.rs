//! `peeklock config check FILE`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::output;
use crate::config;
use crate::exit::Exit;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The configuration file.
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
            let names: Vec<&str> = config.queues.iter().map(|queue| queue.name.as_str()).collect();
            if args.json {
                output::json(
                    &json!({ "file": file.to_string(), "valid": true, "queues": names, "problems": [] }),
                );
            } else {
                output::line(format!("{file}: valid, queues declared: {}", names.len()));
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
