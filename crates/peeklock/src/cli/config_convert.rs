//! `peeklock config convert FILE`

use std::path::PathBuf;

use clap::Args;

use super::output;
use crate::config;
use crate::exit::Exit;

/// What to convert.
#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// The emulator's Config.json, or any other configuration file; its entities are printed.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &ConvertArgs) -> Exit {
    match config::load(&args.file) {
        Ok(config) => {
            output::text(config::to_toml(&config));
            for note in &config.notes {
                output::note(note);
            }
            Exit::Success
        }
        Err(problems) => {
            output::error(format!("the configuration has {}\n{problems}", problems.count()));
            problems.exit
        }
    }
}
