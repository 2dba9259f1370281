//! The tables and their format.
//!
//! `log` has a row for each record. `heads` is kept in the row if it fits (`MAIN`), so that a take-over reads the table
//! in one pass. `body` has a row for each record with bodies; it is stored uncompressed (`EXTERNAL`), so that a part of
//! it can be read without the rest. The tables are separate so that bodies are removed row by row without touching the
//! log. `node` and `lease` assign shards to nodes.

use tokio_postgres::error::SqlState;

use crate::failure::Failure;
use crate::session::Session;

/// Raised when the tables change so that earlier versions can't use them.
const FORMAT: i32 = 1;
/// Advisory lock held while the tables are created: "peeklock" as a number.
const LOCK: i64 = 0x7065_656b_6c6f_636b;

/// Creates missing tables, and refuses tables of a later version.
///
/// # Errors
/// [`Failure::Unfit`] for an unknown format; others of the connection.
pub(crate) async fn ensure(session: &Session, schema: &str) -> Result<(), Failure> {
    let format = match format(session).await {
        Ok(Some(format)) => format,
        Ok(None) => return create(session, schema).await,
        Err(failure) if is_missing(&failure) => return create(session, schema).await,
        Err(failure) => return Err(failure),
    };
    check(schema, format)
}

fn check(schema: &str, format: i32) -> Result<(), Failure> {
    if format == FORMAT {
        return Ok(());
    }
    Err(Failure::Unfit {
        reason: format!(
            "the tables in schema {schema} have format {format}, and this version of peeklock knows {FORMAT}: \
             start the version that made them, or a later one"
        ),
    })
}

async fn format(session: &Session) -> Result<Option<i32>, Failure> {
    let rows = session.query("select version from format", &[]).await?;
    rows.first().map(|row| row.try_get(0).map_err(Failure::from)).transpose()
}

fn is_missing(failure: &Failure) -> bool {
    let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_SCHEMA];
    failure.code().is_some_and(|code| missing.contains(code))
}

async fn create(session: &Session, schema: &str) -> Result<(), Failure> {
    // One message is one transaction: another node that creates the tables at the same time waits for the lock.
    session.ask(session.client().batch_execute(&tables(schema))).await?;
    tracing::info!(schema, "created the tables of the replicated log");
    check(schema, format(session).await?.unwrap_or_default())
}

/// Rows are deleted and never updated: vacuum must be triggered by their number, not by their share of a large table.
const VACUUM: &str = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000";

fn tables(schema: &str) -> String {
    // The name may be an SQL keyword.
    let schema = format!("\"{schema}\"");
    format!(
        "select pg_advisory_xact_lock({LOCK});
do $$ begin
  if to_regnamespace('{schema}') is null then create schema {schema}; end if;
end $$;
create table if not exists {schema}.log (
  shard int not null, place bigint not null, epoch bigint not null, kind smallint not null, heads bytea not null,
  primary key (shard, place)
) with ({VACUUM}, toast.autovacuum_vacuum_scale_factor = 0.01);
alter table {schema}.log alter heads set storage main;
create index if not exists log_mark on {schema}.log (shard, place) where kind = 3;
create table if not exists {schema}.body (
  shard int not null, place bigint not null, data bytea not null,
  primary key (shard, place)
) with ({VACUUM}, toast.autovacuum_vacuum_scale_factor = 0.01);
alter table {schema}.body alter data set storage external;
create table if not exists {schema}.node (
  id text primary key, session bigint not null, address text not null, version text not null, beats bigint not null,
  accepts boolean not null, drained boolean not null, beat timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table if not exists {schema}.lease (
  shard int primary key, node text, session bigint, version bigint not null, until timestamptz not null, wanted text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table if not exists {schema}.format (
  only_row boolean primary key default true check (only_row), version int not null
);
insert into {schema}.format (version) values ({FORMAT}) on conflict do nothing;"
    )
}
