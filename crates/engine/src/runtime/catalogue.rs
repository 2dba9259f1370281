//! The one task that changes the catalogue, so that declarations never race.

use std::collections::HashMap;
use std::sync::Arc;

use peeklock_storage::{Batch, PartitionId};
use tokio::sync::{mpsc, oneshot};

use super::StartError;
use super::actor::is_dead;
use super::deletion::Ended;
use super::entity::{Entity, Spawner};
use super::names::{check_entity_name, name_key};
use super::namespace::Entities;
use super::record::{CATALOGUE, COUNTER, EntityRecord, encode_counter, entity_key};
use crate::partition::Partition;
use crate::{EntityOptions, EntityTimes, QueueId};

/// Declarations taken into one batch.
const DECLARATIONS_MAX: usize = 256;

/// A wish to create or change entities, all or none; answered with the first of the ids reserved.
pub(super) struct Declaration {
    pub(super) entities: Vec<(String, EntityOptions)>,
    /// Storage partitions that are never given to anything else, for subscriptions.
    pub(super) reserve: u64,
    pub(super) answer: oneshot::Sender<Result<PartitionId, StartError>>,
}

/// Keeps the catalogue; ends when the namespace is gone.
pub(super) struct Catalogue {
    pub(super) entities: Arc<Entities>,
    pub(super) spawner: Spawner,
    pub(super) next_partition: PartitionId,
    /// Ended entities whose deletion the store refused: the next batch tries again, so that no two of the same name are
    /// ever stored.
    pub(super) undeleted: Vec<Ended>,
}

/// What a batch of declarations will have done once it is durable.
#[derive(Default)]
struct Changes {
    batch: Batch,
    /// By name key: what is created or changed.
    entities: HashMap<Box<str>, Change>,
    next_partition: Option<PartitionId>,
}

struct Change {
    name: String,
    id: PartitionId,
    options: EntityOptions,
    times: EntityTimes,
    existing: Option<Arc<Entity>>,
}

impl Catalogue {
    pub(super) async fn run(
        mut self,
        mut declarations: mpsc::Receiver<Declaration>,
        mut ended: mpsc::UnboundedReceiver<Ended>,
    ) {
        let mut waiting = Vec::new();
        loop {
            let count = tokio::select! {
                // Ends before declarations, so that a name that is free is known to be.
                biased;
                Some(ended) = ended.recv() => {
                    self.delete(ended).await;
                    continue;
                }
                count = declarations.recv_many(&mut waiting, DECLARATIONS_MAX) => count,
            };
            if count == 0 {
                return;
            }
            // What ended while the declarations were taken.
            while let Ok(ended) = ended.try_recv() {
                self.delete(ended).await;
            }
            let mut changes = Changes::default();
            let mut planned = Vec::new();
            for Declaration { entities, reserve, answer } in waiting.drain(..) {
                match self.plan(&entities, reserve, &mut changes) {
                    Ok(reserved) => planned.push((answer, reserved)),
                    // Nobody waits any more: nothing to tell.
                    Err(error) => drop(answer.send(Err(error))),
                }
            }
            let result = self.carry_out(changes).await;
            for (answer, reserved) in planned {
                let _ = answer.send(result.clone().map(|()| reserved).map_err(StartError::from));
            }
        }
    }

    /// Adds one declaration, or nothing of it when something is wrong with it.
    fn plan(
        &self,
        entities: &[(String, EntityOptions)],
        reserve: u64,
        changes: &mut Changes,
    ) -> Result<PartitionId, StartError> {
        for (name, options) in entities {
            check_entity_name(name)
                .map_err(|reason| StartError::InvalidName { name: name.clone(), reason })?;
            check_options(options)
                .map_err(|reason| StartError::InvalidOptions { name: name.clone(), reason })?;
        }
        for (name, options) in entities {
            self.plan_entity(name, options, changes)?;
        }
        let reserved = changes.next_partition.unwrap_or(self.next_partition);
        if reserve > 0 {
            changes.next_partition = Some(PartitionId(reserved.0.saturating_add(reserve)));
        }
        Ok(reserved)
    }

