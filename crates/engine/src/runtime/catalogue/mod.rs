//! The task that makes all changes to the catalogue, so that declarations never race.
//!
//! `plan` computes the result of a batch of declarations, `deletion` removes entities that ended.

pub(super) mod deletion;
pub(super) mod load;
mod plan;

use std::pin::pin;
use std::sync::Arc;

use peeklock_storage::{Batch, PartitionId};
use tokio::sync::{mpsc, oneshot};

use self::deletion::Ended;
use self::plan::{CatalogueChanges, Change};
use super::StartError;
use super::directory::Directory;
use super::entity::{Entity, Spawner};
use crate::layout::{CATALOGUE, entity_key, next_partition_key};
use crate::partition::Partition;
use crate::stored::write_next_partition;
use crate::{EntityOptions, Intent, QueueId};

/// Maximum number of declarations, or of ended entities, in one batch.
const BATCH_MAX: usize = 256;

/// A request to the catalogue.
pub(super) enum CatalogueRequest {
    /// Creates or changes entities, all or none.
    Declare {
        /// The expected present state.
        intent: Intent,
        /// Names and options.
        entities: Vec<(String, EntityOptions)>,
    },
    /// Reserves this number of partition ids for subscriptions; they are never used for anything else. The answer is the
    /// first id.
    Reserve(u64),
    /// Answered once the stored state of an ended entity, found by id or name key, is deleted. The answer is the id of the
    /// entity; without an id, it is an error if nothing was left.
    Erase {
        /// Its id, if it is known to have ended.
        id: Option<PartitionId>,
        /// Its name key.
        key: Box<str>,
    },
}

/// A request with its answer channel.
pub(super) struct Declaration {
    pub(super) request: CatalogueRequest,
    pub(super) answer: oneshot::Sender<Result<PartitionId, StartError>>,
}

/// Manages the catalogue of a shard; ends with its host.
pub(super) struct Catalogue {
    pub(super) directory: Arc<Directory>,
    pub(super) spawner: Arc<Spawner>,
    pub(super) next_partition: PartitionId,
    /// Maximum number of queues and topics.
    pub(super) entities_max: usize,
    /// Whether a stored name, or the next free partition id, can't be read. If so, nothing is created.
    pub(super) is_damaged: bool,
    /// Ended entities whose deletion the store refused, by name key. They are deleted before the next change, so that the store
    /// never holds two entities of the same name.
    pub(super) undeleted: Vec<(Box<str>, Ended)>,
}

impl Catalogue {
    pub(super) async fn run(
        mut self,
        mut declarations: mpsc::Receiver<Declaration>,
        mut ended: mpsc::UnboundedReceiver<Ended>,
    ) {
        let (mut waiting, mut all_ended) = (Vec::new(), Vec::new());
        let scope = self.spawner.shared.scope.clone();
        let _guard = scope.clone().guard();
        let mut failed = pin!(scope.failed());
        loop {
            let count = tokio::select! {
                // Ends before declarations, so that their names are free again.
                biased;
                // Callers that still wait learn of the failure from the closed channel.
                _ = &mut failed => return,
                1.. = ended.recv_many(&mut all_ended, BATCH_MAX) => {
                    self.delete(std::mem::take(&mut all_ended)).await;
                    continue;
                }
                count = declarations.recv_many(&mut waiting, BATCH_MAX) => count,
            };
            if count == 0 {
                return;
            }
            // Entities that ended while the declarations were received.
            while let Ok(one) = ended.try_recv() {
                all_ended.push(one);
            }
            self.delete(std::mem::take(&mut all_ended)).await;
            self.declare(waiting.drain(..)).await;
        }
    }

    /// Carries out requests with one write.
    async fn declare(&mut self, requests: impl Iterator<Item = Declaration>) {
        let mut changes = CatalogueChanges::new(self.next_partition);
        let mut planned = Vec::new();
        for Declaration { request, answer } in requests {
            match self.plan(request, &mut changes) {
                Ok(id) => planned.push((answer, id)),
                // The caller may be gone.
                Err(error) => drop(answer.send(Err(error))),
            }
        }
        let result = self.carry_out(changes).await;
        for (answer, id) in planned {
            let _ = answer.send(result.clone().map(|()| id).map_err(StartError::from));
        }
    }

    async fn carry_out(&mut self, changes: CatalogueChanges) -> Result<(), peeklock_storage::Error> {
        let CatalogueChanges { entities, next_partition, erases } = changes;
        let is_unchanged = entities.is_empty() && next_partition == self.next_partition;
        if !is_unchanged || erases {
            self.erase_undeleted().await?;
        }
        if is_unchanged {
            return Ok(());
        }
        let mut batch = Batch::new();
        for change in entities.values() {
            batch.put(entity_key(change.id), change.record.clone());
        }
        if next_partition != self.next_partition {
            batch.put(next_partition_key(), write_next_partition(next_partition));
        }
        if let Err(error) = self.spawner.shared.shard.submit(batch).await {
            self.refused(&error, std::iter::empty());
            return Err(error);
        }
        self.next_partition = next_partition;
        for (key, change) in entities {
            self.take_over(key, change);
        }
        self.spawner.shared.changes.notify();
        Ok(())
    }

    /// Prepares for later batches after the store refused one of the catalogue, which deleted these partitions.
    fn refused(&self, error: &peeklock_storage::Error, partitions: impl Iterator<Item = PartitionId>) {
        let shared = &self.spawner.shared;
        if error.is_loss() {
            shared.scope.fail(error.clone());
        }
        std::iter::once(CATALOGUE).chain(partitions).for_each(|partition| shared.shard.resume(partition));
    }

    /// Applies a stored change to the entity in use, or starts the new one.
    fn take_over(&self, key: Box<str>, change: Change) {
        let Change { name, id, options, times, existing, .. } = change;
        let options = Arc::new(options);
        if let Some(entity) = existing {
            entity.change_options(options, times);
            return entity.start_if_timed();
        }
        let limits = self.spawner.shared.rule_limits;
        let partition = Partition::sharing(QueueId(id.0), Arc::clone(&options)).with_rule_limits(limits);
        let set_backs = self.spawner.shared.clock.reading().1.count;
        let entity = Entity::new(&self.spawner, (name, id), options, times, partition, set_backs);
        let entity = Arc::new(entity);
        entity.start_if_timed();
        self.directory.insert(key, entity);
    }
}
