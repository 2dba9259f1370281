//! The face below the face: a log of records that several machines see and one at a time may write.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{Epoch, Error};

/// The number of a record in the log of its shard. The first record has 1, and no number is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordPlace(pub u64);

impl RecordPlace {
    /// The place behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A record's place, and the epoch of the owner who appended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordId {
    /// Where it is.
    pub place: RecordPlace,
    /// Whose it is.
    pub epoch: Epoch,
}

/// What a record is for. An engine stores it beside the record, because it treats owner records and marks in a way of their own.
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
    /// Where, and in which epoch.
    pub id: RecordId,
    /// [`RecordKind::Owner`] is appended by [`ReplicatedLog::seize`] only.
    pub kind: RecordKind,
    /// What a take-over reads; never empty.
    pub heads: Bytes,
    /// What a take-over does not read; may be empty, and is then not stored.
    pub bodies: Bytes,
}

/// What a take-over reads of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Where, and whose.
    pub id: RecordId,
    /// What for.
    pub kind: RecordKind,
    /// As it was appended; empty for an owner record.
    pub heads: Bytes,
}

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    /// The last record; the default one (place 0 in epoch 0) when there is none.
    pub last: RecordId,
    /// The last [`RecordKind::Mark`], which says where reading begins; none: at the first record.
    pub mark: Option<RecordPlace>,
}

/// Part of a record's bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Of which record.
    pub place: RecordPlace,
    /// The first byte.
    pub offset: u32,
    /// How many bytes.
    pub len: u32,
}

/// Sizes a log accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Largest heads of one record, in bytes; a checkpoint, which a writer can cut anywhere, needs 64 KiB.
    pub heads_bytes_max: usize,
    /// Largest bodies of one record, in bytes; at most 4 GiB.
    pub bodies_bytes_max: usize,
}

/// The answer of a log. The call has taken effect in the order of the calls when the method returns; the future only waits
/// for the answer. Dropping it neither cancels the call nor undoes it.
pub type Answer<T> = BoxFuture<'static, Result<T, Error>>;

/// The log of one shard, as one node sees it. It knows bytes, not keys.
///
/// # Who may append
/// A record is stored only if its place is free and **the record before it is of the same epoch**; the engine checks both in
/// the step that stores the record. So an owner must have appended its owner record ([`Self::seize`]), its records form one
/// run without gaps, and the owner record of a successor ends that run for good: the place behind the run is taken, and every
/// record that was sent behind it lacks its predecessor. Appends may be sent ahead of each other's answers.
///
/// That holds only as long as owner records stay: no method deletes them. Otherwise a writer that was paused between its
/// check and its insertion could find its place free again.
///
/// # What an answer means
/// * `Ok` of an append or a seizure: **this record and every record at a lower place are durable**, whatever was
///   known of those before. An engine that loses its primary right afterwards still has them.
/// * [`Error::InDoubt`]: the call may have taken effect, may do so later, or never will. A connection was lost, an answer said
///   less than a commit, or the place holds a record of the same epoch already. It is decided by reading back: [`Self::open`]
///   says what is there, and [`Self::seize`] excludes that anything else arrives. What was read back is durable once a later
///   append or seizure was answered with `Ok`; before that, a restarted primary may show records that no other machine has.
/// * [`Error::Fenced`]: the record is not stored and never will be, because another epoch owns the log.
/// * [`Error::Full`], [`Error::Unavailable`]: the record is not stored, and this call will not store it. The predecessor of a
///   record that is not stored for such a reason is missing, which is [`Error::Unavailable`] as well.
/// * [`Error::Corrupt`]: the engine knows that it lost acknowledged records.
///
/// The engine may lose records at the end that were never acknowledged. One that loses acknowledged ones (an asynchronous
/// fail-over, a restored backup) is not fit for use: whoever remembers a place that was acknowledged must refuse a log whose
/// tail lies below it, or that holds a record of another epoch there, with [`Error::Corrupt`].
pub trait ReplicatedLog: Send + Sync + 'static {
    /// Connects anew and reads the end of the log. Appends that are unanswered are answered with [`Error::InDoubt`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine can't be reached or must not be used as it is set up.
    fn open(&self) -> Answer<Tail>;

    /// Appends the owner record of `epoch` behind `after`, if that is still the end of the log. The epoch must be higher than
    /// that of `after`. Two owners must not choose the same one even if the log forgets: it is raised by a random step.
    ///
    /// # Errors
    /// [`Error::Fenced`] when there is a record behind `after` already: open again. [`Error::InDoubt`],
    /// [`Error::Full`] and [`Error::Unavailable`] as above.
    fn seize(&self, after: RecordId, epoch: Epoch) -> Answer<()>;

    /// Appends a record.
    ///
    /// # Errors
    /// As above.
    fn append(&self, record: NewRecord) -> Answer<()>;

    /// Some records from `from` on in the order of their places, at least one if there is any.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine can't be reached.
    fn heads(&self, from: RecordPlace) -> Answer<Vec<StoredRecord>>;

    /// Parts of bodies, one for each slice: none where the record has no bodies (any more), fewer bytes where they end before
    /// the slice does.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine can't be reached.
    fn bodies(&self, slices: Vec<Slice>) -> Answer<Vec<Option<Bytes>>>;

    /// Drops the bodies of these records. Bodies that are gone already are no error.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the end of the log is not of `epoch`: nothing is dropped. [`Error::Unavailable`] and
    /// [`Error::InDoubt`]: perhaps nothing was.
    fn drop_bodies(&self, epoch: Epoch, places: Vec<RecordPlace>) -> Answer<()>;

    /// Drops the records before `before`, without their bodies; owner records stay.
    ///
    /// # Errors
    /// As [`Self::drop_bodies`].
    fn trim(&self, epoch: Epoch, before: RecordPlace) -> Answer<()>;

    /// Sees to it that the engine has room set aside: without any, not even a removal could be appended. What it takes may be
    /// what dropped bodies and trimmed records left. All logs of an engine share one reserve.
    ///
    /// # Errors
    /// [`Error::Full`] when there is not so much; nothing is set aside then. [`Error::Unavailable`] and [`Error::InDoubt`]:
    /// perhaps nothing is.
    fn keep_reserve(&self) -> Answer<()>;

    /// Gives the reserve up: its room is for records.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and [`Error::InDoubt`]: perhaps it is still set aside.
    fn release_reserve(&self) -> Answer<()>;

    /// Sizes this log accepts.
    fn limits(&self) -> LogLimits;
}
