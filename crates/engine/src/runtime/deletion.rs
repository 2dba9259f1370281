//! Entities that ended: what is stored of them goes, then their names are free again.

use peeklock_storage::{Batch, PartitionId, Space};

use super::actor::is_dead;
use super::catalogue::Catalogue;
use super::record::{CATALOGUE, entity_key};
use crate::QueueId;

/// An entity whose partition takes no commands any more.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its partition.
    pub(super) id: PartitionId,
    /// Its subscriptions, each a storage partition of its own.
    pub(super) subscriptions: Vec<QueueId>,
}

impl Ended {
    /// Where it rests.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let subscriptions = self.subscriptions.iter().map(|queue| PartitionId(queue.0));
        std::iter::once(self.id).chain(subscriptions)
    }

    /// Adds the deletion of all that is stored of it to a batch.
    pub(super) fn erase(&self, batch: &mut Batch) {
        batch.delete(entity_key(self.id));
        for partition in self.partitions() {
            for space in Space::ALL {
                batch.delete_range(space, partition, 0..=u64::MAX);
            }
        }
    }
}

impl Catalogue {
    /// Deletes an entity with all that rests in it: one batch, so that a restart finds all of it or nothing. When the
    /// store refuses, it is gone all the same, until a restart or the next batch of the catalogue.
    pub(super) async fn delete(&mut self, ended: Ended) {
        let Some(entity) = self.entities.by_id(ended.id) else { return };
        let mut batch = Batch::new();
        ended.erase(&mut batch);
        let shared = &self.spawner.shared;
        match shared.shard.submit(batch).await {
            Ok(()) => {
                tracing::info!(
                    entity = entity.name,
                    "deleted, because nobody used it for as long as it says"
                );
            }
            Err(error) if is_dead(&error) => {
                tracing::error!(entity = entity.name, %error, "an idle entity could not be deleted");
                shared.fatal.raise(error);
            }
            Err(error) => {
                tracing::warn!(entity = entity.name, %error, "what is stored of an idle entity stays for now");
                shared.shard.resume(CATALOGUE);
                ended.partitions().for_each(|partition| shared.shard.resume(partition));
                self.undeleted.push(ended);
            }
        }
        self.entities.remove(&entity);
        entity.set_deleted();
        if let Some(task) = entity.stop() {
            // An actor that panicked has raised the fatal signal already.
            let _ = task.await;
        }
    }
}
