//! Failure of a command about a store: as text, as JSON, and as an exit code.

use std::path::Path;

use peeklock_storage::Error;
use serde_json::{Value, json};

use super::output;
use crate::config::DatabaseUrl;
use crate::exit::Exit;

/// A message and the exit code.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) exit: Exit,
}

impl Failure {
    /// The data directory or backup is unusable.
    pub(super) const fn data(message: String) -> Self {
        Self { message, exit: Exit::Data }
    }

    /// Something failed that says nothing about the data.
    pub(super) const fn run_time(message: String) -> Self {
        Self { message, exit: Exit::Failure }
    }

    /// Wrong usage of the command line.
    pub(super) const fn usage(message: String) -> Self {
        Self { message, exit: Exit::Usage }
    }

    /// An error of the storage; if it can't be reached or written, that is a failure at run time.
    pub(super) fn of(error: &Error) -> Self {
        let exit = match error {
            Error::Corrupt { .. } | Error::Fenced { .. } => Exit::Data,
            _ => Exit::Failure,
        };
        let message = match error {
            Error::Unavailable { reason } | Error::System { reason } => reason.clone(),
            _ => error.to_string(),
        };
        Self { message, exit }
    }

    /// An error of the data directory or backup that a command reads: its path and permissions belong to it, while errors of
    /// the system, such as missing descriptors, say nothing about it.
    pub(super) fn of_source(error: &Error) -> Self {
        let failure = Self::of(error);
        match error {
            Error::Unavailable { .. } => Self::data(failure.message),
            _ => failure,
        }
    }

    /// Refuses a database for a command about files.
    ///
    /// # Errors
    /// A failure that names the alternative.
    pub(super) fn unless_files(place: &Path) -> Result<(), Self> {
        if !DatabaseUrl::is_like(&place.to_string_lossy()) {
            return Ok(());
        }
        Err(Self::usage(
            "this command is for data directories. A database is backed up, checked and restored by PostgreSQL's own means, such as \
             pg_basebackup and pg_amcheck (docs/cluster.md); `peeklock store copy` makes a directory of it"
                .to_owned(),
        ))
    }

    /// Refuses a target inside a directory that the command reads: `what`, which would be changed by it and lost with it.
    ///
    /// # Errors
    /// A failure that names both.
    pub(super) fn unless_outside(directory: &Path, what: &str, target: &Path) -> Result<(), Self> {
        let Ok(directory) = directory.canonicalize() else { return Ok(()) };
        let existing = std::path::absolute(target).ok().and_then(|target| {
            let mut ancestors = target.ancestors().filter_map(|path| path.canonicalize().ok());
            ancestors.next()
        });
        if existing.is_some_and(|path| path.starts_with(&directory)) {
            let reason = format!("{} lies inside the {what}; choose another place", target.display());
            return Err(Self::usage(reason));
        }
        Ok(())
    }

    /// Prints the failure; as JSON with the fields of `with`.
    pub(super) fn show(&self, is_json: bool, with: &Value) {
        if !is_json {
            return output::error(&self.message);
        }
        let mut value = with.clone();
        if let Some(object) = value.as_object_mut() {
            object.insert("message".to_owned(), json!(self.message));
        }
        output::json(&value);
    }
}
