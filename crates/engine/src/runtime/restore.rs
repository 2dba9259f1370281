//! Partitions read back from the store.

use peeklock_storage::{Entry, Page, PartitionId, Scan, Shard, Space};
use tokio::sync::mpsc;

use super::StartError;
use crate::partition::{Credible, Partition, RestoreError};
use crate::{EntityOptions, QueueId};

/// First `Meta` number of a partition; those below are the namespace's.
const META_FROM: u64 = 16;

/// Partitions whose first pages are asked for at a time.
pub(super) const PARTITIONS_AT_A_TIME: usize = 64;

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
    credible: Credible,
) -> Result<Partition, StartError> {
    restore_from(shard, partition, options, credible, FirstPages::ask(shard, partition)).await
}

/// Reads a partition's state back from the pages asked for and those that follow.
pub(super) async fn restore_from(
    shard: &dyn Shard,
    partition: PartitionId,
    options: EntityOptions,
    credible: Credible,
    first: FirstPages,
) -> Result<Partition, StartError> {
    let id = QueueId(partition.0);
    let take = move |meta, head: &mut dyn Iterator<Item = Entry>| {
        Partition::restore_credible(id, options, credible, meta, head)
    };
    let mut restored = take_in(shard, partition, first, take).await?;
    let subscriptions: Vec<PartitionId> =
        restored.subscriptions().map(|subscription| PartitionId(subscription.queue.0)).collect();
    for some in subscriptions.chunks(PARTITIONS_AT_A_TIME) {
        let asked: Vec<_> = some.iter().map(|partition| FirstPages::ask(shard, *partition)).collect();
        for (partition, pages) in some.iter().zip(asked) {
            let id = QueueId(partition.0);
            let fill = move |meta, head: &mut dyn Iterator<Item = Entry>| {
                restored.restore_subscription(id, meta, head).map(|()| restored)
            };
            restored = take_in(shard, *partition, pages, fill).await?;
        }
    }
    restored.restored();
    Ok(restored)
}

type Restored = Result<Partition, RestoreError>;

/// Hands everything stored of a partition to `restore`.
async fn take_in(
    shard: &dyn Shard,
    partition: PartitionId,
    first: FirstPages,
    restore: impl FnOnce(Vec<Entry>, &mut dyn Iterator<Item = Entry>) -> Restored + Send + 'static,
) -> Result<Partition, StartError> {
    let meta = scan_all(shard, Space::Meta, partition, first.meta.await?).await?;
    let head = first.head.await?;
    let restored = match head.next {
        None => restore(meta, &mut head.entries.into_iter()),
        Some(_) => take_in_large(shard, partition, head, move |head| restore(meta, head)).await?,
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

/// Millions of heads never lie in memory at once: pages are read while earlier ones are taken in on another thread.
async fn take_in_large(
    shard: &dyn Shard,
    partition: PartitionId,
    first: Page,
    restore: impl FnOnce(&mut dyn Iterator<Item = Entry>) -> Restored + Send + 'static,
) -> Result<Restored, StartError> {
    let (pages, mut incoming) = mpsc::channel::<Vec<Entry>>(PAGES_AHEAD);
    let restoring = tokio::task::spawn_blocking(move || {
        restore(&mut std::iter::from_fn(|| incoming.blocking_recv()).flatten())
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
