//! One connection to the primary, with checked settings, driven by a task of its own.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Connection, Row, Statement, ToStatement};

use crate::failure::{Failure, text, with_source};
use crate::metrics::PostgresMetrics;
use crate::stream::Watch;

/// Values for `$1`, `$2`, …
pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection to the primary whose settings were checked. Concurrent requests are pipelined. A cancel request is
/// never sent, and a request whose future is dropped is executed nevertheless. Dropping the session ends its connection
/// immediately.
pub struct Session {
    client: Client,
    server: String,
    /// Set once it is known.
    timeline: Option<u32>,
    watch: Arc<Watch>,
    silence: Duration,
    driver: AbortHandle,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Otherwise the connection would last as long as a statement that hangs.
impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Session {
    /// Drives `connection` until it ends or is abandoned.
    pub(crate) fn start<S, T>(
        client: Client,
        connection: Connection<S, T>,
        server: String,
        watch: Arc<Watch>,
        silence: Duration,
        metrics: PostgresMetrics,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let driver = Driver { server: server.clone(), watch: Arc::clone(&watch), silence, metrics };
        let driver = tokio::spawn(driver.run(connection)).abort_handle();
        Self { client, server, timeline: None, watch, silence, driver }
    }

    /// The client, for [`Self::ask`]. The tables are found without naming their schema.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The server as `host:port`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The timeline of the server when it was found to be the primary; `None` if it does not tell.
    pub(crate) const fn timeline(&self) -> Option<u32> {
        self.timeline
    }

    pub(crate) const fn set_timeline(&mut self, timeline: Option<u32>) {
        self.timeline = timeline;
    }

    /// Whether the connection has ended, so that nothing more will be answered.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Awaits the answer to a request of [`Self::client`]. Meanwhile, the connection is abandoned if no byte is
    /// transferred for [`crate::DatabaseOptions::with_silence`], or if it answers a commit without its standby.
    ///
    /// # Errors
    /// The server's error, [`Failure::Lost`] when the connection ends first, and [`Failure::Unfit`] when the server has
    /// become read-only, because another one may be the primary then, or when a pooler has exchanged the session: both
    /// end it.
    pub async fn ask<T>(
        &self,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        let _owed = self.watch.begin_request();
        request.await.map_err(|error| self.failure(error))
    }

    /// The rows returned by `statement`, awaited like [`Self::ask`].
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn query<S>(&self, statement: &S, parameters: Parameters<'_>) -> Result<Vec<Row>, Failure>
    where
        S: ?Sized + ToStatement + Sync,
    {
        self.ask(self.client.query(statement, parameters)).await
    }

    /// Like [`Self::query`], but without a limit on silence: the caller finds out whether the request is lost.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn query_patiently(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        self.client.query(statement, parameters).await.map_err(|error| self.failure(error))
    }

    /// Like [`Self::query_patiently`], for statements without parameters and rows.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn execute_patiently(&self, statements: &str) -> Result<(), Failure> {
        self.client.batch_execute(statements).await.map_err(|error| self.failure(error))
    }

    /// The one row returned by `statement`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn query_one<S>(&self, statement: &S, parameters: Parameters<'_>) -> Result<Row, Failure>
    where
        S: ?Sized + ToStatement + Sync,
    {
        self.ask(self.client.query_one(statement, parameters)).await
    }

    /// The number of rows changed by `statement`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn execute<S>(&self, statement: &S, parameters: Parameters<'_>) -> Result<u64, Failure>
    where
        S: ?Sized + ToStatement + Sync,
    {
        self.ask(self.client.execute(statement, parameters)).await
    }

    fn failure(&self, error: tokio_postgres::Error) -> Failure {
        let server = &self.server;
        match Failure::from(error) {
            Failure::Lost { reason } => {
                let reason = self.watch.reason().map_or(reason, ToOwned::to_owned);
                Failure::Lost { reason: format!("{server}: {reason}") }
            }
            Failure::Unfit { reason } => {
                self.end(&reason);
                Failure::Unfit { reason: format!("{server}: {reason}") }
            }
            refused @ Failure::Refused(_) => refused,
        }
    }

    /// The observed state of the connection, including its notifications.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Declares that the session appends: for a large record, a server may need longer than the silence tolerated
    /// otherwise.
    pub(crate) fn mark_appending(&self) {
        self.watch.mark_appending();
    }

    /// Declares that the session removes: its commits wait for the standby as those of appends do.
    pub(crate) fn mark_removing(&self) {
        self.watch.mark_removing();
    }

    /// Records how long an append took.
    pub(crate) fn note_answered(&self, took: Duration) {
        self.watch.note_answered(took, self.silence);
    }

    /// Ends the connection immediately. Pending requests fail with [`Failure::Lost`].
    pub fn cut(&self) {
        self.end("the connection was given up for another one");
    }

    fn end(&self, reason: &str) {
        self.watch.end(reason.to_owned());
        self.driver.abort();
    }
}

struct Driver {
    server: String,
    watch: Arc<Watch>,
    silence: Duration,
    metrics: PostgresMetrics,
}

impl Driver {
    async fn run<S, T>(self, mut connection: Connection<S, T>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let reason = self.drive(&mut connection).await;
        // Set before the connection is dropped, because that wakes the waiting requests.
        self.watch.end(reason);
    }

    async fn drive<S, T>(&self, connection: &mut Connection<S, T>) -> String
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let mut ticks = interval((self.silence / 4).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut moves, mut moved) = (0, Instant::now());
        loop {
            let message = tokio::select! {
                biased;
                message = poll_fn(|context| connection.poll_message(context)) => message,
                _ = ticks.tick() => {
                    let (now, silence) = (Instant::now(), self.watch.silence(self.silence));
                    if moves != self.watch.moves() || !self.watch.is_owed() {
                        (moves, moved) = (self.watch.moves(), now);
                    } else if now - moved >= silence {
                        self.watch.note_given_up();
                        tracing::warn!(server = self.server, ?silence, "no answer in time: connection dropped");
                        return format!("no answer for {silence:?}");
                    }
                    continue;
                }
            };
            match message {
                Some(Ok(AsyncMessage::Notice(notice))) if is_doubtful(&notice) => {
                    self.metrics.unconfirmed.inc();
                    tracing::warn!(server = self.server, notice = text(&notice), "commits are in doubt");
                    // The answer of the commit follows the notice, and is never read.
                    return format!("commits are in doubt: {}", text(&notice));
                }
                Some(Ok(AsyncMessage::Notice(notice))) => {
                    tracing::debug!(server = self.server, notice = text(&notice), "notice");
                }
                Some(Ok(AsyncMessage::Notification(_))) => self.watch.notified.notify_one(),
                Some(Ok(_)) => {}
                Some(Err(error)) => return with_source(&error),
                None => return "the connection was closed".to_owned(),
            }
        }
    }
}

/// Whether a notice means that a commit was not confirmed by a standby ("canceling wait for synchronous replication").
/// The text depends on `lc_messages`, so the notice is identified by the function that raised it. Servers also warn
/// about other things, some of them in every session or at every commit: another version of the collation library, a
/// vacuum that is overdue. Only where a server names no function, the class of the notice decides.
fn is_doubtful(notice: &DbError) -> bool {
    match notice.routine() {
        Some(routine) => routine == "SyncRepWaitForLSN",
        None => {
            notice.parsed_severity() == Some(Severity::Warning)
                && [SqlState::WARNING, SqlState::ADMIN_SHUTDOWN].contains(notice.code())
        }
    }
}
