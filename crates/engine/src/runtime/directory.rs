//! The directory of a namespace: its entities by name and by id. Each entity refers to its host.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use peeklock_storage::PartitionId;
use tokio::task::JoinHandle;

use super::EntityKind;
use super::entity::{Entity, Spawner};
use crate::names::name_key;

/// Entities in the order of their name keys, so that a page of them needs no sorting.
#[derive(Default)]
pub(super) struct Directory(RwLock<Known>);

#[derive(Default)]
struct Known {
    by_name: BTreeMap<Box<str>, Arc<Entity>>,
    by_id: HashMap<PartitionId, Arc<Entity>>,
}

impl Directory {
    pub(super) fn get(&self, key: &str) -> Option<Arc<Entity>> {
        self.known().by_name.get(key).cloned()
    }

    pub(super) fn insert(&self, key: Box<str>, entity: Arc<Entity>) {
        let mut known = self.known_mut();
        known.by_id.insert(entity.id, Arc::clone(&entity));
        if let Some(replaced) = known.by_name.insert(key, entity) {
            known.by_id.remove(&replaced.id);
        }
    }

    /// The entity that owns a partition.
    pub(super) fn by_id(&self, id: PartitionId) -> Option<Arc<Entity>> {
        self.known().by_id.get(&id).cloned()
    }

    /// Removes an entity; another one with the same name stays.
    pub(super) fn remove(&self, entity: &Entity) {
        let mut known = self.known_mut();
        let key = name_key(&entity.name);
        if known.by_id.remove(&entity.id).is_some()
            && known.by_name.get(&key).is_some_and(|known| known.id == entity.id)
        {
            known.by_name.remove(&key);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Entity>> {
        self.known().by_name.values().cloned().collect()
    }

    /// Ends all entities on a host whose shard is lost; returns the tasks of their actors.
    pub(super) fn end_all_of(&self, host: &Arc<Spawner>) -> Vec<JoinHandle<()>> {
        self.all().iter().filter(|entity| entity.lives_on(host)).filter_map(|entity| entity.lose()).collect()
    }

    /// Number of entities.
    pub(super) fn len(&self) -> usize {
        self.known().by_name.len()
    }

    /// Entities of one kind in order: `top` of them after the first `skip`.
    pub(super) fn page(&self, kind: EntityKind, skip: usize, top: usize) -> Vec<Arc<Entity>> {
        let known = self.known();
        let asked = known.by_name.values().filter(|entity| entity.kind == kind);
        asked.skip(skip).take(top).cloned().collect()
    }

    /// The first `top` entities of all kinds whose keys come after `key`; without it, from the first entity.
    pub(super) fn after(&self, key: Option<&str>, top: usize) -> Vec<Arc<Entity>> {
        let known = self.known();
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        known
            .by_name
            .range::<str, _>((start, Bound::Unbounded))
            .take(top)
            .map(|(_, found)| Arc::clone(found))
            .collect()
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
