//! Entities that ended: what is stored of them goes, then their names are free again.

use peeklock_storage::{Batch, PartitionId, Space};

use super::actor::is_dead;
use super::catalogue::Catalogue;
use super::record::{CATALOGUE, entity_key};
use crate::QueueId;

/// Until a deletion for which there was no room is tried again, in milliseconds.
const RETRY_MS: u64 = 10_000;

/// An entity whose partition takes no commands any more.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its partition.
    pub(super) id: PartitionId,
    /// Its subscriptions, each a storage partition of its own.
    pub(super) subscriptions: Vec<QueueId>,
}

impl Catalogue {
    /// Deletes an entity with all that rests in it: one batch, so that a restart finds all of it or nothing.
    pub(super) async fn delete(&self, ended: Ended) {
        let Some(entity) = self.entities.by_id(ended.id) else { return };
        let mut batch = Batch::new();
        batch.delete(entity_key(ended.id));
        let subscriptions = ended.subscriptions.iter().map(|queue| PartitionId(queue.0));
        let partitions = std::iter::once(ended.id).chain(subscriptions);
        for partition in partitions.clone() {
            for space in Space::ALL {
                batch.delete_range(space, partition, 0..=u64::MAX);
            }
        }
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
                tracing::warn!(entity = entity.name, %error, "an idle entity can't be deleted yet");
                shared.shard.resume(CATALOGUE);
                partitions.for_each(|partition| shared.shard.resume(partition));
                return self.delete_later(ended);
            }
        }
        self.entities.remove(&entity);
        entity.set_deleted();
        if let Some(task) = entity.stop() {
            // An actor that panicked has raised the fatal signal already.
            let _ = task.await;
        }
    }
    /// What is still stored keeps its name, or a restart would find two entities of one name.
    fn delete_later(&self, ended: Ended) {
        let shared = self.spawner.shared.clone();
        self.spawner.runtime.spawn(async move {
            shared.clock.sleep_until(shared.clock.now().plus_ms(RETRY_MS)).await;
            // Without a catalogue the namespace is gone as well.
            let _ = shared.ended.send(ended);
        });
    }
}
