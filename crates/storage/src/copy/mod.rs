//! Copies everything of a shard into an empty one of any store: from a data directory into a replicated store, and back.
//!
//! Neither side may be in use: the copier owns both. While a copy is unfinished, the target has a `marker` in a partition
//! of its own. A broker must refuse such a shard ([`unfinished_copy`]); the copier goes on with it.
//!
//! 1. Values are copied in an order that is fixed, the catalogue's last. Every batch puts the marker with the last key it has, so an
//!    interrupted copy goes on behind what is durable.
//! 2. The target is acquired anew, so that nothing is answered from memory, and both are compared, value by value. After a copy
//!    that was interrupted, differences are put right and everything is compared again: somebody may have used the source
//!    in between.
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

use crate::cluster::Surroundings;
use crate::{Error, Key, Lease, PartitionId, Shard, ShardId, Space, Store, checksum};
use batches::Batches;
use marker::{MARKER, Marker};
use walk::Cursor;

/// Damaged values that are listed by name.
const DAMAGE_LISTED_MAX: usize = 1_000;

/// What is copied by whom.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// What the source is called where an unfinished copy is refused; without secrets.
    pub source_name: String,
    /// Values of one batch, in bytes; a larger value has a batch of its own. Default 1 MiB.
    pub batch_bytes: usize,
    /// Batches sent ahead of the answer to the first. Default 4.
    pub batches_under_way: usize,
    /// How often a side is asked again that can't be reached at present. Default 30 times.
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

/// What the copier is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Reading the source, writing the target.
    Copying,
    /// Reading both and comparing.
    Comparing,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Doing what.
    pub stage: CopyStage,
    /// Values done in this stage; when copying, also those of an earlier, interrupted run.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was compared of one key space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopySum {
    /// Values.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
    /// CRC-32C over partition, number, length (64 bits each, little-endian) and value, in the order of the keys.
    pub crc32c: u32,
}

/// A copy that is complete and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// By key space, in the order of [`Space::ALL`].
    pub sums: [CopySum; 3],
    /// Whether an earlier run was interrupted.
    pub is_resumed: bool,
    /// Values that differed after that and were put right.
    pub corrected: u64,
}

/// A value that can't be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedValue {
    /// Which.
    pub key: Key,
    /// Why.
    pub error: Error,
}

