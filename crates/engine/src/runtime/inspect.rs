//! Decodes the subject of stored keys and values, for offline tools that examine a store.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use peeklock_storage::{Error, Key, PartitionId, Space};

use crate::layout::{self, CATALOGUE, CatalogueSubject, HeadSubject, MetaSubject};
use crate::stored;
use crate::{EntityOptions, QueueId, SequenceNumber, Timestamp};

/// Reads the value of a key: [`Error::Corrupt`] if it is damaged, `None` if nothing is stored.
pub type ReadValue<'a> = dyn Fn(Key) -> Option<Result<Bytes, Error>> + 'a;

/// The owner of a storage partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    name: String,
    /// The partition that stores the bodies: its own, or that of its topic.
    contents: PartitionId,
    /// Whether it is a topic.
    is_topic: bool,
}

/// The names of the stored entities and subscriptions.
#[derive(Debug, Clone, Default)]
pub struct StoredNames(BTreeMap<PartitionId, Owner>);

impl StoredNames {
    /// Reads the names of all entities and subscriptions whose records can be read. `meta` are the keys of [`Space::Meta`].
    #[must_use]
    pub fn read(meta: &[Key], value: &ReadValue<'_>) -> Self {
        let mut names = Self::default();
        let readable = |key: &Key| value(*key).and_then(Result::ok);
        for key in meta.iter().filter(|key| layout::is_entity(**key)) {
            if let Some(record) = readable(key).and_then(|value| stored::read_entity(&value).ok()) {
                let contents = PartitionId(key.number);
                let is_topic = matches!(record.options, EntityOptions::Topic(_));
                names.0.insert(contents, Owner { name: record.name, contents, is_topic });
            }
        }
        for key in meta.iter().filter(|key| key.partition != CATALOGUE) {
            let Some(id) = MetaSubject::subscription(key.number) else { continue };
            let Some(topic) = names.0.get(&key.partition).map(|topic| topic.name.clone()) else { continue };
            if let Some(subscription) = readable(key).and_then(|value| subscription_name(id, &value)) {
                let name = format!("{topic}/Subscriptions/{subscription}");
                let owner = Owner { name, contents: key.partition, is_topic: false };
                names.0.insert(PartitionId(id.0), owner);
            }
        }
        names
    }

    /// The entity or subscription that owns a partition, if known.
    #[must_use]
    pub fn name(&self, partition: PartitionId) -> Option<&str> {
        self.0.get(&partition).map(|owner| owner.name.as_str())
    }

    /// The subject of a key: the entity and the message, if known, and a description.
    #[must_use]
    pub fn describe(&self, key: Key) -> Subject {
        if key.partition == CATALOGUE {
            let entity = self.name(PartitionId(key.number)).map(str::to_owned);
            let what = match CatalogueSubject::of(key.number) {
                CatalogueSubject::NextPartition => "the count of entities",
                CatalogueSubject::SetBack => "the last correction of the clock",
                CatalogueSubject::Entity(_) => "an entity's name and options",
            };
            return Subject { entity, sequence_number: None, what };
        }
        let entity = self.name(key.partition).map(str::to_owned);
        let (sequence_number, what) = match (key.space, HeadSubject::of(key.number)) {
            (Space::Meta, _) if MetaSubject::subscription(key.number).is_some() => {
                (None, "a subscription's record")
            }
            (Space::Meta, _) => (None, "an entity's counters"),
            (Space::Body, _) => (Some(key.number), "a message's content"),
            (Space::Head, HeadSubject::Message(number)) => (Some(number.0), "the attributes of a message"),
            (Space::Head, HeadSubject::RememberedId(_)) => {
                (None, "a message id kept for duplicate detection")
            }
            (Space::Head, HeadSubject::SessionState(_)) => (None, "a session's state"),
        };
        Subject { entity, sequence_number, what }
    }

    /// Whether the record at `head` keeps a topic's body to which no message refers.
    fn is_kept_body(&self, head: Key, value: &[u8]) -> bool {
        let is_topic = self.0.get(&head.partition).is_some_and(|owner| owner.is_topic);
        is_topic && matches!(stored::read_tombstone(value), Ok(Some(_)))
    }

    /// The key of the body of the message stored at `head`; `None` for other records and those that can't be decoded.
    fn content_of(&self, head: Key, value: &[u8]) -> Option<Key> {
        let HeadSubject::Message(number) = HeadSubject::of(head.number) else { return None };
        let contents = self.0.get(&head.partition)?.contents;
        let body = stored::body_of(number, value).ok()?;
        Some(layout::body_key(contents, body))
    }
}

/// The name of a stored subscription.
fn subscription_name(id: QueueId, value: &[u8]) -> Option<String> {
    stored::read_subscription(id, value).ok().map(|subscription| subscription.name.into())
}

/// One encoded record.
fn written(append: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut record = Vec::new();
    append(&mut record);
    record.into()
}

/// See [`StoredNames::describe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The entity or subscription, if its name can be read.
    pub entity: Option<String>,
    /// The message's sequence number, if the key belongs to a message.
    pub sequence_number: Option<u64>,
    /// A description.
    pub what: &'static str,
}

