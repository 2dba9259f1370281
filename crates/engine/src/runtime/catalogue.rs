//! The one task that changes the catalogue, so that declarations never race.

use std::collections::HashMap;
use std::sync::Arc;

use peeklock_storage::{Batch, PartitionId};
use tokio::sync::{mpsc, oneshot};

use super::StartError;
use super::actor::is_dead;
use super::entity::{Entity, Spawner};
use super::names::{check_entity_name, name_key};
use super::namespace::Entities;
use super::record::{CATALOGUE, COUNTER, EntityKind, EntityRecord, encode_counter, entity_key};
use crate::QueueOptions;
use crate::partition::Partition;

/// Declarations taken into one batch.
const DECLARATIONS_MAX: usize = 256;

/// A wish to create or change queues, all or none.
pub(super) struct Declaration {
    pub(super) queues: Vec<(String, QueueOptions)>,
    pub(super) answer: oneshot::Sender<Result<(), StartError>>,
}

/// Keeps the catalogue; ends when the namespace is gone.
pub(super) struct Catalogue {
    pub(super) entities: Arc<Entities>,
    pub(super) spawner: Spawner,
    pub(super) next_partition: PartitionId,
}

/// What a batch of declarations will have done once it is durable.
#[derive(Default)]
struct Changes {
    batch: Batch,
    /// By name key: what is created or changed.
    queues: HashMap<Box<str>, Change>,
    next_partition: Option<PartitionId>,
}

struct Change {
    name: String,
    id: PartitionId,
    options: QueueOptions,
    existing: Option<Arc<Entity>>,
}

impl Catalogue {
    pub(super) async fn run(mut self, mut declarations: mpsc::Receiver<Declaration>) {
        let mut waiting = Vec::new();
        while declarations.recv_many(&mut waiting, DECLARATIONS_MAX).await > 0 {
            let mut changes = Changes::default();
            let mut planned = Vec::new();
            for Declaration { queues, answer } in waiting.drain(..) {
                match self.plan(&queues, &mut changes) {
                    Ok(()) => planned.push(answer),
                    // Nobody waits any more: nothing to tell.
                    Err(error) => drop(answer.send(Err(error))),
                }
            }
            let result = self.carry_out(changes).await;
            for answer in planned {
                let _ = answer.send(result.clone().map_err(StartError::from));
            }
        }
    }

    /// Adds one declaration, or nothing of it when something is wrong with it.
    fn plan(&self, queues: &[(String, QueueOptions)], changes: &mut Changes) -> Result<(), StartError> {
        for (name, options) in queues {
            check_entity_name(name)
                .map_err(|reason| StartError::InvalidName { name: name.clone(), reason })?;
            check_options(options)
                .map_err(|reason| StartError::InvalidOptions { name: name.clone(), reason })?;
        }
        for (name, options) in queues {
            self.plan_queue(name, options, changes)?;
        }
        Ok(())
    }

    fn plan_queue(
        &self,
        name: &str,
        options: &QueueOptions,
        changes: &mut Changes,
    ) -> Result<(), StartError> {
        let key = name_key(name);
        let change = match (changes.queues.remove(&key), self.entities.get(&key)) {
            (Some(earlier), _) => Change { options: options.clone(), ..earlier },
            (None, Some(existing)) if *existing.options() == *options => return Ok(()),
            (None, Some(existing)) => Change {
                name: existing.name.clone(),
                id: existing.id,
                options: options.clone(),
                existing: Some(existing),
            },
            (None, None) => {
                let id = changes.next_partition.unwrap_or(self.next_partition);
                changes.next_partition = Some(PartitionId(id.0 + 1));
                Change { name: name.to_owned(), id, options: options.clone(), existing: None }
            }
        };
        let record =
            EntityRecord { name: change.name.clone(), kind: EntityKind::Queue(change.options.clone()) };
        let record =
            record.encode().map_err(|reason| StartError::InvalidOptions { name: name.to_owned(), reason })?;
        changes.batch.put(entity_key(change.id), record);
        changes.queues.insert(key, change);
        Ok(())
    }

    async fn carry_out(&mut self, mut changes: Changes) -> Result<(), peeklock_storage::Error> {
        if let Some(next) = changes.next_partition {
            let counter =
                encode_counter(next).map_err(|reason| peeklock_storage::Error::Unavailable { reason })?;
            changes.batch.put(entity_key(PartitionId(COUNTER)), counter);
        }
        if changes.batch.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.spawner.shared.shard.submit(changes.batch).await {
            if is_dead(&error) {
                self.spawner.shared.fatal.raise(error.clone());
            }
            self.spawner.shared.shard.resume(CATALOGUE);
            return Err(error);
        }
        self.next_partition = changes.next_partition.unwrap_or(self.next_partition);
        for (key, Change { name, id, options, existing }) in changes.queues {
            match existing {
                Some(entity) => entity.set_options(options),
                None => {
                    let partition = Partition::new(options.clone());
                    self.entities.insert(key, Arc::new(Entity::new(name, id, options, partition)));
                }
            }
        }
        Ok(())
    }
}

/// Refuses what no partition can work with; the configuration's finer limits are the front ends' to check.
fn check_options(options: &QueueOptions) -> Result<(), String> {
    let positive = [
        ("lock_duration", options.lock_duration_ms),
        ("max_delivery_count", u64::from(options.max_delivery_count)),
        ("default_message_time_to_live", options.default_message_time_to_live_ms.unwrap_or(u64::MAX)),
        ("max_message_size", options.max_message_size_bytes),
        ("max_size", options.max_size_bytes),
    ];
    match positive.iter().find(|(_, value)| *value == 0) {
        Some((name, _)) => Err(format!("{name} is 0; it must be positive")),
        None => Ok(()),
    }
}
