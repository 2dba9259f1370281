//! The replicated log of a shard on PostgreSQL, with synchronous standbys.
//!
//! [`PostgresLogs`] keeps the contract of [`peeklock_storage::cluster::ReplicatedLog`]: a record is a row, appended by one statement
//! that checks the place and the epoch of the record before it. PostgreSQL decides what is durable and who may write.
//!
//! ```text
//! PostgresLogs ─▶ log       appends, reads, removals: a session for each            (log/)
//! Database ─────▶ database  finds the primary among the hosts                       (database.rs, reach.rs)
//!                 settings  refuses servers that would lose data                    (settings.rs)
//!                 schema    creates the tables under a lock                         (schema.rs)
//!                 session   drives a connection; notices, silence                   (session.rs)
//! PostgresLeases ▶ leases   which node serves which shard                           (leases.rs)
//! ```
//!
//! # In doubt
//! An append is [`peeklock_storage::Error::InDoubt`] when its connection ends before the answer. A connection is ended from here
//! when no byte moves for a while although an answer is owed (a link that is cut one way, a server that is stopped), and when
//! the server warns that it answers a commit without its standby, as it does when somebody cancels the wait: that answer comes
//! behind the warning and is never read. Nothing here ever sends a cancel.
//!
//! # Two primaries
//! Where two servers take writes, the one on the higher timeline is used. An old primary without standbys acknowledges
//! nothing. Reads go to a server only if it holds the last record that was acknowledged.

mod database;
mod failure;
mod leases;
mod log;
mod metrics;
mod options;
mod reach;
mod schema;
mod session;
mod settings;
mod stream;
mod surroundings;
mod tls;
mod watch;

pub use database::Database;
pub use failure::Failure;
pub use leases::PostgresLeases;
pub use log::{PostgresLogs, RECORDS_AHEAD};
pub use metrics::PostgresMetrics;
pub use options::{DatabaseOptions, Durability, OptionsError, URL_SCHEMES};
pub use session::{Parameters, Session};
pub use surroundings::TokioSurroundings;
pub use watch::DatabaseWatch;
