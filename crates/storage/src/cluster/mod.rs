//! A replicated store: shards over a log that several machines see and one at a time may write.
//!
//! A shard appends its batches to a [`ReplicatedLog`], one record for everything that waits. The log decides what is durable and
//! who may write; the index, checkpoints and cleaning are here. A take-over reads the last checkpoint and the heads behind
//! it, and no bodies. Any engine that keeps the contract of [`ReplicatedLog`] will do; a second engine is one more file.
//!
//! ```text
//! submit ─▶ writer   drains, appends up to 4 records ahead, applies durable ones in order, answers   (writer.rs)
//!                    when an append failed: reads back, seizes the log anew, sends again             (recovery.rs)
//! read ───▶ memory   small values (pages.rs), bodies written last (cache.rs)
//!           log      everything else, 128 values in one call                                         (reader.rs)
//!           keeper   drops dead bodies, copies what lives out of sparse ones, checkpoints, trims     (keeper.rs)
//! acquire ▶ replay   seizes the log, reads the last checkpoint and what is behind it                 (replay.rs)
//! ```
//!
//! # What a record holds
//! The *heads* of a record hold its changes with the small values of `Meta` and `Head`; the *bodies* hold the other values, one
//! frame after the other (record.rs). The engine keeps the two apart: heads are read by every take-over and trimmed after a
//! checkpoint; bodies are read one by one and dropped as soon as nothing in them lives.
//!
//! # What must not come back
//! * The state is the fold of all records in the order of their places. The owner applies a record when it is durable, by the
//!   same code as a take-over.
//! * A position (place and offset) is never used again. A body that is dead in some prefix of the log is dead for ever, so
//!   even an owner who was fenced drops nothing that lives.
//! * A copy by the cleaner is conditional: it takes effect only if the key is still where it was copied from (record.rs,
//!   `Change::Move`). A removal that is under way before it wins.
//! * A part of a checkpoint is written while nothing is under way, so it is exact at its place (part.rs). A take-over reads from
//!   the first part of the last complete checkpoint; every part replaces what it speaks of.
//! * Before the mark that completes a checkpoint, all bodies are dropped that are in no part for being dead. So nothing is
//!   left in the log that no later owner knows of.
//!
//! # Two owners
//! What is handed out is decided by the log alone (see [`ReplicatedLog`]): a commit is acknowledged only when its record
//! is stored in a run of records of its owner's epoch. A stale owner learns it at its next append, or when the keeper drops or
//! trims. Until then it answers reads from what it knows; whoever must not do even that watches a lease with a
//! time of its own.
//!
//! # In doubt
//! An append without an answer may be stored or not. The owner reads the end of the log back and seizes it again in a higher epoch
//! (recovery.rs): the acknowledged owner record vouches for everything before it and excludes everything else. So commits are
//! not answered with [`crate::Error::InDoubt`], however long the log can't be reached; they wait.
//!
//! # Damage
//! A record that is not what was written, a missing one, and a log that ends before a record that was acknowledged or holds
//! another one there are [`crate::Error::Corrupt`]: the shard is not opened. A damaged body costs only the value that it is.

mod cache;
mod codec;
mod figures;
mod keeper;
mod log;
mod options;
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
pub use port::Surroundings;
pub use store::{ClusterStore, Logs};

#[cfg(test)]
mod tests;
