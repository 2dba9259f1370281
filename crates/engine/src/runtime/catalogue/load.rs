//! Restores the catalogue and its partitions. Damage affects only the entity that it concerns.

use std::sync::Arc;

use peeklock_storage::{DamagedEntry, Entry, Error, Page, PartitionId, Space};

use crate::Timestamp;
use crate::layout::{CATALOGUE, CatalogueSubject};
use crate::names::{check_entity_name, name_key};
use crate::partition::Credible;
use crate::runtime::SetBack;
use crate::runtime::StartError;
use crate::runtime::actor::Shared;
use crate::runtime::damage::Unreadable;
use crate::runtime::directory::Directory;
use crate::runtime::entity::{Entity, Spawner};
use crate::runtime::restore::{FirstPages, PARTITIONS_AT_A_TIME, restore, scan_over_damage};
use crate::runtime::retry_backoff::{RetryBackoff, unread_now};
use crate::stored::{EntityRecord, read_entity, read_next_partition, read_set_back};

/// The catalogue's data other than the entities.
pub(in crate::runtime) struct Loaded {
    /// The next free partition id.
    pub(in crate::runtime) next_partition: PartitionId,
    /// Whether the name of an entity, or the next free partition, can't be read.
    pub(in crate::runtime) is_damaged: bool,
    /// The last correction that set time back.
    pub(in crate::runtime) set_back: SetBack,
    /// The latest point in time found in the store.
    pub(in crate::runtime) latest: Timestamp,
}

/// Which timestamps in the store are credible.
#[derive(Debug, Clone, Copy)]
struct Reading {
    credible: Credible,
    /// The clock's set-back count.
    set_backs: u64,
}

/// Reads all entities of a shard into the directory.
pub(in crate::runtime) async fn load(
    spawner: &Arc<Spawner>,
    directory: &Directory,
) -> Result<Loaded, StartError> {
    let (mut loaded, found) = read_catalogue(spawner, directory).await?;
    let shared = &spawner.shared;
    let (now, set_backs) = shared.clock.reading();
    let credible = match shared.clock.returns_to_the_present() {
        true => Credible::until(now),
        false => loaded.set_back.credible(now),
    };
    let reading = Reading { credible, set_backs: set_backs.count };
    for some in found.chunks(PARTITIONS_AT_A_TIME) {
        let requested: Vec<_> = some.iter().map(|(id, _)| FirstPages::ask(&*shared.shard, *id)).collect();
        for ((id, record), pages) in some.iter().zip(requested) {
            let (entity, latest) = restore_entity(spawner, *id, record, reading, pages).await?;
            loaded.latest = loaded.latest.max(latest);
            directory.insert(name_key(&record.name), Arc::new(entity));
        }
    }
    Ok(loaded)
}

/// Reads the catalogue; returns its readable entities beside its other data. Damaged records are recorded.
async fn read_catalogue(
    spawner: &Arc<Spawner>,
    directory: &Directory,
) -> Result<(Loaded, Vec<(PartitionId, EntityRecord)>), StartError> {
    let Page { entries, damaged, .. } = catalogue_page(&spawner.shared).await?;
    let mut loaded = Loaded {
        next_partition: PartitionId(CATALOGUE.0 + 1),
        is_damaged: false,
        set_back: SetBack::default(),
        latest: Timestamp::default(),
    };
    let mut found = Vec::with_capacity(entries.len());
    for Entry { number, value } in entries {
        let read = match CatalogueSubject::of(number) {
            CatalogueSubject::NextPartition => {
                read_next_partition(&value).map(|next| loaded.next_partition = next)
            }
            CatalogueSubject::SetBack => read_set_back(&value).map(|set_back| loaded.set_back = set_back),
            CatalogueSubject::Entity(id) => read_entity(&value).map(|record| found.push((id, record))),
        };
        if let Err(reason) = read {
            loaded.is_damaged = true;
            set_aside(spawner, directory, number, None, Unreadable::new(reason));
        }
    }
    for DamagedEntry { number, unverified, error } in damaged {
        loaded.is_damaged = true;
        let guess = read_entity(&unverified).ok();
        let guess = guess.filter(|_| matches!(CatalogueSubject::of(number), CatalogueSubject::Entity(_)));
        set_aside(spawner, directory, number, guess, error.into());
    }
    Ok((loaded, found))
}

