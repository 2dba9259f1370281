//! Copies the contents of a shard into an empty shard of any store: from a data directory to a replicated store, and
//! back.
//!
//! Neither side may be in use: the copier owns both. While a copy is unfinished, the target has a `marker` in a
//! partition of its own. A broker must refuse such a shard ([`unfinished_copy`]); the copier resumes the copy.
//!
//! 1. Values are copied in a fixed order, the catalogue's last. Every batch includes the marker with the last key of
//!    the batch, so an interrupted copy resumes after the durable values.
//! 2. The target is acquired again, so that nothing is answered from memory, and both sides are compared, value by
//!    value. After an interrupted copy, differences are corrected and everything is compared again, because the source may
//!    have changed in between.
//! 3. The marker is removed.
//!
//! Memory is bounded: a page of each side, and the batches under way.

mod batches;
mod compare;
mod marker;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::cluster::Environment;
use crate::{Error, Key, Lease, PartitionId, Shard, ShardId, Space, Store, checksum};
use batches::Batches;
use marker::{MARKER, Marker};
use walk::Cursor;

/// Most damaged values that are listed individually.
const DAMAGE_LISTED_MAX: usize = 1_000;

/// Parameters of a copy.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// Name of the source, reported when an unfinished copy is refused; must not contain secrets.
    pub source_name: String,
    /// Most bytes of the values of one batch; a larger value has a batch of its own. Default 1 MiB.
    pub batch_bytes: usize,
    /// Batches sent before the first is answered. Default 4.
    pub batches_under_way: usize,
    /// Attempts to reach a side that is temporarily unavailable. Default 30.
    pub attempts_max: u32,
    /// Pause between two attempts. Default 1 s.
    pub attempt_pause: Duration,
}

impl CopyOptions {
    /// The defaults, for a source of this name.
    #[must_use]
    pub fn from(source_name: impl Into<String>) -> Self {
        Self {
            source_name: source_name.into(),
            batch_bytes: 1 << 20,
            batches_under_way: 4,
            attempts_max: 30,
            attempt_pause: Duration::from_secs(1),
        }
    }
}

/// Stage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Reading the source, writing the target.
    Copying,
    /// Reading both and comparing.
    Comparing,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// The current stage.
    pub stage: CopyStage,
    /// Values processed in this stage; when copying, including those of an earlier, interrupted run.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Totals of one key space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopySum {
    /// Number of values.
    pub values: u64,
    /// Their total bytes.
    pub bytes: u64,
    /// CRC-32C over partition, number, length (64 bits each, little-endian) and value, in key order.
    pub crc32c: u32,
}

/// Result of a complete and verified copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// By key space, in the order of [`Space::ALL`].
    pub sums: [CopySum; 3],
    /// Whether an earlier run was interrupted.
    pub is_resumed: bool,
    /// Values that differed after the interruption and were corrected.
    pub corrected: u64,
}

/// A value that can't be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedValue {
    /// Its key.
    pub key: Key,
    /// The cause.
    pub error: Error,
}

/// Reasons why a copy is not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The source is empty.
    #[error("the source is empty")]
    Empty,
    /// The source is itself the target of an interrupted copy.
    #[error("the source is itself an unfinished copy of {0}")]
    SourceUnfinished(String),
    /// The target has contents that are not an unfinished copy.
    #[error("the target is not empty")]
    NotEmpty,
    /// Values of the source are damaged; the target is incomplete.
    #[error("{} values of the source can't be read", damaged.len() as u64 + more)]
    Damaged {
        /// The first of them.
        damaged: Vec<DamagedValue>,
        /// Number of the others.
        more: u64,
    },
    /// A value that the target does not accept.
    #[error("a value of {bytes} bytes is larger than the target accepts ({bytes_max})")]
    TooLarge {
        /// Its key.
        key: Key,
        /// Its size.
        bytes: usize,
        /// The target's limit.
        bytes_max: usize,
    },
    /// The target's contents differ from those written to it.
    #[error("the target does not return the data that was written to it: {what}")]
    Different {
        /// The key.
        key: Key,
        /// The difference.
        what: String,
    },
    /// The source failed.
    #[error("source: {0}")]
    Source(#[source] Error),
    /// The target failed.
    #[error("target: {0}")]
    Target(#[source] Error),
}

/// The name of the source if the shard is an unfinished copy; such a shard must not be served.
///
/// # Errors
/// Errors of the shard.
pub async fn unfinished_copy(shard: &dyn Shard) -> Result<Option<String>, Error> {
    let mut values = shard.read(vec![MARKER]).await?;
    let value = values.pop().flatten();
    Ok(value.map(|value| Marker::decode(&value).map_or_else(String::new, |marker| marker.source_name)))
}

/// Copies a shard into shard 0 of `target`, or resumes an interrupted copy. `watch` receives the progress.
///
/// # Errors
/// [`CopyError`]. Another call for the same target resumes the copy.
pub async fn copy(
    source: &Lease,
    target: &dyn Store,
    options: &CopyOptions,
    environment: &Arc<dyn Environment>,
    watch: &mut (dyn FnMut(CopyProgress) + Send),
) -> Result<CopyReport, CopyError> {
    let retries = RetryPolicy { options, environment };
    if let Some(name) = retries.ask(|| unfinished_copy(&**source)).await.map_err(CopyError::Source)? {
        return Err(CopyError::SourceUnfinished(name));
    }
    let owned = target.acquire(ShardId(0)).await.map_err(CopyError::Target)?;
    let (marker, is_resumed) = begin(source, &owned, retries).await?;
    let mut run = Run { source: source.clone(), target: owned, retries, watch };
    run.copy(marker).await?;
    run.acquire_target(target).await?;
    let mut compared = run.compare(is_resumed).await?;
    let corrected = compared.corrected;
    if corrected > 0 {
        run.acquire_target(target).await?;
        compared = run.compare(false).await?;
    }
    run.finish().await?;
    Ok(CopyReport { sums: compared.sums, is_resumed, corrected })
}

/// Decides whether to begin or to resume, and marks the target.
async fn begin(
    source: &Lease,
    target: &Lease,
    retries: RetryPolicy<'_>,
) -> Result<(Marker, bool), CopyError> {
    if retries.ask(|| source.partitions()).await.map_err(CopyError::Source)?.is_empty() {
        return Err(CopyError::Empty);
    }
    let found = retries.ask(|| target.read(vec![MARKER])).await.map_err(CopyError::Target)?.pop().flatten();
    if let Some(value) = found {
        let unknown = || CopyError::Target(Error::Unavailable { reason: marker::unknown() });
        return Ok((Marker::decode(&value).ok_or_else(unknown)?, true));
    }
    if !retries.ask(|| target.partitions()).await.map_err(CopyError::Target)?.is_empty() {
        return Err(CopyError::NotEmpty);
    }
    let marker = Marker { source_name: retries.options.source_name.clone(), ..Marker::default() };
    let mut batch = crate::Batch::new();
    batch.put(MARKER, marker.encode());
    target.submit(batch).await.map_err(CopyError::Target)?;
    Ok((marker, false))
}

/// Repeats requests that failed with a transient error.
#[derive(Clone, Copy)]
struct RetryPolicy<'a> {
    options: &'a CopyOptions,
    environment: &'a Arc<dyn Environment>,
}

