//! Room reserved in the database: a table that is dropped when the disk is full, so that removals can still be
//! appended.
//!
//! `DROP` frees the files at once and only deletes from the catalogues. `TRUNCATE` inserts into them, for which there
//! may be no room, and deleted rows are freed only by a vacuum, which may need some itself.

use peeklock_storage::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::remove::Remover;
use super::side::Purpose;
use crate::Database;
use crate::executing::execute_long;
use crate::failure::Failure;
use crate::session::Session;

/// Number of rows in the table, numbered from 1.
const ROWS: i32 = 16;
/// Bytes of each row. They are incompressible, because a file system that compresses would reserve nothing otherwise.
const ROW_BYTES: usize = 1 << 20;

const COUNT: &str = "select count(*) from reserve";
const CREATE: &str = "create table if not exists reserve (number int primary key, data bytea not null);
alter table reserve alter data set storage external";
const FILL: &str = "insert into reserve (number, data) values ($1, $2) on conflict do nothing";
const RELEASE: &str = "drop table if exists reserve";
/// The server's autovacuum runs only after many removals, and with few large messages never. Tables being vacuumed
/// already are skipped. It reads the changed part of the tables, which may take minutes.
const VACUUM: &str = "vacuum (skip_locked) log, body";

impl Remover {
    /// Creates and fills the table.
    ///
    /// # Errors
    /// [`Error::Full`]: the table does not exist then.
    pub(super) async fn keep_reserve(&self, database: &Database) -> Result<(), Error> {
        let session = self.session();
        let rows: i64 = count(session).await.map_err(Failure::of_change)?;
        if rows >= i64::from(ROWS) {
            return Ok(());
        }
        match execute_long(database, session, VACUUM).await {
            // The vacuum may need room itself; the space that it freed remains free.
            Ok(()) | Err(Failure::Refused(_)) => {}
            Err(failure) => return Err(failure.of_change()),
        }
        match fill(session).await {
            Ok(()) => Ok(()),
            // The table was dropped meanwhile, for lack of room.
            Err(failure) if failure.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                Err(Error::Full { reason: failure.to_string() })
            }
            Err(failure) => {
                let error = failure.of_change();
                if matches!(error, Error::Full { .. }) {
                    self.release_reserve().await?;
                }
                Err(error)
            }
        }
    }

    /// Drops the table.
    pub(super) async fn release_reserve(&self) -> Result<(), Error> {
        let session = self.session();
        session.ask(session.client().batch_execute(RELEASE)).await.map_err(Failure::of_change)
    }
}

async fn count(session: &Session) -> Result<i64, Failure> {
    match session.ask(session.client().query_one(COUNT, &[])).await {
        Ok(row) => Ok(row.try_get(0)?),
        Err(failure) if failure.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(0),
        Err(failure) => Err(failure),
    }
}

async fn fill(session: &Session) -> Result<(), Failure> {
    let client = session.client();
    session.ask(client.batch_execute(CREATE)).await?;
    let statement = session.ask(client.prepare_typed(FILL, &[Type::INT4, Type::BYTEA])).await?;
    let mut data = vec![0_u8; ROW_BYTES];
    for number in 1..=ROWS {
        rand::fill(&mut data[..]);
        session.execute(&statement, &[&number, &data]).await?;
    }
    Ok(())
}
