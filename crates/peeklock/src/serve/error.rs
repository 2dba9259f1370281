//! Why serving ended, with the exit code.

use std::io;
use std::path::{Path, PathBuf};

use peeklock_engine::Refusal;
use peeklock_engine::runtime::{LostShard, StartError};
use peeklock_net::TlsError;
use peeklock_postgres::OptionsError;
use peeklock_storage as storage;
use tokio::task::JoinError;

use super::telemetry::SettingsError;
use crate::config::ListenAddress;
use crate::database::DatabaseError;
use crate::exit::Exit;

/// The most frequent reason why an address can't be listened on.
fn bind_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; is another broker running?",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need a privilege, such as CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "; the address belongs to no interface of this machine",
        _ => "",
    }
}

/// Why the broker did not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    /// An address can't be listened on.
    #[error("can't listen for {what} on {address}: {error}{hint} (--{flag} ADDR:PORT chooses another)", hint = bind_hint(error), flag = what.to_lowercase().replace('_', "-"))]
    Bind {
        /// The protocol.
        what: &'static str,
        /// The address as configured.
        address: ListenAddress,
        /// The system's error.
        error: io::Error,
    },
    /// A basic resource failed: threads, signals, sockets.
    #[error("a system resource failed: {0}")]
    System(io::Error),
    /// The audit log can't be opened.
    #[error("audit log (log.audit): {0}")]
    Audit(io::Error),
    /// The store does not open.
    #[error("data directory {}: {error}", directory.display())]
    Store {
        /// The data directory.
        directory: PathBuf,
        /// The store's error.
        error: storage::Error,
    },
    /// The configured database can't be used.
    #[error("[storage] url: {0}")]
    Database(DatabaseError),
    /// The store is an unfinished copy.
    #[error(
        "the store is an unfinished copy of {source_name}: run `peeklock store copy` again, with the same --from and --to, until it \
         says that it is complete"
    )]
    Unfinished {
        /// The source of the copy.
        source_name: String,
    },
    /// The store does not open, because of damage that can't be attributed to single messages only.
    #[error("data directory {}: {error}\nEverything that is damaged:\n{damage}", directory.display())]
    Damaged {
        /// The data directory.
        directory: PathBuf,
        /// The store's error.
        error: storage::Error,
        /// All damage, and how to repair it.
        damage: String,
    },
    /// The shard of the cluster can't be taken over.
    #[error("the store of the cluster: {0}")]
    Cluster(storage::Error),
    /// Entities can't be restored or declared.
    #[error("entities can't be restored or declared: {0}")]
    Start(#[from] StartError),
    /// An entity allows larger messages than the store can hold in one value.
    #[error(
        "{kind} \"{name}\": max_message_size_in_kilobytes = {asked_kb} is more than the store accepts; write at most {limit_kb}"
    )]
    MessageSize {
        /// Queue or topic.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The configured maximum, in KB.
        asked_kb: u64,
        /// The store's maximum, in KB.
        limit_kb: u64,
    },
    /// An entity allows larger messages than fit into the memory for messages in transit.
    #[error(
        "{kind} \"{name}\": max_message_size_in_kilobytes = {asked_kb} is more than {memory_mb} MiB of memory for messages under way allow; write at most {limit_kb}, or raise memory_max in [limits]"
    )]
    Memory {
        /// Queue or topic.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The configured maximum, in KB.
        asked_kb: u64,
        /// The maximum that the memory allows, in KB.
        limit_kb: u64,
        /// The memory, in MiB.
        memory_mb: u64,
    },
    /// TLS can't be served.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The configured export to OpenTelemetry is not possible.
    #[error(transparent)]
    Telemetry(#[from] SettingsError),
    /// The ready file can't be written.
    #[error(
        "the ready file {} can't be written: {error} (--ready-file FILE chooses another; its directory must exist)", file.display()
    )]
    ReadyFile {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The store was lost while serving.
    #[error("stopping, because nothing more can be stored safely: {0}")]
    Lost(LostShard),
}

impl ServeError {
    /// [`Self::System`]: the listener's task ended unexpectedly.
    pub(super) fn listener_ended(ended: Result<(), JoinError>) -> Self {
        let reason = ended.map_or_else(|error| error.to_string(), |()| "it ended by itself".to_owned());
        Self::System(io::Error::other(format!("a listener failed: {reason}")))
    }

