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

use mimalloc::MiMalloc;

/// Gives freed memory back to the system soon; see the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// mimalloc's `mi_option_purge_delay`.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Freed pages return to the system after this, in milliseconds. By default it is a second, and a broker that has gone idle by
/// then makes no call that would return them.
const PURGE_DELAY_MS: core::ffi::c_long = 10;

#[allow(
    unsafe_code,
    reason = "the option has no safe door; the call stores a number and may be made at any time"
)]
fn return_memory_soon() {
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) }
}

fn main() -> ExitCode {
    return_memory_soon();
    cli::run().into()
}
