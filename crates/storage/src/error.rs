//! Errors of a store, classified by what the caller must do.

use std::fmt;

/// The location of stored bytes in terms of the store, for people, logs and reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// A file, a row of a table, an object: the store's unit of storage.
    pub unit: String,
    /// Offset in the unit, in bytes.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at byte {}", self.unit, self.offset)
    }
}

/// A storage failure. Cheap to clone: one failed sync answers many waiting commits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another process or a later epoch owns the shard. The lease is lost.
    #[error("the store is in use by another broker: {reason}")]
    Fenced {
        /// The owner, as far as known, and what to do.
        reason: String,
    },
    /// It is unknown whether the batch is durable (a failed sync, a lost answer). The lease is lost; state must be
    /// restored from a newly acquired shard.
    #[error("the outcome of the write is unknown: {reason}")]
    InDoubt {
        /// The cause.
        reason: String,
    },
    /// The store was closed or has ended for another reason. The lease is lost; nothing of the batch was applied.
    #[error("the store has stopped: {reason}")]
    Stopped {
        /// The cause.
        reason: String,
    },
    /// Stored bytes differ from those written. The store refuses to open or to answer instead of guessing.
    #[error("{} is damaged at byte {}: {reason}", place.unit, place.offset)]
    Corrupt {
        /// The damaged bytes.
        place: Place,
        /// What was expected and what was found.
        reason: String,
    },
    /// The device failed to return some stored bytes. The failure may be transient, so the bytes may be intact; try
    /// again after a pause.
    #[error("{} can't be read at byte {} now: {reason}", place.unit, place.offset)]
    Unreadable {
        /// The bytes.
        place: Place,
        /// The system's error.
        reason: String,
    },
    /// The store can't be reached now. Nothing of the batch was applied; the lease is still held. Try again after a pause.
    #[error("storage is unavailable: {reason}")]
    Unavailable {
        /// The cause.
        reason: String,
    },
    /// A call of the operating system failed: a lack of file descriptors, memory or space, an error of the device. That
    /// says nothing about the store's contents or settings, and may pass. Otherwise as [`Self::Unavailable`].
    #[error("a call of the system failed: {reason}")]
    System {
        /// The failed operation and the system's error.
        reason: String,
    },
    /// No room for this batch. Nothing of it was applied; the handle stays usable and recovers with space.
    #[error("no space left: {reason}")]
    Full {
        /// The exhausted resource.
        reason: String,
    },
    /// The batch or value exceeds [`crate::Limits`]. Nothing of it was applied.
    #[error("too large: {reason}")]
    TooLarge {
        /// The limit and the size.
        reason: String,
    },
}

impl Error {
    /// Whether this answer to a commit, read or scan means that the shard's lease is lost: it will never accept or
    /// answer anything again.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        matches!(self, Self::Fenced { .. } | Self::InDoubt { .. } | Self::Stopped { .. })
    }

    /// The error for requests after the lease was lost for this reason.
    pub(crate) fn after_loss(self) -> Self {
        if self.is_loss() { self } else { Self::Stopped { reason: self.to_string() } }
    }

    /// Whether the same request may succeed later without intervention.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreadable { .. }) || self.is_outage()
    }

    /// Whether the store could not be asked, which says nothing about its contents.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::System { .. })
    }
}
