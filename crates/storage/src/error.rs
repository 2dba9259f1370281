//! What can go wrong below the face, told apart by what the caller must do.

use std::path::PathBuf;

/// A storage failure. Cheap to clone: one failed sync answers many waiting commits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another process or a later epoch owns the shard. The handle is dead.
    #[error("the store is in use by another broker: {reason}")]
    Fenced {
        /// Who, as far as known, and what to do.
        reason: String,
    },
    /// Whether the batch is durable is unknown (a failed sync, a lost answer). The handle is dead; state must
    /// be restored from a newly acquired shard.
    #[error("the outcome of the write is unknown: {reason}")]
    InDoubt {
        /// The cause.
        reason: String,
    },
    /// Stored bytes are not what was written. Nothing is guessed: the store refuses to open or to answer.
    #[error("{} is damaged at byte {offset}: {reason}", file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What was expected and what was found.
        reason: String,
    },
    /// The device did not give stored bytes back. That may pass: nothing is known about them. Ask again after a pause.
    #[error("{} can't be read at byte {offset} now: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What the system says.
        reason: String,
    },
    /// No room for this batch. Nothing of it was applied; the handle stays usable and recovers with space.
    #[error("no space left: {reason}")]
    Full {
        /// Which resource ran out.
        reason: String,
    },
    /// The batch or value exceeds [`crate::Limits`]. Nothing of it was applied.
    #[error("too large: {reason}")]
    TooLarge {
        /// The limit and the size.
        reason: String,
    },
    /// The store can't be reached or was shut down. Nothing of the batch was applied.
    #[error("storage is unavailable: {reason}")]
    Unavailable {
        /// The cause.
        reason: String,
    },
}
