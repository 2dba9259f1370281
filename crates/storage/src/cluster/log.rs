//! The port to a replicated log engine: a log of records that several machines read and one at a time may write.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{Epoch, Error};

/// The number of a record in the log of its shard. The first record has 1, and no number is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordPlace(pub u64);

impl RecordPlace {
    /// The place after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A record's place, and the epoch of the owner that appended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordId {
    /// The record's place.
    pub place: RecordPlace,
    /// The epoch of its owner.
    pub epoch: Epoch,
}

/// The purpose of a record. An engine stores it with the record, because it treats owner records and marks differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The first record of an epoch. It is never deleted.
    Owner = 0,
    /// Batches.
    Commit = 1,
    /// A part of a checkpoint.
    Part = 2,
    /// The end of a checkpoint.
    Mark = 3,
}

/// A record to be appended.
#[derive(Debug, Clone)]
pub struct NewRecord {
    /// Place and epoch.
    pub id: RecordId,
    /// [`RecordKind::Owner`] is appended by [`ReplicatedLog::seize`] only.
    pub kind: RecordKind,
    /// The part that a take-over reads; never empty.
    pub heads: Bytes,
    /// The part that a take-over does not read; may be empty, and is then not stored.
    pub bodies: Bytes,
}

/// The part of a record that a take-over reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Place and epoch.
    pub id: RecordId,
    /// Purpose.
    pub kind: RecordKind,
    /// As it was appended; empty for an owner record.
    pub heads: Bytes,
}

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    /// The last record; the default one (place 0 in epoch 0) when there is none.
    pub last: RecordId,
    /// The last [`RecordKind::Mark`], which determines where reading begins; without one, at the first record.
    pub mark: Option<RecordPlace>,
}

/// Part of a record's bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The record's place.
    pub place: RecordPlace,
    /// Offset of the first byte.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

/// Sizes a log accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Largest heads of one record, in bytes. Checkpoints need at least 64 KiB; the writer can split them anywhere.
    pub heads_bytes_max: usize,
    /// Largest bodies of one record, in bytes; at most 4 GiB.
    pub bodies_bytes_max: usize,
}

/// The result of a call. Calls take effect in the order in which they were made; the future only waits for the answer.
/// Dropping it neither cancels the call nor undoes it.
pub type Answer<T> = BoxFuture<'static, Result<T, Error>>;

/// The log of one shard, as seen by one node. It stores bytes and does not interpret keys.
///
/// # Permission to append
/// A record is stored only if its place is free and **the record before it is of the same epoch**; the engine checks
/// both in the step that stores the record. So an owner must have appended its owner record ([`Self::seize`]), its
/// records form one run without gaps, and the owner record of a successor ends that run for good: the place after the
/// run is taken, and every record sent after it lacks its predecessor. Appends may be sent before earlier ones are
/// answered.
///
/// This holds only because owner records are never deleted: otherwise a writer that was paused between its check and
/// its insertion could find its place free again.
///
/// # Meaning of answers
/// * `Ok` of an append or a seizure: **this record and every record at a lower place are durable**, including those
///   whose outcome was unknown before, even if the primary fails immediately afterwards.
/// * [`Error::InDoubt`]: the call may have taken effect, may do so later, or never will. Reasons: a connection was
///   lost, the answer did not confirm a commit, or the place already holds a record of the same epoch. The owner
///   decides it by reading back: [`Self::open`] returns the end of the log, and [`Self::seize`] prevents anything else
///   from arriving. Records read back are durable once a later append or seizure was answered with `Ok`; before that, a
///   restarted primary may return records that no other machine has.
/// * [`Error::Fenced`]: the record is not stored and never will be, because another epoch owns the log.
/// * [`Error::Full`], [`Error::Unavailable`]: the record is not stored, and this call will not store it. Appends after
///   such a record lack their predecessor, which is [`Error::Unavailable`] as well.
/// * [`Error::Corrupt`]: the engine has detected the loss of acknowledged records.
///
/// The engine may lose records at the end that were never acknowledged. An engine that loses acknowledged ones (an
/// asynchronous fail-over, a restored backup) is unusable: a caller that remembers an acknowledged place must refuse,
/// with [`Error::Corrupt`], a log whose tail is below it or that holds a record of another epoch there.
pub trait ReplicatedLog: Send + Sync + 'static {
    /// Reconnects and reads the end of the log. Unanswered appends are answered with [`Error::InDoubt`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine can't be reached or its configuration is unsafe.
    fn open(&self) -> Answer<Tail>;

    /// Appends the owner record of `epoch` after `after`, if that is still the end of the log. The epoch must be higher
    /// than that of `after`, by a random step: two owners must not choose the same one even if the log loses its end.
    ///
    /// # Errors
    /// [`Error::Fenced`] when there is already a record after `after`; call [`Self::open`] again. [`Error::InDoubt`],
    /// [`Error::Full`] and [`Error::Unavailable`] as above.
    fn seize(&self, after: RecordId, epoch: Epoch) -> Answer<()>;

    /// Appends a record.
    ///
    /// # Errors
    /// As above.
    fn append(&self, record: NewRecord) -> Answer<()>;

    /// Records from `from` on in the order of their places, at least one if there is any.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine can't be reached.
    fn heads(&self, from: RecordPlace) -> Answer<Vec<StoredRecord>>;

    /// Parts of bodies, one for each slice: `None` if the record has no bodies (any more); fewer bytes if the bodies
    /// end before the slice does.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine can't be reached.
    fn bodies(&self, slices: Vec<Slice>) -> Answer<Vec<Option<Bytes>>>;

    /// Drops the bodies of these records. Bodies already dropped are not an error.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the last record is not of `epoch`: nothing is dropped. [`Error::Unavailable`] and
    /// [`Error::InDoubt`]: bodies may or may not have been dropped.
    fn drop_bodies(&self, epoch: Epoch, places: Vec<RecordPlace>) -> Answer<()>;

    /// Drops the records before `before`, without their bodies; owner records stay.
    ///
    /// # Errors
    /// As [`Self::drop_bodies`].
    fn trim(&self, epoch: Epoch, before: RecordPlace) -> Answer<()>;

    /// Ensures that the engine keeps a reserve of free room; without it, not even a removal could be appended. Room
    /// freed by dropped bodies and trimmed records may be used for it. All logs of an engine share one reserve.
    ///
    /// # Errors
    /// [`Error::Full`] when there is not enough room; nothing is reserved then. [`Error::Unavailable`] and
    /// [`Error::InDoubt`]: the room may or may not be reserved.
    fn keep_reserve(&self) -> Answer<()>;

    /// Releases the reserve, so that its room can be used for records.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and [`Error::InDoubt`]: the reserve may still exist.
    fn release_reserve(&self) -> Answer<()>;

    /// Sizes this log accepts.
    fn limits(&self) -> LogLimits;
}
