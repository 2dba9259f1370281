//! A replicated store: shards over a log that several machines read and one at a time may write.
//!
//! A shard appends its batches to a [`ReplicatedLog`], all pending ones as one record. The log decides which records
//! are durable and which node may write; the index, checkpoints and cleaning are implemented here. A take-over reads
//! the last checkpoint and the heads after it, but no bodies. Any engine that fulfils the contract of [`ReplicatedLog`]
//! can be used.
//!
//! ```text
//! submit ─▶ writer   appends batches, up to 4 records ahead, applies durable ones in order, answers   (writer.rs)
//!                    after a failed append: reads back, seizes the log again, resends                 (recovery.rs)
//! read ───▶ memory   small values (pages.rs), recently written bodies (cache.rs)
//!           log      everything else, 128 values in one call                                         (reader.rs)
//!           keeper   drops dead bodies, copies live ones out of sparse rows, checkpoints, trims      (keeper.rs)
//! acquire ▶ replay   seizes the log, reads the last checkpoint and the heads after it                (replay.rs)
//! ```
//!
//! # Contents of a record
//! The *heads* of a record hold its changes and the small values of `Meta` and `Head`; the *bodies* hold the other
//! values as consecutive frames (record.rs). The engine stores the two separately: heads are read by every take-over
//! and trimmed after a checkpoint; bodies are read one by one and dropped once everything in them is dead.
//!
//! # Removed values must not reappear
//! * The state is the fold of all records in the order of their places. The owner applies a record when it is durable, by the
//!   same code as a take-over.
//! * A position (place and offset) is never reused. A body that is dead in some prefix of the log stays dead, so even a
//!   fenced owner drops nothing that is alive.
//! * A copy by the cleaner is conditional: it takes effect only if the value is still where it was copied from
//!   (record.rs, `Change::Move`). A removal appended before the copy therefore wins.
//! * A part of a checkpoint is written while no other record is under way, so it is exact at its place (part.rs). A
//!   take-over reads from the first part of the last complete checkpoint; every part replaces the entries in its key
//!   range.
//! * Before the mark that completes a checkpoint, all bodies are dropped that are in no part because they are dead. So
//!   the log keeps no body unknown to a later owner.
//!
//! # Two owners
//! The log alone decides what is acknowledged (see [`ReplicatedLog`]): a commit is acknowledged only when its record is
//! stored in a run of records of its owner's epoch. A stale owner notices at its next append, or when the keeper drops
//! or trims. Until then it answers reads from its own state; a node that must not do even that needs a lease with a
//! clock of its own.
//!
//! # In doubt
//! An append without an answer may be stored or not. The owner reads the end of the log back and seizes it again in a
//! higher epoch (recovery.rs): the acknowledged owner record confirms everything before it and excludes everything
//! else. So commits are never answered with [`crate::Error::InDoubt`]; they wait as long as the log can't be reached.
//!
//! # Damage
//! A damaged or missing record, and a log that ends before an acknowledged record or holds another one there, are
//! [`crate::Error::Corrupt`]: the shard is not opened. A damaged body costs only its own value.

mod cache;
mod codec;
mod figures;
mod keeper;
mod log;
mod options;
mod outage;
mod pages;
mod part;
mod port;
mod reader;
mod record;
mod recovery;
mod replay;
mod reserve;
mod rows;
mod shard;
mod shared;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
mod state;
mod store;
mod writer;

pub use figures::ClusterFigures;
pub use log::{
    Answer, LogLimits, NewRecord, RecordId, RecordKind, RecordPlace, ReplicatedLog, Slice, StoredRecord, Tail,
};
pub use options::ClusterOptions;
pub(crate) use part::exercise as exercise_part;
pub use port::Environment;
pub(crate) use record::exercise as exercise_record;
pub use store::{ClusterStore, Logs};

#[cfg(test)]
mod tests;
