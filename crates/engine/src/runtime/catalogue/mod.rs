//! The one task that changes the catalogue, so that declarations never race.
//!
//! `plan` says what a batch of declarations comes to, `deletion` is what happens to entities that ended.

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

/// Declarations, or ended entities, taken into one batch.
const BATCH_MAX: usize = 256;

/// What the catalogue is asked for.
pub(super) enum CatalogueRequest {
    /// Entities created or changed, all or none.
    Declare {
        /// What is expected to be there.
        intent: Intent,
        /// By name.
        entities: Vec<(String, EntityOptions)>,
    },
    /// So many storage partitions that are never given to anything else, for subscriptions; answered with the first.
    Reserve(u64),
    /// What is stored of an entity that ended, by its id or its name key, is gone when this is answered. The answer is
    /// the id of what was still there, if anything was.
    Erase {
        /// Its id, when it is known to have ended.
        id: Option<PartitionId>,
        /// Its name key.
        key: Box<str>,
    },
}

/// A request with its return address.
pub(super) struct Declaration {
    pub(super) request: CatalogueRequest,
    pub(super) answer: oneshot::Sender<Result<PartitionId, StartError>>,
}

/// Keeps the catalogue of a shard; ends when its host does.
pub(super) struct Catalogue {
    pub(super) directory: Arc<Directory>,
    pub(super) spawner: Arc<Spawner>,
    pub(super) next_partition: PartitionId,
    /// Queues and topics, beyond which none is created.
    pub(super) entities_max: usize,
    /// Whether a name can't be read that is stored, or the next free partition: nothing is created meanwhile.
    pub(super) is_damaged: bool,
    /// Ended entities whose deletion the store refused, with their name keys: the next batch tries again, so that no two
    /// of the same name are ever stored.
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
                // Ends before declarations, so that a name that is free is known to be.
                biased;
                // Whoever still waits learns it from the end of the queue.
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
            // What ended while the declarations were taken.
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
                // Nobody waits any more: nothing to tell.
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
        let mut batch = Batch::new();
        for change in entities.values() {
            batch.put(entity_key(change.id), change.record.clone());
        }
        if next_partition != self.next_partition {
            batch.put(next_partition_key(), write_next_partition(next_partition));
        }
        if batch.is_empty() && !erases {
            return Ok(());
        }
        self.undeleted.iter().for_each(|(_, ended)| ended.erase(&mut batch));
        let shard = &self.spawner.shared.shard;
        if let Err(error) = shard.submit(batch).await {
            if error.is_loss() {
                self.spawner.shared.scope.fail(error.clone());
            }
            shard.resume(CATALOGUE);
            let undeleted = self.undeleted.iter().flat_map(|(_, ended)| ended.partitions());
            undeleted.for_each(|partition| shard.resume(partition));
            return Err(error);
        }
        self.undeleted.clear();
        self.next_partition = next_partition;
        for (key, change) in entities {
            self.take_over(key, change);
        }
        self.spawner.shared.changes.notify();
        Ok(())
    }

    /// Lets an entity be as it is stored now.
    fn take_over(&self, key: Box<str>, change: Change) {
        let Change { name, id, options, times, existing, .. } = change;
        if let Some(entity) = existing {
            entity.change_options(options, times);
            return entity.start_if_timed();
        }
        let limits = self.spawner.shared.rule_limits;
        let partition = Partition::new(QueueId(id.0), options.clone()).with_rule_limits(limits);
        let set_backs = self.spawner.shared.clock.reading().1.count;
        let entity = Entity::new(&self.spawner, (name, id), options, times, partition, set_backs);
        let entity = Arc::new(entity);
        entity.start_if_timed();
        self.directory.insert(key, entity);
    }
}
