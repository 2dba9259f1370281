//! Partitions read back from the store.

use peeklock_storage::{Entry, Page, PartitionId, Scan, Shard, Space};
use tokio::sync::mpsc;

use super::StartError;
use crate::partition::Partition;
use crate::{EntityOptions, QueueId};

/// First `Meta` number of a partition; those below are the namespace's.
const META_FROM: u64 = 16;

/// Pages read ahead of the partition that takes them in.
const PAGES_AHEAD: usize = 2;

/// The first pages of a partition, already asked for: starting many partitions costs one round trip, not many.
pub(super) struct FirstPages {
    meta: Scan,
    head: Scan,
}

impl FirstPages {
    pub(super) fn ask(shard: &dyn Shard, partition: PartitionId) -> Self {
        Self {
            meta: shard.scan(Space::Meta, partition, META_FROM),
            head: shard.scan(Space::Head, partition, 0),
        }
    }
}

/// Reads a partition's state back.
pub(super) async fn restore(
    shard: &dyn Shard,
    partition: PartitionId,
    options: EntityOptions,
) -> Result<Partition, StartError> {
    restore_from(shard, partition, options, FirstPages::ask(shard, partition)).await
}

/// Reads a partition's state back from the pages asked for and those that follow.
pub(super) async fn restore_from(
    shard: &dyn Shard,
    partition: PartitionId,
    options: EntityOptions,
    first: FirstPages,
) -> Result<Partition, StartError> {
    let meta = scan_all(shard, Space::Meta, partition, first.meta.await?).await?;
    let head = first.head.await?;
    let restored = match head.next {
        None => Partition::restore(QueueId(partition.0), options, meta, head.entries),
        Some(_) => restore_large(shard, partition, options, meta, head).await?,
    };
    restored.map_err(|error| StartError::Record { partition: partition.0, reason: error.to_string() })
}

/// Every entry of a space, from its first page on.
pub(super) async fn scan_all(
    shard: &dyn Shard,
    space: Space,
    partition: PartitionId,
    first: Page,
) -> Result<Vec<Entry>, StartError> {
    let Page { mut entries, mut next } = first;
    while let Some(from) = next {
        let mut page = shard.scan(space, partition, from).await?;
        entries.append(&mut page.entries);
        next = page.next;
    }
    Ok(entries)
}

type Restored = Result<Partition, crate::partition::RestoreError>;

/// Millions of heads never lie in memory at once: pages are read while earlier ones are taken in on another thread.
async fn restore_large(
    shard: &dyn Shard,
    partition: PartitionId,
    options: EntityOptions,
    meta: Vec<Entry>,
    first: Page,
) -> Result<Restored, StartError> {
    let (pages, mut incoming) = mpsc::channel::<Vec<Entry>>(PAGES_AHEAD);
    let restoring = tokio::task::spawn_blocking(move || {
        let head = std::iter::from_fn(|| incoming.blocking_recv()).flatten();
        Partition::restore(QueueId(partition.0), options, meta, head)
    });
    let mut page = first;
    loop {
        let next = page.next.map(|from| shard.scan(Space::Head, partition, from));
        // A partition that stopped listening has met a bad record and says so below.
        if pages.send(page.entries).await.is_err() {
            break;
        }
        match next {
            Some(scan) => page = scan.await?,
            None => break,
        }
    }
    drop(pages);
    restoring.await.map_err(|error| StartError::Record { partition: partition.0, reason: error.to_string() })
}
