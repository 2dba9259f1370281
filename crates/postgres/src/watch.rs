//! Database figures for the metrics page: standbys, what holds back vacuum, and the sizes of the tables.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peeklock_metrics::{Family, Page, Source, Unit};
use tokio::task::AbortHandle;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::options::Durability;
use crate::standbys::{Mistake, Standbys};
use crate::{Database, Session};

const STANDBYS: Family = Family::gauge(
    "peeklock_postgres_standbys",
    Unit::None,
    "Standbys that receive the log of the primary, and those of them that confirm commits, or would in place of another.",
);
const LAG: Family = Family::gauge(
    "peeklock_postgres_replication_lag_bytes",
    Unit::Bytes,
    "Log of the primary that the most delayed standby has not written to disk.",
);
const XMIN_AGE: Family = Family::gauge(
    "peeklock_postgres_oldest_xmin_age",
    Unit::None,
    "Transactions since the oldest snapshot that counts for this database: dead rows that are younger can't be removed.",
);
const ROWS: Family = Family::gauge(
    "peeklock_postgres_rows",
    Unit::None,
    "Rows of the tables as PostgreSQL estimates them, live ones and dead ones that vacuum has yet to remove.",
);
const TABLE_BYTES: Family = Family::gauge(
    "peeklock_postgres_table_bytes",
    Unit::Bytes,
    "Size of the tables in the database, with their indexes and large values.",
);

/// Pause between two readings.
const PAUSE: Duration = Duration::from_secs(15);

/// Standbys and snapshots of other roles are visible only to roles that may read all statistics. Vacuum of a table
/// ignores the snapshots of other databases; those of standbys and slots belong to none, and count in all.
const SERVER: &str = "
with may as (select pg_has_role(current_user, 'pg_read_all_stats', 'usage') as read)
select
  case when may.read then (select count(*) from pg_stat_replication where state = 'streaming') end,
  case when may.read then (select count(*) from pg_stat_replication
    where state = 'streaming' and sync_state in ('sync', 'quorum', 'potential')) end,
  (select max(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn))::bigint from pg_stat_replication where state = 'streaming'),
  greatest((select max(age(backend_xmin)) from pg_stat_activity where coalesce(datname = current_database(), true)),
    (select max(age(xmin)) from pg_replication_slots),
    (select max(age(transaction)) from pg_prepared_xacts where database = current_database()))::bigint
from may";

const TABLES: &str = "
select relname::text, n_live_tup, n_dead_tup, pg_total_relation_size(relid)
from pg_stat_user_tables where schemaname = $1 and relname in ('log', 'body') order by relname";

/// Reads the database periodically, until dropped, and is a source of metrics.
#[derive(Debug)]
pub struct DatabaseWatch {
    figures: Arc<Mutex<Figures>>,
    task: AbortHandle,
}

impl Drop for DatabaseWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The figures read last; empty while the database can't be read.
#[derive(Debug, Clone, Default)]
struct Figures {
    standbys: Option<u64>,
    confirming: Option<u64>,
    lag_bytes: Option<u64>,
    xmin_age: Option<u64>,
    tables: Vec<Table>,
}

#[derive(Debug, Clone)]
struct Table {
    name: String,
    live_rows: u64,
    dead_rows: u64,
    bytes: u64,
}

impl DatabaseWatch {
    /// Starts reading every 15 seconds, on the current tokio runtime.
    #[must_use]
    pub fn start(database: Database) -> Self {
        Self::start_with_pause(database, PAUSE)
    }

    /// Like [`Self::start`], with this pause between two readings.
    #[must_use]
    pub fn start_with_pause(database: Database, pause: Duration) -> Self {
        let figures = Arc::<Mutex<Figures>>::default();
        let task = tokio::spawn(run(database, pause, Arc::clone(&figures))).abort_handle();
        Self { figures, task }
    }
}

fn lock(figures: &Mutex<Figures>) -> MutexGuard<'_, Figures> {
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(database: Database, pause: Duration, figures: Arc<Mutex<Figures>>) {
    let mut session = None;
    let mut mistake = None;
    loop {
        let found = round(&database, &mut session, &mut mistake).await;
        if let Err(failure) = &found {
            tracing::debug!(%failure, "the database's figures can't be read");
            session = None;
        }
        *lock(&figures) = found.unwrap_or_default();
        tokio::time::sleep(pause).await;
    }
}

async fn round(
    database: &Database,
    session: &mut Option<Session>,
    mistake: &mut Option<Mistake>,
) -> Result<Figures, Failure> {
    if session.as_ref().is_none_or(|session| session.is_closed() || database.has_left_behind(session)) {
        *session = Some(database.connect("figures").await?);
    }
    let Some(session) = session else { return Ok(Figures::default()) };
    let mut figures = Figures::default();
    for row in session.query(TABLES, &[&database.options().schema]).await? {
        figures.tables.push(Table {
            name: row.try_get(0)?,
            live_rows: number(&row, 1)?.unwrap_or_default(),
            dead_rows: number(&row, 2)?.unwrap_or_default(),
            bytes: number(&row, 3)?.unwrap_or_default(),
        });
    }
    // Some services do not support this query.
    if let Ok(row) = session.query_one(SERVER, &[]).await {
        figures.standbys = number(&row, 0)?;
        figures.confirming = number(&row, 1)?;
        figures.lag_bytes = number(&row, 2)?;
        figures.xmin_age = number(&row, 3)?;
        if let Ok(standbys) = Standbys::of(session).await {
            report(&standbys, database.options().durability, mistake);
        }
    }
    Ok(figures)
}

/// Logs when commits begin to wait for a standby, or to need none, and when that ends.
fn report(standbys: &Standbys, durability: Durability, reported: &mut Option<Mistake>) {
    let mistake = standbys.mistake(durability);
    if std::mem::replace(reported, mistake) == mistake {
        return;
    }
    match mistake {
        Some(Mistake::NoneNamed) => tracing::warn!(%standbys, "commits are on one machine only"),
        Some(Mistake::NoneConfirms) => tracing::warn!(%standbys, "no standby confirms commits, which wait"),
        None => tracing::info!(%standbys, "commits are confirmed by standbys again"),
    }
}

fn number(row: &Row, at: usize) -> Result<Option<u64>, Failure> {
    let number: Option<i64> = row.try_get(at)?;
    Ok(number.map(|number| u64::try_from(number).unwrap_or_default()))
}

impl Source for DatabaseWatch {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let figures = lock(&self.figures).clone();
        let standbys = [("receiving", figures.standbys), ("confirming", figures.confirming)];
        page.each(
            &STANDBYS,
            standbys.into_iter().filter_map(|(what, count)| Some(([("standbys", what)], count?))),
        )?;
        for (family, value) in [(&LAG, figures.lag_bytes), (&XMIN_AGE, figures.xmin_age)] {
            if let Some(value) = value {
                page.one(family, value)?;
            }
        }
        let rows = figures.tables.iter().flat_map(|table| {
            let label = |state| [("table", table.name.as_str()), ("state", state)];
            [(label("live"), table.live_rows), (label("dead"), table.dead_rows)]
        });
        page.each(&ROWS, rows)?;
        let bytes = figures.tables.iter().map(|table| ([("table", table.name.as_str())], table.bytes));
        page.each(&TABLE_BYTES, bytes)
    }
}
