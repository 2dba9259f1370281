//! The driver on real servers. Skipped, with a line that says so, where PostgreSQL is not installed; with
//! `PEEKLOCK_REQUIRE_POSTGRES` set that is a failure.

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
