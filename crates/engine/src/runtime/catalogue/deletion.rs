//! Deletion of ended entities: their stored state is deleted, then their names can be used again.

use std::sync::Arc;

use peeklock_storage::{Batch, Error, PartitionId, Space};

use super::Catalogue;
use crate::layout::entity_key;
use crate::names::name_key;
use crate::runtime::entity::Entity;
use crate::{End, QueueId};

/// Maximum number of storage partitions that one batch deletes, unless a single topic has more subscriptions.
const BATCH_PARTITIONS_MAX: usize = 1024;

/// An entity whose partition accepts no commands any more.
#[derive(Debug)]
pub(in crate::runtime) struct Ended {
    /// Its partition.
    pub(in crate::runtime) id: PartitionId,
    /// Its subscriptions, each a storage partition of its own; includes those whose deletion may not be durable.
    pub(in crate::runtime) subscriptions: Vec<QueueId>,
    /// The reason.
    pub(in crate::runtime) end: End,
}

impl Ended {
    /// The storage partitions that hold it.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let subscriptions = self.subscriptions.iter().map(|queue| PartitionId(queue.0));
        std::iter::once(self.id).chain(subscriptions)
    }

    /// Adds the deletion of its stored state to a batch.
    pub(super) fn erase(&self, batch: &mut Batch) {
        batch.delete(entity_key(self.id));
        for partition in self.partitions() {
            for space in Space::ALL {
                batch.delete_range(space, partition, 0..=u64::MAX);
            }
        }
    }

    const fn cause(&self) -> &'static str {
        match self.end {
            End::Idle => "unused for its auto_delete_on_idle",
            End::Asked => "requested by an administrator",
        }
    }
}

impl Catalogue {
    /// Deletes entities with their stored state, in batches of bounded size.
    pub(super) async fn delete(&mut self, all_ended: Vec<Ended>) {
        let (mut together, mut partitions) = (Vec::new(), 0);
        for ended in all_ended {
            partitions += ended.partitions().count();
            if partitions > BATCH_PARTITIONS_MAX && !together.is_empty() {
                self.delete_together(std::mem::take(&mut together)).await;
                partitions = ended.partitions().count();
            }
            together.push(ended);
        }
        self.delete_together(together).await;
    }

    /// Deletes the entities whose deletion the store refused, in batches of bounded size.
    ///
    /// # Errors
    /// The store refused again; the rest stays for the next attempt.
    pub(super) async fn erase_undeleted(&mut self) -> Result<(), Error> {
        while !self.undeleted.is_empty() {
            let mut partitions = 0;
            let fits = |(_, ended): &&(_, Ended)| {
                let is_first = partitions == 0;
                partitions += ended.partitions().count();
                is_first || partitions <= BATCH_PARTITIONS_MAX
            };
            let together: Vec<&Ended> =
                self.undeleted.iter().take_while(fits).map(|(_, ended)| ended).collect();
            let mut batch = Batch::new();
            together.iter().for_each(|ended| ended.erase(&mut batch));
            if let Err(error) = self.spawner.shared.shard.submit(batch).await {
                self.refused(&error, together.iter().flat_map(|ended| ended.partitions()));
                return Err(error);
            }
            let count = together.len();
            self.undeleted.drain(..count);
        }
        Ok(())
    }

    /// Deletes entities in one batch, so that a restart finds each completely or not at all. If the store refuses, they are
    /// nevertheless gone until a restart or the catalogue's next change.
    async fn delete_together(&mut self, all_ended: Vec<Ended>) {
        let find = |ended: Ended| Some((self.directory.by_id(ended.id)?, ended));
        let (entities, all_ended): (Vec<Arc<Entity>>, Vec<Ended>) =
            all_ended.into_iter().filter_map(find).unzip();
        if entities.is_empty() {
            return;
        }
        let mut batch = Batch::new();
        all_ended.iter().for_each(|ended| ended.erase(&mut batch));
        let names: Vec<&str> = entities.iter().map(|entity| entity.name.as_str()).collect();
        let shared = &self.spawner.shared;
        match shared.shard.submit(batch).await {
            Ok(()) => {
                for (name, ended) in names.iter().zip(&all_ended) {
                    tracing::info!(entity = name, "deleted: {}", ended.cause());
                }
            }
            Err(error) => {
                if error.is_loss() {
                    // The host logs the loss.
                    tracing::debug!(entities = ?names, %error, "the deletion of entities is in doubt");
                } else {
                    tracing::warn!(entities = ?names, %error, "the stored data of deleted entities can't be removed yet");
                }
                self.refused(&error, all_ended.iter().flat_map(Ended::partitions));
                // A request to delete one of them is answered only after the next attempt.
                let keys = entities.iter().map(|entity| name_key(&entity.name));
                self.undeleted.extend(keys.zip(all_ended));
            }
        }
        for entity in entities {
            self.directory.remove(&entity);
            if let Some(task) = entity.stop_deleted() {
                // An actor that panicked has failed its host already.
                let _ = task.await;
            }
        }
        self.spawner.shared.changes.notify();
    }
}