/// Reads the whole catalogue as one page.
async fn catalogue_page(shared: &Shared) -> Result<Page, StartError> {
    let shard = &*shared.shard;
    let mut backoff = RetryBackoff::default();
    loop {
        let read = async {
            let first = shard.scan(Space::Meta, CATALOGUE, 0).await?;
            scan_over_damage(shard, Space::Meta, CATALOGUE, first).await
        };
        let error = match read.await {
            Ok(page) => match unread_now(&page) {
                Err(error) if backoff.allows_for(&error) => error,
                _ => return Ok(page),
            },
            Err(StartError::Storage(error)) if backoff.allows_for(&error) => error,
            Err(error) => return Err(error),
        };
        pause(shared, &error, &mut backoff).await;
    }
}

/// Waits before another attempt to read data that the device could not return.
async fn pause(shared: &Shared, error: &Error, backoff: &mut RetryBackoff) {
    if backoff.is_fresh() {
        tracing::warn!(%error, "stored data can't be read; trying again after a pause");
    }
    let until = shared.clock.now().plus_ms(backoff.next_pause_ms());
    shared.clock.sleep_until(until).await;
}

/// Restores an entity and the latest timestamp in its state; a damaged entity refuses every command. An error means that
/// the store is lost.
async fn restore_entity(
    spawner: &Arc<Spawner>,
    id: PartitionId,
    record: &EntityRecord,
    reading: Reading,
    pages: FirstPages,
) -> Result<(Entity, Timestamp), StartError> {
    let shared = &spawner.shared;
    let EntityRecord { name, options, times } = record.clone();
    let options = Arc::new(options);
    let Reading { credible, set_backs } = reading;
    let (mut pages, mut backoff) = (pages, RetryBackoff::default());
    let restored = loop {
        let subject = (id, name.as_str());
        let (shard, damages) = (&*shared.shard, &shared.damages);
        let restored = restore(shard, subject, Arc::clone(&options), credible, pages, damages, backoff).await;
        match restored {
            Err(StartError::Storage(error)) if backoff.allows_for(&error) => {
                pause(shared, &error, &mut backoff).await;
                pages = FirstPages::ask(shard, id);
            }
            restored => break restored,
        }
    };
    let why = match restored {
        Ok(partition) => {
            let latest = partition.latest_restored();
            let partition = partition.with_rule_limits(shared.rule_limits);
            return Ok((Entity::new(spawner, (name, id), options, times, partition, set_backs), latest));
        }
        Err(StartError::Storage(error)) if error.is_loss() => return Err(error.into()),
        Err(StartError::Storage(error)) => Unreadable::from(error),
        Err(other) => Unreadable::new(other.to_string()),
    };
    shared.damages.note(why.about("the stored data of the entity").damage(name.clone(), None));
    Ok((Entity::damaged(spawner, (name, id), options, times), Timestamp::default()))
}

/// Records damage to a catalogue record. If its bytes still look like an entity, that entity is entered as damaged.
fn set_aside(
    spawner: &Arc<Spawner>,
    directory: &Directory,
    number: u64,
    guess: Option<EntityRecord>,
    why: Unreadable,
) {
    let guess = guess.filter(|guess| check_entity_name(&guess.name).is_ok());
    let what = match CatalogueSubject::of(number) {
        CatalogueSubject::NextPartition => "the count of entities".to_owned(),
        CatalogueSubject::SetBack => "the last correction of the clock".to_owned(),
        CatalogueSubject::Entity(_) => format!("the name and the options of entity {number}"),
    };
    let name = guess.as_ref().map_or_else(|| format!("entity {number}"), |guess| guess.name.clone());
    spawner.shared.damages.note(why.about(&what).damage(name, None));
    if let Some(EntityRecord { name, options, times }) = guess
        && directory.get(&name_key(&name)).is_none()
    {
        let options = Arc::new(options);
        let entity = Entity::damaged(spawner, (name.clone(), PartitionId(number)), options, times);
        directory.insert(name_key(&name), Arc::new(entity));
    }
}
