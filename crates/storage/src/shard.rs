//! The storage interface: a store that grants leases of shards, and the shard itself.

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

/// Size limits of a shard. They depend on the store and must be queried.
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
    /// Enough room.
    Normal,
    /// Only the reserve is left: callers must refuse new messages; batches that remove are still accepted.
    Full,
    /// As [`Self::Full`], but the system refuses to extend the store for another reason than lack of room, which may pass
    /// at any time. A replicated log that can't be written makes batches wait that remove.
    Failing,
}

/// Resolves with the lease when a shard is acquired.
pub type Acquiring<'a> = BoxFuture<'a, Result<Lease, Error>>;

/// A collection of shards.
pub trait Store: Send + Sync + 'static {
    /// Acquires `shard` and fences any previous owner, whose lease is lost. Dropping the future does not undo it.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another live process holds it and can't be fenced, [`Error::Corrupt`] on damage,
    /// [`Error::Unavailable`] when the store can't be reached, [`Error::Stopped`] when it was closed.
    fn acquire(&self, shard: ShardId) -> Acquiring<'_>;
}

/// One shard, owned exclusively by this process.
///
/// All methods return at once. Reads and scans see every batch whose [`Commit`] has resolved, and may see later ones.
/// Once the [`Lease`] is lost, all pending and later requests are answered with an error for which [`Error::is_loss`]
/// is true.
pub trait Shard: Send + Sync + 'static {
    /// Queues a batch. Batches that have a partition in common apply in submit order, and their commits resolve in
    /// submit order; others may overtake each other, so that a partition with much to write does not delay the others.
    ///
    /// The commit fails with [`Error::Full`], [`Error::TooLarge`] or [`Error::Unavailable`] (nothing applied, handle
    /// usable), or because the lease is lost ([`Error::is_loss`]).
    ///
    /// Batches of a partition build on each other and are submitted before the outcome of earlier ones is known. So
    /// after one failed and the handle is usable, every later batch that touches one of its partitions fails until
    /// [`Self::resume`]: with [`Error::Unavailable`] if an outage was the cause ([`Error::is_outage`]), else with
    /// [`Error::Full`].
    fn submit(&self, batch: Batch) -> Commit;

    /// Accepts batches of `partition` again after one failed: its owner has noticed the failure and submits nothing
    /// that builds on the failed batch. Has no effect without a failure.
    fn resume(&self, partition: PartitionId);

    /// Reads several values; the answer has one element per key, `None` where there is no value. Request many keys at
    /// once: records adjacent on disk are read together. One damaged value fails the whole request with
    /// [`Error::Corrupt`]: request the others again without it. A value that the device temporarily fails to return
    /// fails the request with [`Error::Unreadable`], a store that can't be reached with [`Error::Unavailable`].
    fn read(&self, keys: Vec<Key>) -> Read;

    /// Reads a page of a partition's entries in number order, starting at `from` (inclusive). Damaged entries are
    /// listed separately and do not affect others.
    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan;

    /// The key spaces and partitions that have values, in order. For tools: a broker knows its partitions.
    fn partitions(&self) -> Partitions;

    /// Size limits of this shard.
    fn limits(&self) -> Limits;

    /// Announces lack of room and its end.
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

/// One page of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Entries in ascending number order.
    pub entries: Vec<Entry>,
    /// Existing entries that can't be read, in ascending number order.
    pub damaged: Vec<DamagedEntry>,
    /// The number at which to continue, `None` when the scan is complete.
    pub next: Option<u64>,
}

/// An entry whose stored bytes differ from those written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedEntry {
    /// The number part of the key.
    pub number: u64,
    /// The bytes in its place, as far as readable: unverified, only useful as a hint in messages to people.
    pub unverified: Bytes,
    /// [`Error::Corrupt`], or [`Error::Unreadable`] if the failure may be transient.
    pub error: Error,
}

macro_rules! answer {
    ($(#[$doc:meta])* $visibility:vis $future:ident, $(#[$notifier_doc:meta])* $notifier:ident, $function:ident, $value:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "an answer that is not awaited is lost"]
        $visibility struct $future(oneshot::Receiver<Result<$value, Error>>);

        $(#[$notifier_doc])*
        #[derive(Debug)]
        pub struct $notifier(oneshot::Sender<Result<$value, Error>>);

        /// Creates a connected pair of notifier and future.
        $visibility fn $function() -> ($notifier, $future) {
            let (sender, receiver) = oneshot::channel();
            ($notifier(sender), $future(receiver))
        }

        impl $notifier {
            /// Sets the answer; it is dropped if the future is gone.
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
    /// Whether the answer has arrived.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !self.0.is_empty()
    }
}

answer!(
    /// Resolves when a batch is durable, for a single waiter.
    SingleCommit,
    /// The storage side of a [`Commit`].
    CommitNotifier,
    single_commit,
    ()
);

/// Resolves when a batch is durable.
#[derive(Debug)]
#[must_use = "an answer that is not awaited is lost"]
pub struct Commit(Waiting);

#[derive(Debug)]
enum Waiting {
    Single(SingleCommit),
    Shared(Shared<SingleCommit>),
    /// Placeholder during the conversion to a shared future.
    Nothing,
}

/// Creates a connected pair of notifier and future.
pub fn commit() -> (CommitNotifier, Commit) {
    let (notifier, single) = single_commit();
    (notifier, Commit(Waiting::Single(single)))
}

impl Commit {
    /// Another future that resolves together with this one, for a batch with several waiters.
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
    /// Resolves with the requested values.
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
    /// Resolves with the key spaces and partitions that have values.
    pub Partitions,
    /// The storage side of a [`Partitions`].
    PartitionsNotifier,
    partitions,
    Vec<(Space, PartitionId)>
);