/// The usable parts of a damaged store.
#[derive(Debug, Default)]
pub struct Placement {
    /// Unusable keys: of messages that can't be delivered, or of lost entities.
    pub dropped: HashSet<Key>,
    /// Values that replace lost ones and are computed from others.
    pub repairs: Vec<(Key, Bytes)>,
    /// Lost messages by partition and number, with the reason.
    pub lost: Vec<(PartitionId, SequenceNumber, String)>,
    /// Readable bodies that no message refers to.
    pub unplaced: Vec<Key>,
    /// Lost entities and subscriptions, by partition.
    pub lost_entities: BTreeSet<PartitionId>,
}

/// The live keys of a store, by space.
#[derive(Debug, Clone)]
pub struct StoredKeys {
    /// Keys of entities.
    pub meta: Vec<Key>,
    /// Keys of messages.
    pub head: Vec<Key>,
    /// Keys of bodies.
    pub body: Vec<Key>,
}

impl Placement {
    /// Determines which keys can be used. `numbers_end` is one past the highest number ever stored in a partition's space;
    /// `now` replaces lost times of last use.
    #[must_use]
    pub fn of(
        keys: &StoredKeys,
        names: &StoredNames,
        value: &ReadValue<'_>,
        numbers_end: &dyn Fn(Space, PartitionId) -> u64,
        now: Timestamp,
    ) -> Self {
        let mut placement = Self::default();
        let all = || keys.meta.iter().chain(&keys.head).chain(&keys.body);
        for key in all().filter(|key| key.partition != CATALOGUE) {
            if names.name(key.partition).is_none() {
                placement.lost_entities.insert(key.partition);
            }
        }
        placement.repair(keys, names, value, numbers_end, now);
        let mut referenced = HashSet::new();
        for head in &keys.head {
            if value(*head).is_some_and(|read| read.is_ok_and(|record| names.is_kept_body(*head, &record))) {
                placement.dropped.insert(*head);
                continue;
            }
            match placement.place(*head, names, value) {
                Ok(content) => referenced.extend(content),
                Err(reason) => {
                    placement.dropped.insert(*head);
                    if let HeadSubject::Message(number) = HeadSubject::of(head.number) {
                        placement.lost.push((head.partition, number, reason));
                    }
                }
            }
        }
        for body in keys.body.iter().filter(|body| !referenced.contains(*body)) {
            placement.dropped.insert(*body);
            if value(*body).is_some_and(|value| value.is_ok()) {
                placement.unplaced.push(*body);
            }
        }
        placement
    }

    /// The body of a message that can be delivered, `None` for other records, or the reason why the message is lost.
    fn place(&self, head: Key, names: &StoredNames, value: &ReadValue<'_>) -> Result<Option<Key>, String> {
        if self.lost_entities.contains(&head.partition) {
            return Err("its entity is lost".to_owned());
        }
        let Some(read) = value(head) else { return Err("it is missing".to_owned()) };
        let record = read.map_err(|error| error.to_string())?;
        if !matches!(HeadSubject::of(head.number), HeadSubject::Message(_)) {
            return Ok(None);
        }
        let content = names.content_of(head, &record).ok_or("its stored data can't be parsed")?;
        match value(content) {
            Some(Ok(_)) => Ok(Some(content)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("its content is missing".to_owned()),
        }
    }

    /// Replaces lost counters by values computed from the keys.
    fn repair(
        &mut self,
        keys: &StoredKeys,
        names: &StoredNames,
        value: &ReadValue<'_>,
        numbers_end: &dyn Fn(Space, PartitionId) -> u64,
        now: Timestamp,
    ) {
        let is_bad = |key: &Key| value(*key).is_some_and(|value| value.is_err());
        for key in keys.meta.iter().filter(|key| is_bad(key)) {
            self.dropped.insert(*key);
            if key.partition != CATALOGUE && MetaSubject::of(key.number) == MetaSubject::LastUse {
                self.repairs.push((*key, written(|record| stored::append_last_use(now, record))));
            }
        }
        let of_partitions = |space: &[Key]| space.iter().map(|key| key.partition).collect::<BTreeSet<_>>();
        let partitions = of_partitions(&keys.head);
        for partition in partitions.into_iter().filter(|partition| names.name(*partition).is_some()) {
            let key = layout::counters_key(partition);
            let is_sound = value(key).is_some_and(|value| value.is_ok());
            if !is_sound {
                let end = numbers_end(Space::Body, partition).max(1);
                let heads = keys.head.iter().filter(|head| head.partition == partition);
                let last = heads.filter_map(|head| match HeadSubject::of(head.number) {
                    HeadSubject::Message(number) => Some(number.0.saturating_add(1)),
                    _ => None,
                });
                let next = SequenceNumber(last.max().unwrap_or(1).max(end));
                self.repairs.push((key, written(|record| stored::append_counters(next, record))));
            }
        }
        let counter = layout::next_partition_key();
        let is_sound = value(counter).is_some_and(|value| value.is_ok());
        let last = keys.meta.iter().chain(&keys.head).chain(&keys.body).map(|key| {
            let listed = if key.partition == CATALOGUE { key.number } else { 0 };
            key.partition.0.max(listed).max(MetaSubject::subscription(key.number).map_or(0, |QueueId(id)| id))
        });
        if !is_sound && !keys.meta.is_empty() {
            let next = PartitionId(last.max().unwrap_or(0).saturating_add(1));
            self.repairs.push((counter, stored::write_next_partition(next)));
        }
    }
}
