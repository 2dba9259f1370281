//! `peeklock store check DIR`

use std::path::PathBuf;

use clap::Args;

use crate::exit::Exit;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The data directory; no broker may be running on it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Exit {
    let _ = (&args.directory, args.json);
    Exit::Failure
}
