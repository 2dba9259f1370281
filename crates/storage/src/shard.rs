//! The face: a store that hands out shards, and the shard itself.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::{oneshot, watch};

use crate::{Batch, Error, Key, Lease, PartitionId, Space};

/// Identifies a shard: the set of partitions that share one commit order. A single machine has shard 0 only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// Sizes a shard accepts; ask, never assume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest single value, in bytes.
    pub value_bytes_max: usize,
    /// Largest sum of the values of one batch, in bytes.
    pub batch_bytes_max: usize,
}

/// Whether the store has room for growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// Room enough.
    Normal,
    /// Only the reserve is left: callers refuse new messages; batches that remove are still accepted.
    Full,
}

/// Resolves when a shard is acquired.
pub type Acquiring<'a> = BoxFuture<'a, Result<Lease, Error>>;

/// Whatever keeps shards.
pub trait Store: Send + Sync + 'static {
    /// Takes ownership of `shard`, fencing any previous owner: that one's lease is lost. Dropping the future does not undo
    /// it.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another live process holds it and can't be fenced, [`Error::Corrupt`] on damage,
    /// [`Error::Unavailable`] when the store can't be reached, [`Error::Stopped`] when it was closed.
    fn acquire(&self, shard: ShardId) -> Acquiring<'_>;
}

/// One shard, owned exclusively by this process.
///
/// All methods return at once. Reads and scans see every batch whose [`Commit`] has resolved, and may see later
/// ones. Once the [`Lease`] is lost, everything under way is answered with an error of which [`Error::is_loss`] is true, and
/// so is everything that is asked later.
pub trait Shard: Send + Sync + 'static {
    /// Queues a batch. Batches that have a partition in common apply in submit order, and their commits resolve in submit
    /// order; others may overtake each other, so that a partition with much to write does not keep the others waiting.
    ///
    /// The commit fails with [`Error::Full`], [`Error::TooLarge`] or [`Error::Unavailable`] (nothing applied, handle
    /// usable), or because the lease is lost ([`Error::is_loss`]).
    ///
    /// Batches of a partition build on each other and are submitted ahead of each other's outcome. So after one
    /// failed and the handle is usable, every later batch that touches one of its partitions fails with
    /// [`Error::Full`], until [`Self::resume`].
    fn submit(&self, batch: Batch) -> Commit;

    /// Accepts batches of `partition` again after one failed: its owner has seen the failure and submits nothing
    /// that builds on the failed batch. Without a failure nothing happens.
    fn resume(&self, partition: PartitionId);

    /// Reads several values; the answer has one element per key, `None` where there is no value. Ask for many
    /// keys at once: neighbours on disk are read together. One damaged value fails the whole request with
    /// [`Error::Corrupt`]: ask for the others again. One that the device does not give back now fails it with
    /// [`Error::Unreadable`], a store that can't be reached with [`Error::Unavailable`].
    fn read(&self, keys: Vec<Key>) -> Read;

    /// Reads a page of a partition's entries in number order, starting at `from` (included). Damaged entries are listed
    /// apart and hide no others.
    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan;

    /// The key spaces and partitions that hold values, in order. For tools: a broker knows its partitions.
    fn partitions(&self) -> Partitions;

    /// Sizes this shard accepts.
    fn limits(&self) -> Limits;

    /// Announces when room runs out and when it returns.
    fn pressure(&self) -> watch::Receiver<Pressure>;
}

/// One entry of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number part of the key.
    pub number: u64,
    /// The value.
    pub value: Bytes,
}

/// Part of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Entries in ascending number order.
    pub entries: Vec<Entry>,
    /// Entries of the same numbers that are there but can't be read, in ascending number order.
    pub damaged: Vec<DamagedEntry>,
    /// Where to continue, `None` when the scan is complete.
    pub next: Option<u64>,
}

/// An entry whose stored bytes are not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedEntry {
    /// The number part of the key.
    pub number: u64,
    /// The bytes in its place, as far as they could be read: unverified, good for a guess in a message to people.
    pub unverified: Bytes,
    /// [`Error::Corrupt`], or [`Error::Unreadable`] if that may pass.
    pub error: Error,
}

macro_rules! answer {
    ($(#[$doc:meta])* $visibility:vis $future:ident, $(#[$notifier_doc:meta])* $notifier:ident, $function:ident, $value:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "an answer that nobody awaits is lost"]
        $visibility struct $future(oneshot::Receiver<Result<$value, Error>>);

        $(#[$notifier_doc])*
        #[derive(Debug)]
        pub struct $notifier(oneshot::Sender<Result<$value, Error>>);

        /// A connected pair of notifier and future.
        $visibility fn $function() -> ($notifier, $future) {
            let (sender, receiver) = oneshot::channel();
            ($notifier(sender), $future(receiver))
        }

        impl $notifier {
            /// Gives the answer; an answer nobody waits for is dropped.
            pub fn resolve(self, result: Result<$value, Error>) {
                let _ = self.0.send(result);
            }
        }

        impl Future for $future {
            type Output = Result<$value, Error>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                Pin::new(&mut self.0).poll(context).map(|answer| {
                    answer.unwrap_or_else(|_| Err(Error::Stopped { reason: "nothing answers any more".to_owned() }))
                })
            }
        }
    };
}

impl Read {
    /// Whether the answer is there already.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !self.0.is_empty()
    }
}

answer!(
    /// Resolves when a batch is durable, for one who waits.
    SingleCommit,
    /// The storage side of a [`Commit`].
    CommitNotifier,
    single_commit,
    ()
);

/// Resolves when a batch is durable.
#[derive(Debug)]
#[must_use = "an answer that nobody awaits is lost"]
pub struct Commit(Waiting);

#[derive(Debug)]
enum Waiting {
    Single(SingleCommit),
    Shared(Shared<SingleCommit>),
    /// While it becomes a shared one.
    Nothing,
}

/// A connected pair of notifier and future.
pub fn commit() -> (CommitNotifier, Commit) {
    let (notifier, single) = single_commit();
    (notifier, Commit(Waiting::Single(single)))
}

impl Commit {
    /// Another one that resolves when this does: a batch may concern several who wait.
    pub fn share(&mut self) -> Self {
        let shared = match std::mem::replace(&mut self.0, Waiting::Nothing) {
            Waiting::Single(single) => single.shared(),
            Waiting::Shared(shared) => shared,
            Waiting::Nothing => return Self(Waiting::Nothing),
        };
        self.0 = Waiting::Shared(shared.clone());
        Self(Waiting::Shared(shared))
    }
}

impl Future for Commit {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Waiting::Single(single) => Pin::new(single).poll(context),
            Waiting::Shared(shared) => Pin::new(shared).poll(context),
            Waiting::Nothing => Poll::Pending,
        }
    }
}

answer!(
    /// Resolves with the values asked for.
    pub Read,
    /// The storage side of a [`Read`].
    ReadNotifier,
    read,
    Vec<Option<Bytes>>
);
answer!(
    /// Resolves with a page.
    pub Scan,
    /// The storage side of a [`Scan`].
    ScanNotifier,
    scan,
    Page
);
answer!(
    /// Resolves with the key spaces and partitions that hold values.
    pub Partitions,
    /// The storage side of a [`Partitions`].
    PartitionsNotifier,
    partitions,
    Vec<(Space, PartitionId)>
);