/// Why a copy is not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// There is nothing in the source.
    #[error("the source holds nothing")]
    Empty,
    /// The source is the target of a copy that was interrupted.
    #[error("the source is itself an unfinished copy of {0}")]
    SourceUnfinished(String),
    /// The target is no unfinished copy and holds something already.
    #[error("the target is not empty")]
    NotEmpty,
    /// Values of the source are damaged; what is in the target is not complete.
    #[error("{} values of the source can't be read", damaged.len() as u64 + more)]
    Damaged {
        /// Some of them.
        damaged: Vec<DamagedValue>,
        /// How many others there are.
        more: u64,
    },
    /// A value that the target does not accept.
    #[error("a value of {bytes} bytes is larger than the target accepts ({bytes_max})")]
    TooLarge {
        /// Which.
        key: Key,
        /// Its size.
        bytes: usize,
        /// The target's limit.
        bytes_max: usize,
    },
    /// The target does not hold what was written to it.
    #[error("the target does not hold what was written to it: {what}")]
    Different {
        /// Where.
        key: Key,
        /// In which way.
        what: String,
    },
    /// The source's answer.
    #[error("source: {0}")]
    Source(#[source] Error),
    /// The target's answer.
    #[error("target: {0}")]
    Target(#[source] Error),
}

/// What a shard is an unfinished copy of, if it is one: nobody may serve from it.
///
/// # Errors
/// The shard's.
pub async fn unfinished_copy(shard: &dyn Shard) -> Result<Option<String>, Error> {
    let mut values = shard.read(vec![MARKER]).await?;
    let value = values.pop().flatten();
    Ok(value.map(|value| Marker::decode(&value).map_or_else(String::new, |marker| marker.source_name)))
}

/// Copies a shard into shard 0 of `target`, or goes on with a copy that was interrupted. `watch` is told of progress.
///
/// # Errors
/// [`CopyError`]. Called again for the same target, it goes on where it was.
pub async fn copy(
    source: &Lease,
    target: &dyn Store,
    options: &CopyOptions,
    surroundings: &Arc<dyn Surroundings>,
    watch: &mut (dyn FnMut(CopyProgress) + Send),
) -> Result<CopyReport, CopyError> {
    let patience = Patience { options, surroundings };
    if let Some(name) = patience.ask(|| unfinished_copy(&**source)).await.map_err(CopyError::Source)? {
        return Err(CopyError::SourceUnfinished(name));
    }
    let owned = target.acquire(ShardId(0)).await.map_err(CopyError::Target)?;
    let (marker, is_resumed) = begin(source, &owned, patience).await?;
    let mut run = Run { source: source.clone(), target: owned, patience, watch };
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

/// Decides whether to begin or to go on, and marks the target.
async fn begin(source: &Lease, target: &Lease, patience: Patience<'_>) -> Result<(Marker, bool), CopyError> {
    if patience.ask(|| source.partitions()).await.map_err(CopyError::Source)?.is_empty() {
        return Err(CopyError::Empty);
    }
    let found = patience.ask(|| target.read(vec![MARKER])).await.map_err(CopyError::Target)?.pop().flatten();
    if let Some(value) = found {
        let unknown = || CopyError::Target(Error::Unavailable { reason: marker::unknown() });
        return Ok((Marker::decode(&value).ok_or_else(unknown)?, true));
    }
    if !patience.ask(|| target.partitions()).await.map_err(CopyError::Target)?.is_empty() {
        return Err(CopyError::NotEmpty);
    }
    let marker = Marker { source_name: patience.options.source_name.clone(), ..Marker::default() };
    let mut batch = crate::Batch::new();
    batch.put(MARKER, marker.encode());
    target.submit(batch).await.map_err(CopyError::Target)?;
    Ok((marker, false))
}

/// Asks again where an answer may pass.
#[derive(Clone, Copy)]
struct Patience<'a> {
    options: &'a CopyOptions,
    surroundings: &'a Arc<dyn Surroundings>,
}

impl Patience<'_> {
    async fn ask<T, F: Future<Output = Result<T, Error>>>(self, ask: impl Fn() -> F) -> Result<T, Error> {
        for _ in 1..self.options.attempts_max {
            match ask().await {
                Err(error) if error.may_pass() => {
                    self.surroundings.pause(self.options.attempt_pause).await;
                }
                answer => return answer,
            }
        }
        ask().await
    }
}

/// A copy under way.
struct Run<'a> {
    source: Lease,
    target: Lease,
    patience: Patience<'a>,
    watch: &'a mut (dyn FnMut(CopyProgress) + Send),
}

impl Run<'_> {
    async fn acquire_target(&mut self, store: &dyn Store) -> Result<(), CopyError> {
        self.target = store.acquire(ShardId(0)).await.map_err(CopyError::Target)?;
        Ok(())
    }

    /// Copies what lies behind the marker.
    async fn copy(&mut self, marker: Marker) -> Result<(), CopyError> {
        let mut todo = self.patience.ask(|| self.source.partitions()).await.map_err(CopyError::Source)?;
        todo.sort_unstable_by_key(|(space, partition)| walk::rank(*space, *partition));
        let done = marker.last;
        let mut batches = Batches::new(self.target.clone(), self.patience.options, marker);
        let mut damage = Damage::default();
        for (space, partition) in todo {
            let Some(from) = walk::resume_at(done, space, partition) else { continue };
            let mut cursor = Cursor::new(&self.source, self.patience, space, partition, from);
            while let Some(page) = cursor.page().await.map_err(CopyError::Source)? {
                damage.add(space, partition, page.damaged);
                if !damage.is_none() {
                    // The rest is read to list all of it.
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

    /// Removes the marker: the copy counts.
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
    /// Adds the next value.
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
