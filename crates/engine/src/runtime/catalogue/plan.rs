//! Computes the changes of a batch of declarations.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use peeklock_storage::PartitionId;

use super::{Catalogue, CatalogueRequest};
use crate::names::check_entity_name;
use crate::names::name_key;
use crate::runtime::StartError;
use crate::runtime::entity::Entity;
use crate::stored::{EntityRecord, write_entity};
use crate::{EntityOptions, EntityTimes, Intent, Refusal};

/// See the module.
pub(super) struct CatalogueChanges {
    /// Created and changed entities by name key.
    pub(super) entities: BTreeMap<Box<str>, Change>,
    pub(super) next_partition: PartitionId,
    /// Whether a caller waits for the deletion of ended entities.
    pub(super) erases: bool,
}

/// A created or changed entity.
pub(super) struct Change {
    pub(super) name: String,
    pub(super) id: PartitionId,
    pub(super) options: EntityOptions,
    pub(super) times: EntityTimes,
    /// The new record in its stored form.
    pub(super) record: Bytes,
    pub(super) existing: Option<Arc<Entity>>,
}

/// One entity of a declaration.
struct DeclaredEntity {
    key: Box<str>,
    name: String,
    options: EntityOptions,
}

impl CatalogueChanges {
    pub(super) const fn new(next_partition: PartitionId) -> Self {
        Self { entities: BTreeMap::new(), next_partition, erases: false }
    }
}

impl Catalogue {
    /// Adds one request completely, or not at all if it is invalid.
    pub(super) fn plan(
        &self,
        request: CatalogueRequest,
        changes: &mut CatalogueChanges,
    ) -> Result<PartitionId, StartError> {
        match request {
            CatalogueRequest::Declare { intent, entities } => self.plan_entities(intent, entities, changes),
            CatalogueRequest::Reserve(_) if self.is_damaged => {
                Err(StartError::Damaged { name: String::new() })
            }
            CatalogueRequest::Reserve(count) => {
                let first = changes.next_partition;
                changes.next_partition.0 = first.0.saturating_add(count);
                Ok(first)
            }
            CatalogueRequest::Erase { id, key } => {
                let is_meant = |other: PartitionId, name: &str| id.map_or(*name == *key, |id| id == other);
                let left = self.undeleted.iter().find(|(name, ended)| is_meant(ended.id, name));
                changes.erases |= left.is_some();
                match (left, id) {
                    (Some((_, ended)), _) => Ok(ended.id),
                    (None, Some(id)) => Ok(id),
                    (None, None) => Err(StartError::NotFound { name: key.into() }),
                }
            }
        }
    }

    fn plan_entities(
        &self,
        intent: Intent,
        entities: Vec<(String, EntityOptions)>,
        changes: &mut CatalogueChanges,
    ) -> Result<PartitionId, StartError> {
        for (name, options) in &entities {
            check_entity_name(name)
                .map_err(|reason| StartError::InvalidName { name: name.clone(), reason })?;
            options.check().map_err(|reason| invalid(name, reason))?;
        }
        let wanted = distinct(intent, entities);
        for one in &wanted {
            self.check(intent, one, &wanted, changes)?;
        }
        let mut next_partition = changes.next_partition;
        let mut planned = Vec::with_capacity(wanted.len());
        for one in wanted {
            planned.extend(self.plan_entity(intent, one, changes, &mut next_partition)?);
        }
        self.check_count(&planned, changes)?;
        changes.next_partition = next_partition;
        changes.entities.extend(planned);
        Ok(next_partition)
    }

    /// Refuses to create more entities than allowed.
    fn check_count(
        &self,
        planned: &[(Box<str>, Change)],
        changes: &CatalogueChanges,
    ) -> Result<(), StartError> {
        let mut new = planned
            .iter()
            .filter(|(key, change)| change.existing.is_none() && !changes.entities.contains_key(key));
        let created = changes.entities.values().filter(|change| change.existing.is_none()).count();
        let room = self.entities_max.saturating_sub(self.directory.len().saturating_add(created));
        match new.nth(room) {
            None => Ok(()),
            Some((_, Change { name, .. })) => Err(StartError::Refused {
                name: name.clone(),
                refusal: Refusal::TooManyEntities(self.entities_max),
            }),
        }
    }

