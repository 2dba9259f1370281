//! `peeklock man`: a hidden command, for packages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::{Cli, output};
use crate::exit::Exit;

/// Where to.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The directory; it must exist. It gets peeklock.1 and one page for each command, such as peeklock-send.1.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(args: &ManArgs) -> Exit {
    match clap_mangen::generate_to(Cli::command(), &args.directory) {
        Ok(()) => Exit::Success,
        Err(error) => {
            output::error(format!("the manual can't be written into {}: {error}", args.directory.display()));
            Exit::Failure
        }
    }
}
