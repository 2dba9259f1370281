//! The Peeklock broker: one binary to serve, to check configurations and data directories, and to ask for health.

mod cli;
mod config;
mod exit;
mod logging;
mod serve;

use std::process::ExitCode;

/// musl's own allocator has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run().into()
}