    fn plan_entity(
        &self,
        name: &str,
        options: &EntityOptions,
        changes: &mut Changes,
    ) -> Result<(), StartError> {
        let key = name_key(name);
        let now = self.spawner.shared.clock.now();
        let change = match (changes.entities.remove(&key), self.entities.get(&key)) {
            (Some(earlier), _) => Change { options: options.clone(), ..earlier },
            (None, Some(existing)) if *existing.options() == *options => return Ok(()),
            (None, Some(existing)) if let Some(reason) = immutable_change(&existing.options(), options) => {
                return Err(StartError::InvalidOptions { name: name.to_owned(), reason });
            }
            (None, Some(existing)) => Change {
                name: existing.name.clone(),
                id: existing.id,
                options: options.clone(),
                times: EntityTimes { updated_at: now, ..existing.times() },
                existing: Some(existing),
            },
            (None, None) => {
                let id = changes.next_partition.unwrap_or(self.next_partition);
                changes.next_partition = Some(PartitionId(id.0 + 1));
                let times = EntityTimes { created_at: now, updated_at: now };
                Change { name: name.to_owned(), id, options: options.clone(), times, existing: None }
            }
        };
        let Change { name: stored, options: wanted, times, .. } = &change;
        let record = EntityRecord { name: stored.clone(), times: *times, options: wanted.clone() };
        let record =
            record.encode().map_err(|reason| StartError::InvalidOptions { name: name.to_owned(), reason })?;
        changes.batch.put(entity_key(change.id), record);
        changes.entities.insert(key, change);
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
        self.undeleted.iter().for_each(|ended| ended.erase(&mut changes.batch));
        let shard = &self.spawner.shared.shard;
        if let Err(error) = shard.submit(changes.batch).await {
            if is_dead(&error) {
                self.spawner.shared.fatal.raise(error.clone());
            }
            shard.resume(CATALOGUE);
            self.undeleted.iter().flat_map(Ended::partitions).for_each(|partition| shard.resume(partition));
            return Err(error);
        }
        self.undeleted.clear();
        self.next_partition = changes.next_partition.unwrap_or(self.next_partition);
        for (key, Change { name, id, options, times, existing }) in changes.entities {
            match existing {
                Some(entity) => {
                    entity.set_options(options, times);
                    entity.start_if_timed(&self.spawner);
                }
                None => {
                    let partition = Partition::new(QueueId(id.0), options.clone());
                    let entity = Arc::new(Entity::new(name, id, options, times, partition));
                    entity.start_if_timed(&self.spawner);
                    self.entities.insert(key, entity);
                }
            }
        }
        Ok(())
    }
}

/// Why the options of an existing entity can't become these.
fn immutable_change(old: &EntityOptions, new: &EntityOptions) -> Option<String> {
    match (old, new) {
        (EntityOptions::Queue(_), EntityOptions::Queue(_))
        | (EntityOptions::Topic(_), EntityOptions::Topic(_))
            if old.requires_duplicate_detection() != new.requires_duplicate_detection() =>
        {
            Some("requires_duplicate_detection of an existing queue or topic can't be changed".to_owned())
        }
        (EntityOptions::Queue(old), EntityOptions::Queue(new)) => (old.requires_session
            != new.requires_session)
            .then(|| "requires_session of an existing queue can't be changed".to_owned()),
        (EntityOptions::Topic(_), EntityOptions::Topic(_)) => None,
        (EntityOptions::Queue(_), EntityOptions::Topic(_)) => {
            Some("a queue of this name exists, and it can't become a topic".to_owned())
        }
        (EntityOptions::Topic(_), EntityOptions::Queue(_)) => {
            Some("a topic of this name exists, and it can't become a queue".to_owned())
        }
    }
}

/// Refuses what no partition can work with; the configuration's finer limits are the front ends' to check.
fn check_options(options: &EntityOptions) -> Result<(), String> {
    let (lock_duration_ms, max_delivery_count, auto_delete_on_idle_ms) = match options {
        EntityOptions::Queue(queue) => {
            (queue.lock_duration_ms, queue.max_delivery_count, queue.auto_delete_on_idle_ms)
        }
        EntityOptions::Topic(topic) => (1, 1, topic.auto_delete_on_idle_ms),
    };
    let positive = [
        ("lock_duration", lock_duration_ms),
        ("max_delivery_count", u64::from(max_delivery_count)),
        ("default_message_time_to_live", options.default_message_time_to_live_ms().unwrap_or(u64::MAX)),
        ("auto_delete_on_idle", auto_delete_on_idle_ms.unwrap_or(u64::MAX)),
        ("max_message_size", options.max_message_size_bytes()),
        ("max_size", options.max_size_bytes()),
    ];
    match positive.iter().find(|(_, value)| *value == 0) {
        Some((name, _)) => Err(format!("{name} is 0; it must be positive")),
        None => Ok(()),
    }
}
