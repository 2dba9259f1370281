//! `peeklock completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, output};
use crate::exit::Exit;

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock completions bash > ~/.local/share/bash-completion/completions/peeklock
  peeklock completions zsh > ~/.zfunc/_peeklock          with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  peeklock completions fish > ~/.config/fish/completions/peeklock.fish
  peeklock completions powershell >> $PROFILE";

/// For which shell.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Exit {
    output::text(text(args.shell));
    Exit::Success
}

/// The completions for a shell.
pub(super) fn text(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "peeklock", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