impl RetryPolicy<'_> {
    async fn ask<T, F: Future<Output = Result<T, Error>>>(self, ask: impl Fn() -> F) -> Result<T, Error> {
        for _ in 1..self.options.attempts_max {
            match ask().await {
                Err(error) if error.is_transient() => {
                    self.environment.pause(self.options.attempt_pause).await;
                }
                answer => return answer,
            }
        }
        ask().await
    }
}

/// A copy in progress.
struct Run<'a> {
    source: Lease,
    target: Lease,
    retries: RetryPolicy<'a>,
    watch: &'a mut (dyn FnMut(CopyProgress) + Send),
}

impl Run<'_> {
    async fn acquire_target(&mut self, store: &dyn Store) -> Result<(), CopyError> {
        self.target = store.acquire(ShardId(0)).await.map_err(CopyError::Target)?;
        Ok(())
    }

    /// Copies the values after the marker.
    async fn copy(&mut self, marker: Marker) -> Result<(), CopyError> {
        let mut todo = self.retries.ask(|| self.source.partitions()).await.map_err(CopyError::Source)?;
        todo.sort_unstable_by_key(|(space, partition)| walk::rank(*space, *partition));
        let done = marker.last;
        let mut batches = Batches::new(self.target.clone(), self.retries.options, marker);
        let mut damage = Damage::default();
        for (space, partition) in todo {
            let Some(from) = walk::resume_at(done, space, partition) else { continue };
            let mut cursor = Cursor::new(&self.source, self.retries, space, partition, from);
            while let Some(page) = cursor.page().await.map_err(CopyError::Source)? {
                damage.add(space, partition, page.damaged);
                if !damage.is_none() {
                    // The rest is read to list all damage.
                    continue;
                }
                for entry in page.entries {
                    batches.put(Key::new(space, partition, entry.number), entry.value).await?;
                }
                (self.watch)(batches.progress());
            }
        }
        if !damage.is_none() {
            batches.settle().await?;
            return Err(CopyError::Damaged { damaged: damage.listed, more: damage.more });
        }
        batches.finish().await
    }

    /// Removes the marker, which completes the copy.
    async fn finish(self) -> Result<(), CopyError> {
        let mut batch = crate::Batch::new();
        batch.delete(MARKER);
        self.target.submit(batch).await.map_err(CopyError::Target)
    }
}

#[derive(Default)]
struct Damage {
    listed: Vec<DamagedValue>,
    more: u64,
}

impl Damage {
    fn is_none(&self) -> bool {
        self.listed.is_empty()
    }

    fn add(&mut self, space: Space, partition: PartitionId, damaged: Vec<crate::DamagedEntry>) {
        for one in damaged {
            match self.listed.len() < DAMAGE_LISTED_MAX {
                true => self
                    .listed
                    .push(DamagedValue { key: Key::new(space, partition, one.number), error: one.error }),
                false => self.more += 1,
            }
        }
    }
}

impl CopySum {
    /// Adds a value to the totals.
    fn add(&mut self, partition: PartitionId, number: u64, value: &Bytes) {
        let len = value.len() as u64;
        for part in [partition.0, number, len] {
            self.crc32c = checksum::append(self.crc32c, &part.to_le_bytes());
        }
        self.crc32c = checksum::append(self.crc32c, value);
        self.values += 1;
        self.bytes += len;
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Run").field("source", &self.source).finish_non_exhaustive()
    }
}