    /// [`Self::ReadyFile`].
    pub(super) fn ready_file(file: &Path, error: io::Error) -> Self {
        Self::ReadyFile { file: file.to_owned(), error }
    }

    /// Whether neither the configuration nor the contents of the data directory are at fault, so that another start may succeed.
    fn is_failure_of_system(&self) -> bool {
        match self {
            Self::Store { error, .. } | Self::Start(StartError::Storage(error)) => {
                matches!(
                    error,
                    storage::Error::InDoubt { .. }
                        | storage::Error::System { .. }
                        | storage::Error::Full { .. }
                )
            }
            Self::Start(StartError::Refused { refusal, .. }) => {
                matches!(refusal, Refusal::Unavailable | Refusal::StorageFull | Refusal::StorageFailing)
            }
            Self::Tls(TlsError::File { error, .. }) => Exit::of_file(error) == Exit::Failure,
            Self::Database(DatabaseError::Options(OptionsError::File { unread: Some(kind), .. })) => {
                Exit::of_file(&(*kind).into()) == Exit::Failure
            }
            _ => false,
        }
    }

    /// The exit code of the process.
    pub(super) fn exit(&self) -> Exit {
        match self {
            _ if self.is_failure_of_system() => Exit::Failure,
            Self::Store { .. }
            | Self::Damaged { .. }
            | Self::Unfinished { .. }
            | Self::Cluster(_)
            | Self::Lost(LostShard { reason: storage::Error::Corrupt { .. }, .. })
            | Self::Start(StartError::Storage(_) | StartError::Record { .. }) => Exit::Data,
            Self::Start(
                StartError::InvalidName { .. }
                | StartError::InvalidOptions { .. }
                | StartError::NoSuchTopic { .. }
                | StartError::Refused { .. },
            )
            | Self::MessageSize { .. }
            | Self::Memory { .. }
            | Self::Database(_)
            | Self::Telemetry(_)
            | Self::Tls(_) => Exit::Usage,
            Self::Bind { .. }
            | Self::System(_)
            | Self::Audit(_)
            | Self::Start(_)
            | Self::ReadyFile { .. }
            | Self::Lost(_) => Exit::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use peeklock_storage::{Epoch, ShardId};

    use super::*;

    #[test]
    fn only_mistakes_and_damage_prevent_another_start() {
        let tls = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            ServeError::Tls(TlsError::File { what: "TLS file", file: "ca.pem".into(), error })
        };
        let database = |errno| {
            let unread = Some(io::Error::from_raw_os_error(errno).kind());
            let path = "ca.pem".into();
            let reason = "test".to_owned();
            let error = OptionsError::File { parameter: "sslrootcert", path, reason, unread };
            ServeError::Database(error.into())
        };
        let refused = |refusal| ServeError::from(StartError::Refused { name: "queue".to_owned(), refusal });
        let store = |error| ServeError::Store { directory: "data".into(), error };
        let (enoent, eio, emfile, enospc) = (2, 5, 24, 28);
        let reason = || "test".to_owned();
        let lost = |reason| ServeError::Lost(LostShard { shard: ShardId(0), epoch: Epoch(1), reason });
        let place = storage::Place { unit: "record".to_owned(), offset: 0 };
        for (error, exit) in [
            (tls(enoent), Exit::Usage),
            (tls(eio), Exit::Failure),
            (tls(emfile), Exit::Failure),
            (tls(enospc), Exit::Failure),
            (database(enoent), Exit::Usage),
            (database(emfile), Exit::Failure),
            (refused(Refusal::Unavailable), Exit::Failure),
            (refused(Refusal::StorageFull), Exit::Failure),
            (refused(Refusal::SessionRequired), Exit::Usage),
            (lost(storage::Error::InDoubt { reason: reason() }), Exit::Failure),
            (lost(storage::Error::Corrupt { place, reason: reason() }), Exit::Data),
            (store(storage::Error::InDoubt { reason: reason() }), Exit::Failure),
            (store(storage::Error::System { reason: reason() }), Exit::Failure),
            (store(storage::Error::Full { reason: reason() }), Exit::Failure),
            (store(storage::Error::Unavailable { reason: reason() }), Exit::Data),
        ] {
            assert_eq!(error.exit(), exit, "{error}");
        }
    }
}
