//! Source or target of a copy, opened so that no broker uses it meanwhile.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use peeklock_cluster::{Ended, Member, Membership, Settings};
use peeklock_storage::{Error, LocalOptions, LocalStore, ShardId, Store};

use super::super::output;
use super::super::store_failure::Failure;
use crate::config::{self, DATA_DIR_DEFAULT, DatabaseUrl, StorageConfig, StorageEngine};
use crate::database::{self, Replicated};
use crate::exit::Exit;

/// A file that the first start writes into a data directory.
const MANIFEST: &str = "MANIFEST";
/// A lease that is not renewed expires within this time.
const LEASE_WAIT: Duration = Duration::from_secs(20);
/// A database that does not answer for longer is reported.
const SILENCE: Duration = Duration::from_secs(10);

/// A store on the command line.
#[derive(Debug, Clone)]
pub(super) struct Side {
    place: Place,
    config: StorageConfig,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Directory(PathBuf),
    Database(DatabaseUrl),
}

/// Whether it is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Target,
}

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if DatabaseUrl::is_like(text) {
            let config = StorageConfig { engine: StorageEngine::Postgres, ..StorageConfig::default() };
            return Ok(Self { place: Place::Database(text.parse()?), config });
        }
        let path = Path::new(text);
        if path.extension().is_some_and(|extension| extension == "toml") {
            return Self::of_file(path);
        }
        if text.is_empty() {
            return Err("is empty; name a data directory, the URL of a database, or a .toml file".to_owned());
        }
        // A misspelt URL would be a new directory, and the copy would seem to be complete.
        if text.contains("://") {
            text.parse::<DatabaseUrl>()?;
        }
        Ok(Self { place: Place::Directory(path.to_owned()), config: StorageConfig::default() })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Directory(path) => path.display().fmt(formatter),
            Place::Database(url) => url.fmt(formatter),
        }
    }
}

impl Side {
    /// The store of a configuration.
    fn of_file(path: &Path) -> Result<Self, String> {
        let file = config::load(path).map_err(|problems| problems.to_string())?;
        let config = file.storage;
        let place = match (config.engine, &config.url) {
            (StorageEngine::Local, _) => {
                Place::Directory(file.data_dir.unwrap_or_else(|| DATA_DIR_DEFAULT.into()))
            }
            (StorageEngine::Postgres, Some(url)) => Place::Database(url.clone()),
            (StorageEngine::Postgres, None) => {
                return Err(format!("{}: storage.url is missing", path.display()));
            }
        };
        Ok(Self { place, config })
    }

    /// Whether both are the same store.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::Directory(one), Place::Directory(other)) => {
                one == other
                    || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|it| it == one))
            }
            (one, other) => one == other,
        }
    }

    /// The data directory, if it is one.
    pub(super) const fn directory(&self) -> Option<&PathBuf> {
        match &self.place {
            Place::Directory(path) => Some(path),
            Place::Database(_) => None,
        }
    }

    /// Opens it, unless a broker uses it.
    pub(super) async fn open(&self, role: Role) -> Result<Open, Failure> {
        match &self.place {
            Place::Directory(path) => self.open_directory(path, role),
            Place::Database(url) => self.open_database(url).await,
        }
    }

    fn open_directory(&self, path: &Path, role: Role) -> Result<Open, Failure> {
        if role == Role::Source && !path.join(MANIFEST).exists() {
            let reason = "the directory has no manifest, or there is none of this name";
            return Err(Failure::data(format!("there is no data directory {}: {reason}", path.display())));
        }
        let options = LocalOptions { scrub_interval: None, ..crate::serve::local_options(&self.config) };
        let store = LocalStore::open(path, options).map_err(|error| {
            let Failure { message, exit } = Failure::of(&error);
            Failure { message: format!("{}: {message}", path.display()), exit }
        })?;
        Ok(Open::Directory(Arc::new(store)))
    }

    async fn open_database(&self, url: &DatabaseUrl) -> Result<Open, Failure> {
        let replicated =
            Replicated::new(url, &self.config).map_err(|error| Failure::usage(format!("{url}: {error}")))?;
        let session = replicated.database.connect("store copy").await;
        drop(session.map_err(|error| Failure {
            message: format!("{url}: {}", error.of_reading()),
            exit: Exit::Failure,
        })?);
        let member = member(&replicated);
        let held = tokio::select! {
            held = member.gained(ShardId(0)) => held,
            () = tokio::time::sleep(LEASE_WAIT) => {
                member.leave().await;
                return Err(Failure::data(format!("{url}: a broker uses it{}; stop it first", holder(&replicated).await)));
            }
        };
        Ok(Open::Database { name: url.to_string(), replicated, member, held })
    }
}

/// Joins the cluster like a node, so that no broker serves from the database meanwhile.
fn member(replicated: &Replicated) -> Member {
    let host = crate::config::ClusterConfig::default().node_name();
    let info = database::node(format!("store-copy-{host}-{}", std::process::id()), String::new());
    Member::start(replicated.leases(), info, Settings::default(), database::elapsed())
}

/// The node that holds the lease.
async fn holder(replicated: &Replicated) -> String {
    let status = replicated.leases().status().await.unwrap_or_default();
    let holder = status.leases.into_iter().find_map(|(lease, _)| lease.holder);
    holder.map_or_else(String::new, |(name, _)| format!(" (node {name})"))
}

/// A store that only this process uses.
pub(super) enum Open {
    Directory(Arc<LocalStore>),
    Database { name: String, replicated: Replicated, member: Member, held: Membership },
}

impl Open {
    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::Directory(store) => &**store,
            Self::Database { replicated, .. } => &replicated.store,
        }
    }

    /// Its approximate size, where known.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        match self {
            Self::Directory(store) => store.figures().bytes().map(|bytes| bytes.live),
            Self::Database { .. } => None,
        }
    }

    /// Reports a database that does not answer; operations on it wait. Never resolves.
    pub(super) async fn watch(&self) -> Infallible {
        let Self::Database { name, member, .. } = self else { return std::future::pending().await };
        let mut was_silent = false;
        loop {
            tokio::time::sleep(SILENCE).await;
            let since = member.contact().answered_at.unwrap_or_default();
            let is_silent = member.elapsed().now().saturating_sub(since) > SILENCE;
            match (was_silent, is_silent) {
                (false, true) => output::note(format!(
                    "{name} does not answer; waiting for it. The command may be stopped and run again: it resumes where it stopped"
                )),
                (true, false) => output::note(format!("{name} answers again")),
                _ => {}
            }
            was_silent = is_silent;
        }
    }

    /// Resolves when another process may use the store.
    pub(super) async fn lost(&self) -> Failure {
        match self {
            Self::Directory(_) => std::future::pending().await,
            Self::Database { name, held, .. } => {
                // A hand-over can't occur, because no configuration names this node.
                let (Ended::Lost | Ended::HandOver(_)) = held.ended().await;
                let reason = Error::Fenced { reason: format!("{name}: the lease was lost") };
                Failure::data(format!("{reason}; run the command again, it resumes where it stopped"))
            }
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::Directory(store) => {
                // On an error the closing thread has panicked, which was logged.
                let _ = tokio::task::spawn_blocking(move || store.close()).await;
            }
            Self::Database { replicated, member, .. } => {
                replicated.store.close().await;
                member.leave().await;
            }
        }
    }
}
