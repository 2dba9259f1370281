//! The Peeklock broker: one binary to serve, to check configurations and data directories, and to ask for health.

mod audit;
mod cli;
mod config;
mod control;
mod exit;
mod logging;
mod serve;
mod store_damage;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run().into()
}