    /// Refuses a declaration that conflicts with existing entities or earlier changes. Forwarding targets may be declared
    /// together with it.
    fn check(
        &self,
        intent: Intent,
        one: &DeclaredEntity,
        together: &[DeclaredEntity],
        changes: &CatalogueChanges,
    ) -> Result<(), StartError> {
        let DeclaredEntity { key, name, options } = one;
        let known = self.options(key, changes);
        match (&known, intent) {
            (Some(_), Intent::Create) => return Err(StartError::Exists { name: name.clone() }),
            (None, Intent::Update) => return Err(StartError::NotFound { name: name.clone() }),
            (None, _) if self.is_damaged => return Err(StartError::Damaged { name: name.clone() }),
            (Some(_), _) if self.directory.get(key).is_some_and(|entity| entity.is_damaged()) => {
                return Err(StartError::Damaged { name: name.clone() });
            }
            _ => {}
        }
        if let Some(reason) = known.as_ref().and_then(|known| known.immutable_change(options)) {
            return Err(invalid(name, reason));
        }
        let is_target = |target: &str| {
            let is_declared = || together.iter().any(|other| *other.key == *target && other.key != *key);
            self.options(target, changes).is_some() || is_declared()
        };
        // A declaration in the configuration is refused if its target was deleted, even if it was accepted before.
        let current = known.as_deref().filter(|_| intent == Intent::Update);
        let current = current.and_then(EntityOptions::forwarding);
        match options.forwarding().and_then(|forwarding| forwarding.unknown_target(current, is_target)) {
            Some(reason) => Err(invalid(name, reason)),
            None => Ok(()),
        }
    }

    /// The options of an entity after the changes so far.
    fn options(&self, key: &str, changes: &CatalogueChanges) -> Option<Arc<EntityOptions>> {
        match changes.entities.get(key) {
            Some(change) => Some(Arc::new(change.options.clone())),
            None => Some(self.directory.get(key)?.options()),
        }
    }

    /// The change made by a declaration; `None` if it changes nothing.
    fn plan_entity(
        &self,
        intent: Intent,
        DeclaredEntity { key, name, options }: DeclaredEntity,
        changes: &CatalogueChanges,
        next_partition: &mut PartitionId,
    ) -> Result<Option<(Box<str>, Change)>, StartError> {
        let now = self.spawner.shared.clock.now();
        let options = match self.options(&key, changes) {
            Some(known) => options.with_temporary(known.is_temporary()),
            None => options,
        };
        let (name, id, created_at, existing) = match (changes.entities.get(&key), self.directory.get(&key)) {
            (Some(earlier), _) => {
                let Change { name, id, times, existing, .. } = earlier;
                (name.clone(), *id, times.created_at, existing.clone())
            }
            (None, Some(existing)) if intent == Intent::Declare && *existing.options() == options => {
                return Ok(None);
            }
            (None, Some(existing)) => {
                (existing.name.clone(), existing.id, existing.times().created_at, Some(existing))
            }
            (None, None) => {
                let id = *next_partition;
                next_partition.0 = id.0.saturating_add(1);
                (name, id, now, None)
            }
        };
        let times = EntityTimes { created_at, updated_at: now };
        let record = EntityRecord { name: name.clone(), times, options: options.clone() };
        Ok(Some((key, Change { name, id, options, times, record: write_entity(&record), existing })))
    }
}

/// The last declaration of each name, in the order of first occurrence.
fn distinct(intent: Intent, entities: Vec<(String, EntityOptions)>) -> Vec<DeclaredEntity> {
    let mut positions: HashMap<Box<str>, usize> = HashMap::with_capacity(entities.len());
    let mut distinct: Vec<DeclaredEntity> = Vec::with_capacity(entities.len());
    for (name, options) in entities {
        let options = if intent == Intent::Update { options } else { options.for_creation() };
        let key = name_key(&name);
        let position = *positions.entry(key.clone()).or_insert(distinct.len());
        match distinct.get_mut(position) {
            Some(earlier) => earlier.options = options,
            None => distinct.push(DeclaredEntity { key, name, options }),
        }
    }
    distinct
}

fn invalid(name: &str, reason: String) -> StartError {
    StartError::InvalidOptions { name: name.to_owned(), reason }
}
