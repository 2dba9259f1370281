//! The Peeklock broker: one binary to serve, to check configurations and data directories, and to query health.

mod allocator;
mod audit;
mod cli;
mod config;
mod control;
mod database;
mod exit;
mod file_size_limit;
mod logging;
mod serve;
mod store_damage;

use std::process::ExitCode;

#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
use peeklock_memcopy as _;

fn main() -> ExitCode {
    allocator::disable_huge_pages();
    exit::on_panic();
    // Without descriptors for this, the command fails as well, and says so.
    let _ = file_size_limit::fail_writes();
    cli::run().into()
}
