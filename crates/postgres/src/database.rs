//! A database of several servers, of which one is the primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::OnceCell;

use crate::failure::Failure;
use crate::login::Login;
use crate::metrics::PostgresMetrics;
use crate::options::{DatabaseOptions, OptionsError};
use crate::reach::ConnectionContext;
use crate::schema;
use crate::search::Search;
use crate::session::Session;
use crate::stream::SilenceTolerance;
use crate::tls::TlsFiles;

/// A database of several servers; cheap to clone. It connects on request, within a tokio runtime.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    context: ConnectionContext,
    /// Set once the tables exist. They are not created again, since missing tables mean lost data.
    has_tables: OnceCell<()>,
    /// The highest timeline of a server that was used.
    timeline: AtomicU32,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Database").field("options", &self.0.context.options).finish_non_exhaustive()
    }
}

impl Database {
    /// A database with these `options`. Reads certificate files now; they and the source of the URL are read again for each
    /// connection. Does not connect yet.
    ///
    /// # Errors
    /// [`OptionsError::File`] for a certificate or key that can't be used.
    pub fn new(options: DatabaseOptions, metrics: PostgresMetrics) -> Result<Self, OptionsError> {
        let tls = TlsFiles::read(options.tls.clone())?;
        let login = Login::new(&options);
        let tolerance = SilenceTolerance::default();
        let context = ConnectionContext { options, login, tls, metrics, tolerance };
        Ok(Self(Arc::new(Inner { context, has_tables: OnceCell::new(), timeline: AtomicU32::new(0) })))
    }

    /// The options of the connection.
    #[must_use]
    pub fn options(&self) -> &DatabaseOptions {
        &self.0.context.options
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &PostgresMetrics {
        &self.0.context.metrics
    }

    /// Opens a session on the primary: finds it among the hosts, checks its settings, and creates the tables if this is
    /// the first use. `purpose` is appended to `application_name` in `pg_stat_activity`.
    ///
    /// If two servers accept writes, the one on the higher timeline is the primary: the other was left behind by a
    /// fail-over. Such a server is not used alone either, because it lacks later commits.
    ///
    /// # Errors
    /// [`Failure::Unfit`] with the answer of each host; others when the connection ends meanwhile.
    pub async fn connect(&self, purpose: &str) -> Result<Session, Failure> {
        let session = self.primary(purpose).await.inspect_err(|_| {
            self.0.context.metrics.refusals.inc();
        })?;
        self.0.context.metrics.connections.inc();
        let schema = &self.0.context.options.schema;
        self.0.has_tables.get_or_try_init(|| schema::ensure(&session, schema)).await?;
        Ok(session)
    }

    async fn primary(&self, purpose: &str) -> Result<Session, Failure> {
        let (found, mut refusals) = Search::new(&self.0.context, purpose).run().await;
        if let Some(session) = newest(found).await {
            match self.check_timeline(session.timeline()) {
                Ok(()) => return Ok(session),
                Err(reason) => refusals.push(format!("{}: {reason}", session.server())),
            }
        }
        refusals.sort();
        Err(Failure::Unfit { reason: format!("no server can be used: {}", refusals.join("; ")) })
    }

    /// Whether a fail-over has left the session's server behind, as far as later connections have shown.
    pub(crate) fn has_left_behind(&self, session: &Session) -> bool {
        session.timeline().is_some_and(|timeline| timeline < self.0.timeline.load(Ordering::Relaxed))
    }

    /// Refuses a lower timeline than the highest one used; `None`, for a service without the query, is accepted.
    fn check_timeline(&self, timeline: Option<u32>) -> Result<(), String> {
        let Some(timeline) = timeline else { return Ok(()) };
        let highest = self.0.timeline.fetch_max(timeline, Ordering::Relaxed);
        if timeline >= highest {
            return Ok(());
        }
        Err(format!(
            "a fail-over has left it behind: it is on timeline {timeline}, and a server on timeline {highest} was used \
             before"
        ))
    }
}

/// The session on the highest timeline.
async fn newest(sessions: Vec<Session>) -> Option<Session> {
    let is_one = sessions.len() < 2;
    let mut newest: Option<Session> = None;
    for mut session in sessions {
        let timeline = timeline(&session).await;
        session.set_timeline(timeline);
        if !is_one {
            tracing::warn!(server = session.server(), timeline, "more than one server accepts writes");
        }
        if newest.as_ref().is_none_or(|newest| timeline > newest.timeline()) {
            newest = Some(session);
        }
    }
    newest
}

/// The first eight digits of a WAL file's name are its timeline. Not every service supports the query.
async fn timeline(session: &Session) -> Option<u32> {
    let query = "select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
    let row = session.query_one(query, &[]).await.ok()?;
    u32::from_str_radix(row.try_get::<_, &str>(0).ok()?, 16).ok()
}
