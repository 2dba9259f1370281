//! Errors between this node and the database, classified by whether a statement may have taken effect.

use peeklock_storage::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Why a session has lost its prepared statements.
const POOLER: &str =
    "a pooler between the node and the server must keep sessions separate (PgBouncer: pool_mode = session)";

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server refused the statement, which had no effect.
    #[error("{}", text(.0))]
    Refused(Box<DbError>),
    /// The connection ended before the answer: the statement may have taken effect, may do so later, or never will.
    #[error("{reason}")]
    Lost {
        /// The cause.
        reason: String,
    },
    /// No server is reachable and configured suitably, or the one that was used accepts no writes any more, or a pooler
    /// has exchanged it. The statement had no effect.
    #[error("{reason}")]
    Unfit {
        /// The cause, and what to do about it.
        reason: String,
    },
}

impl Failure {
    /// SQLSTATE of the refusal.
    #[must_use]
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Refused(refusal) => Some(refusal.code()),
            Self::Lost { .. } | Self::Unfit { .. } => None,
        }
    }

    /// The storage error for a failed change.
    #[must_use]
    pub fn of_change(self) -> Error {
        let reason = self.to_string();
        match self {
            Self::Refused(refusal) if is_without_room(refusal.code()) => Error::Full { reason },
            Self::Refused(_) | Self::Unfit { .. } => Error::Unavailable { reason },
            Self::Lost { .. } => Error::InDoubt { reason },
        }
    }

    /// The storage error for a failed read.
    #[must_use]
    pub fn of_reading(self) -> Error {
        Error::Unavailable { reason: self.to_string() }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            // Nothing on this server can be changed any more; another one may be the primary.
            Some(refusal) if refusal.code() == &SqlState::READ_ONLY_SQL_TRANSACTION => {
                Self::Unfit { reason: text(refusal) }
            }
            // Only another client of the same session can have removed a prepared statement.
            Some(refusal) if refusal.code() == &SqlState::INVALID_SQL_STATEMENT_NAME => {
                Self::Unfit { reason: format!("{}; {POOLER}", text(refusal)) }
            }
            // FATAL and PANIC end the session, possibly between a commit and its answer.
            Some(refusal) if refusal.parsed_severity() == Some(Severity::Error) => {
                Self::Refused(Box::new(refusal.clone()))
            }
            Some(end) => Self::Lost { reason: text(end) },
            None => Self::Lost { reason: with_source(&error) },
        }
    }
}

/// Whether the error is of class 53 of SQLSTATE: disk, memory, a limit of the configuration.
fn is_without_room(code: &SqlState) -> bool {
    code.code().starts_with("53")
}

/// The text of a server's error, with detail and hint.
pub(crate) fn text(said: &DbError) -> String {
    let more = [said.detail(), said.hint()].into_iter().flatten();
    let more: String = more.map(|one| format!("; {one}")).collect();
    format!("{}: {} (SQLSTATE {}){more}", said.severity(), said.message(), said.code().code())
}

/// The text of a client error with its cause, which its own text omits.
pub(crate) fn with_source(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return text(said);
    }
    let (shown, source) = (error.to_string(), std::error::Error::source(error));
    match source.map(ToString::to_string) {
        Some(source) if !shown.contains(&source) => format!("{shown}: {source}"),
        _ => shown,
    }
}
