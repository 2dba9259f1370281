//! Restores partitions from the store.

use std::sync::Arc;

use peeklock_storage::{DamagedEntry, Entry, Error, Page, PartitionId, Scan, Shard, Space};
use tokio::sync::mpsc;

use super::StartError;
use super::damage::{Damages, Unreadable};
use super::retry_backoff::{RetryBackoff, unread_now};
use crate::layout::{HeadSubject, META_FIRST};
use crate::partition::{Credible, Partition, RestoreError};
use crate::{EntityOptions, QueueId};

/// Number of partitions whose first pages are requested at a time.
pub(super) const PARTITIONS_AT_A_TIME: usize = 64;

/// Pages read ahead of the partition that processes them.
const PAGES_AHEAD: usize = 2;

/// The requested first pages of a partition: starting many partitions costs one round trip instead of many.
pub(super) struct FirstPages {
    meta: Scan,
    head: Scan,
}

impl FirstPages {
    pub(super) fn ask(shard: &dyn Shard, partition: PartitionId) -> Self {
        Self {
            meta: shard.scan(Space::Meta, partition, META_FIRST),
            head: shard.scan(Space::Head, partition, 0),
        }
    }
}

/// Restores a partition's state from the requested pages and those that follow. Damage to single messages is recorded in
/// `damages` and affects only these; so do records of single messages that the device can't return, once `backoff` is used
/// up.
///
/// # Errors
/// [`Error::Unreadable`] if the device could not return data: the caller retries after a pause.
pub(super) async fn restore(
    shard: &dyn Shard,
    (partition, name): (PartitionId, &str),
    options: Arc<EntityOptions>,
    credible: Credible,
    first: FirstPages,
    damages: &Damages,
    backoff: RetryBackoff,
) -> Result<Partition, StartError> {
    let id = QueueId(partition.0);
    let mut damaged = Vec::new();
    let fill = move |meta, head: &mut dyn Iterator<Item = Entry>| {
        Partition::restore_credible(id, options, credible, meta, head)
    };
    let mut restored = take_in(shard, partition, first, (&mut damaged, backoff), fill).await?;
    let subscriptions: Vec<PartitionId> =
        restored.subscriptions().map(|subscription| PartitionId(subscription.queue.0)).collect();
    for some in subscriptions.chunks(PARTITIONS_AT_A_TIME) {
        let asked: Vec<_> = some.iter().map(|partition| FirstPages::ask(shard, *partition)).collect();
        for (partition, pages) in some.iter().zip(asked) {
            let id = QueueId(partition.0);
            let fill = move |meta, head: &mut dyn Iterator<Item = Entry>| {
                restored.restore_subscription(id, meta, head).map(|()| restored)
            };
            restored = take_in(shard, *partition, pages, (&mut damaged, backoff), fill).await?;
        }
    }
    restored.restored();
    note_damaged(&mut restored, name, damaged, damages);
    restored.suspect_bodies();
    Ok(restored)
}

/// Takes messages out of delivery whose stored records can't be read.
fn note_damaged(
    restored: &mut Partition,
    name: &str,
    damaged: Vec<(QueueId, DamagedEntry)>,
    damages: &Damages,
) {
    let mut unread = Vec::new();
    for (queue, DamagedEntry { number, error, .. }) in damaged {
        restored.quarantine_stored(queue, number);
        unread.push((queue, number, Unreadable::from(error)));
    }
    let not_understood = restored.take_unread().into_iter();
    unread.extend(not_understood.map(|one| (one.queue, one.number, Unreadable::new(one.reason))));
    for (queue, number, why) in unread {
        let entity = match restored.subscription(queue) {
            Some(subscription) => format!("{name}/Subscriptions/{}", subscription.name),
            None => name.to_owned(),
        };
        let (number, what) = match HeadSubject::of(number) {
            HeadSubject::Message(number) => (Some(number), "the stored data of the message"),
            HeadSubject::RememberedId(_) => (None, "a message id kept for duplicate detection"),
            HeadSubject::SessionState(_) => (None, "the state of a session"),
        };
        damages.note(why.about(what).damage(entity, number));
    }
}

type Restored = Result<Partition, RestoreError>;

/// Passes all stored entries of a partition to `restore`, and damaged ones to `damaged`.
async fn take_in(
    shard: &dyn Shard,
    partition: PartitionId,
    first: FirstPages,
    (damaged, backoff): (&mut Vec<(QueueId, DamagedEntry)>, RetryBackoff),
    restore: impl FnOnce(Vec<Entry>, &mut dyn Iterator<Item = Entry>) -> Restored + Send + 'static,
) -> Result<Partition, StartError> {
    let meta = scan_all(shard, Space::Meta, partition, first.meta.await?).await?;
    let mut head = first.head.await?;
    let mut note = |page: &mut Page| {
        if !backoff.is_over() {
            unread_now(page)?;
        }
        let some = std::mem::take(&mut page.damaged);
        damaged.extend(some.into_iter().map(|one| (QueueId(partition.0), one)));
        Ok(())
    };
    note(&mut head)?;
    let restored = match head.next {
        None => restore(meta, &mut head.entries.into_iter()),
        Some(_) => take_in_large(shard, partition, head, note, move |head| restore(meta, head)).await?,
    };
    restored.map_err(|error| StartError::Record { partition: partition.0, reason: error.to_string() })
}

/// All entries of a space, starting with its first page; the first damaged entry is an error.
pub(super) async fn scan_all(
    shard: &dyn Shard,
    space: Space,
    partition: PartitionId,
    first: Page,
) -> Result<Vec<Entry>, StartError> {
    let Page { entries, damaged, .. } = scan_over_damage(shard, space, partition, first).await?;
    match damaged.into_iter().next() {
        Some(damaged) => Err(damaged.error.into()),
        None => Ok(entries),
    }
}

/// All pages of a space combined into one, starting with the first.
pub(super) async fn scan_over_damage(
    shard: &dyn Shard,
    space: Space,
    partition: PartitionId,
    first: Page,
) -> Result<Page, StartError> {
    let mut all = first;
    while let Some(from) = all.next {
        let mut page = shard.scan(space, partition, from).await?;
        all.entries.append(&mut page.entries);
        all.damaged.append(&mut page.damaged);
        all.next = page.next;
    }
    Ok(all)
}

/// Processes pages on another thread while the next are read, so that millions of heads are never in memory at once.
async fn take_in_large(
    shard: &dyn Shard,
    partition: PartitionId,
    first: Page,
    mut note_damaged: impl FnMut(&mut Page) -> Result<(), Error>,
    restore: impl FnOnce(&mut dyn Iterator<Item = Entry>) -> Restored + Send + 'static,
) -> Result<Restored, StartError> {
    let (pages, mut incoming) = mpsc::channel::<Vec<Entry>>(PAGES_AHEAD);
    let restoring = tokio::task::spawn_blocking(move || {
        restore(&mut std::iter::from_fn(|| incoming.blocking_recv()).flatten())
    });
    let mut page = first;
    loop {
        let next = page.next.map(|from| shard.scan(Space::Head, partition, from));
        // The partition stopped at an invalid record; the error is returned below.
        if pages.send(page.entries).await.is_err() {
            break;
        }
        match next {
            Some(scan) => {
                page = scan.await?;
                note_damaged(&mut page)?;
            }
            None => break,
        }
    }
    drop(pages);
    restoring.await.map_err(|error| StartError::Record { partition: partition.0, reason: error.to_string() })
}
