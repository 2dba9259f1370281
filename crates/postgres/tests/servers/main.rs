//! Tests of the driver on real servers. If PostgreSQL is not installed, they are skipped with a message, or fail if
//! `PEEKLOCK_REQUIRE_POSTGRES` is set.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod harness;

mod cuts;
mod failover;
mod failures;
mod fencing;
mod leases;
mod links;
mod reading;
mod settings;
mod stores;
mod tls;
mod watch;
