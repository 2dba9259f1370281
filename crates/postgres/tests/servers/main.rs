//! The driver on real servers. Skipped, with a line that says so, where PostgreSQL is not installed; with
//! `PEEKLOCK_REQUIRE_POSTGRES` set that is a failure.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod harness;

mod failover;
mod failures;
mod fencing;
mod leases;
mod links;
mod reading;
mod settings;
mod stores;
mod tls;
