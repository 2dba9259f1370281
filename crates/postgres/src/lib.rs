//! The replicated log of a shard on PostgreSQL, with synchronous standbys.
//!
//! [`PostgresLogs`] fulfils the contract of [`peeklock_storage::cluster::ReplicatedLog`]: a record is a row, appended
//! by one statement that checks the place and the epoch of the preceding record. PostgreSQL decides what is durable and
//! which node may write.
//!
//! ```text
//! PostgresLogs ─▶ log       appends, reads, removals: a session for each            (log/)
//! Database ─────▶ database  uses the primary, never an earlier one                  (database.rs)
//!                 search    asks all hosts which one accepts writes                 (search.rs, reach.rs)
//!                 login     user and password, read again for each connection    (login.rs)
//!                 settings  refuses servers that would lose data                    (settings.rs)
//!                 schema    creates the tables under a lock                         (schema.rs)
//!                 session   drives a connection; notices, silence                   (session.rs)
//!                 executing whether a late answer is lost                           (executing.rs)
//! PostgresLeases ▶ leases   assignment of shards to nodes                           (leases.rs)
//!                 observer  the ends of logs, for nodes that stand by               (observer.rs)
//! ```
//!
//! # In doubt
//! An append is [`peeklock_storage::Error::InDoubt`] when its connection ends before the answer. The client ends a
//! connection when no byte is transferred for a while although an answer is pending (a link cut in one direction, a
//! stopped server), and when the server warns that it answers a commit without its standby, as it does when the wait is
//! cancelled: the answer follows the warning and is never read. This crate never sends a cancel request.
//!
//! # Two primaries
//! If two servers accept writes, the one on the higher timeline is used. An old primary without standbys acknowledges
//! nothing. Reads use a server only if it has the last acknowledged record.

mod database;
mod environment;
mod executing;
mod failure;
mod leases;
mod log;
mod login;
mod metrics;
mod noted;
mod observer;
mod options;
mod reach;
mod schema;
mod search;
mod session;
mod settings;
mod standbys;
mod stream;
mod tls;
mod watch;

pub use database::Database;
pub use environment::TokioEnvironment;
pub use failure::Failure;
pub use leases::PostgresLeases;
pub use log::{PostgresLogs, RECORDS_AHEAD};
pub use metrics::PostgresMetrics;
pub use options::{DatabaseOptions, Durability, OptionsError, URL_SCHEMES};
pub use session::{Parameters, Session};
pub use watch::DatabaseWatch;
