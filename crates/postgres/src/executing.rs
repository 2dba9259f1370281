//! Whether a server still executes a request whose answer is late.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio_postgres::SimpleQueryMessage;

use crate::database::Database;
use crate::failure::Failure;
use crate::session::Session;

/// Whether a backend executes a statement, which is visible to its own login (see `log/append.rs`).
const EXECUTING: &str = "select set_config('role', 'none', true);
  select count(*) from pg_stat_activity where state = 'active' and usename = session_user";

/// The server process of a session; its number alone may be used again.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    process: i32,
    /// Seconds, as the server writes them.
    started_at: String,
}

impl Backend {
    /// The server process of `session`.
    pub(crate) async fn of(session: &Session) -> Result<Self, Failure> {
        let query = "select pid, extract(epoch from backend_start)::text from pg_stat_activity
            where pid = pg_backend_pid()";
        let row = session.query_one(query, &[]).await?;
        Ok(Self { process: row.try_get(0)?, started_at: row.try_get(1)? })
    }

    /// Asks the server that is the primary now, over another connection; it may be another server than that of the
    /// session.
    pub(crate) async fn is_executing(&self, database: &Database, purpose: &str) -> Result<bool, Failure> {
        let Self { process, started_at } = self;
        let session = database.connect(purpose).await?;
        let query = format!(
            "{EXECUTING} and pid = {process} and extract(epoch from backend_start)::text = '{started_at}'"
        );
        let answer = session.ask(session.client().simple_query(&query)).await?;
        let count = answer.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten(),
            _ => None,
        });
        Ok(count == Some("1"))
    }
}

/// Executes statements that may take minutes without a byte: waits for as long as the server executes them.
///
/// # Errors
/// As [`Session::ask`].
pub(crate) async fn execute_long(
    database: &Database,
    session: &Session,
    statements: &str,
) -> Result<(), Failure> {
    let backend = Backend::of(session).await?;
    let mut answer = pin!(session.execute_patiently(statements));
    loop {
        let pause = pin!(tokio::time::sleep(database.options().silence));
        match select(&mut answer, pause).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(_) => {
                // Without the answer of a primary, the request counts as lost.
                if !backend.is_executing(database, "check").await.unwrap_or(false) {
                    session.cut();
                }
            }
        }
    }
}
