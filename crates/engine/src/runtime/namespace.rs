//! All entities of a broker: a directory, and the hosts of the entities.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peeklock_budget::Budget;
use peeklock_storage::{Key, Lease, Place, Space};
use tokio::sync::watch;

use super::body_cache::CacheBudget;
use super::catalogue::CatalogueRequest;
use super::changes::ChangeCounter;
use super::clients::Subscribers;
use super::damage::{Damage, Damages};
use super::directory::Directory;
use super::entity::EntityRef;
use super::forwarder::{ReadRuleProperties, Routes};
use super::host::{LostShard, ShardHost};
use super::spans::Spans;
use super::{Clock, PartitionHandle, StartError, Tenure};
use crate::metrics::SeriesPool;
use crate::names::name_key;
use crate::partition::Counts;
use crate::{EntityOptions, Intent, QueueId, ReceiverId, RuleLimits};

/// Options of a namespace.
#[derive(Debug, Clone, Default)]
pub struct NamespaceOptions {
    /// Memory for recently written bodies over all partitions, in bytes.
    pub body_cache_bytes: usize,
    /// Seed of the random numbers; `None` draws one from the operating system. For tests only, because lock tokens repeat with
    /// the seed: a test that restarts a namespace must use another seed for each start.
    pub seed: Option<u64>,
    /// Reads the properties that rules evaluate out of an encoded message, for messages forwarded to a topic; without it such
    /// messages have no properties for rules.
    pub read_rule_properties: Option<ReadRuleProperties>,
    /// Limits on subscriptions and rules of topics.
    pub rule_limits: RuleLimits,
    /// Maximum number of queues and topics; `None` for no limit.
    pub entities_max: Option<usize>,
    /// The process's budget for memory that peers can claim; unlimited by default.
    pub budget: Budget,
    /// Number of queues, topics and subscriptions with metric series of their own; all others are summed up.
    pub series_max: usize,
    /// Tracing, if enabled.
    pub spans: Option<Arc<dyn Spans>>,
    /// Says whether the shard's lease allows output; always allowed by default.
    pub tenure: Option<Arc<dyn Tenure>>,
    /// Called once the state is restored, before any timer fires: the restored state may fill the memory.
    pub when_restored: Option<fn(&Budget)>,
}

/// All entities; cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    pub(super) inner: Arc<Inner>,
}

/// The directory of entities and their hosts: one host at present.
pub(super) struct Inner {
    pub(super) directory: Arc<Directory>,
    pub(super) host: ShardHost,
    pub(super) common: Common,
    next_receiver: AtomicU64,
    /// The consumers of clients' subscriptions.
    pub(super) subscribers: Subscribers,
    /// Serializes catch-ups, because a forwarder reports its work to only one of them.
    pub(super) catching_up: tokio::sync::Mutex<()>,
}

/// State shared by all hosts of a namespace.
pub(super) struct Common {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cache: Arc<CacheBudget>,
    pub(super) changes: ChangeCounter,
    pub(super) damages: Damages,
    pub(super) series: Arc<SeriesPool>,
    pub(super) routes: Routes,
    pub(super) rule_limits: RuleLimits,
    pub(super) spans: Option<Arc<dyn Spans>>,
    pub(super) tenure: Option<Arc<dyn Tenure>>,
}

impl Namespace {
    /// The process's budget for memory that peers can claim.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        self.inner.common.cache.process()
    }

    /// Restores every entity from the leased shard and starts the actors of those with pending timers; other actors start at
    /// the first lookup. Must be called on the tokio runtime that is to run the actors, with timers enabled.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(
        lease: Lease,
        clock: Arc<dyn Clock>,
        options: NamespaceOptions,
    ) -> Result<Self, StartError> {
        let common = Common {
            clock,
            cache: CacheBudget::new(options.body_cache_bytes, options.budget.clone()),
            changes: ChangeCounter::new(),
            damages: Damages::default(),
            series: SeriesPool::new(options.series_max),
            routes: Routes::new(options.read_rule_properties),
            rule_limits: options.rule_limits,
            spans: options.spans.clone(),
            tenure: options.tenure.clone(),
        };
        let directory = Arc::new(Directory::default());
        let host = ShardHost::start(lease, &common, &directory, &options).await?;
        if let Some(look) = options.when_restored {
            look(&options.budget);
        }
        let inner = Inner {
            directory,
            host,
            common,
            next_receiver: AtomicU64::new(1),
            subscribers: Subscribers::default(),
            catching_up: tokio::sync::Mutex::default(),
        };
        let namespace = Self { inner: Arc::new(inner) };
        namespace.inner.common.routes.open(&namespace.inner);
        namespace.remove_left_over().await;
        for entity in namespace.inner.directory.all() {
            entity.start_if_timed();
        }
        Ok(namespace)
    }

    /// Creates a queue or topic, or updates the options of an existing one, durably. A declaration that changes nothing writes
    /// nothing.
    ///
    /// # Errors
    /// The store's error, or an invalid name or option; nothing changed then.
    pub async fn declare(&self, name: &str, options: impl Into<EntityOptions>) -> Result<(), StartError> {
        self.declare_all([(name.to_owned(), options.into())]).await
    }

    /// [`Self::declare`] for many entities in one write, all or none. If a name is declared twice, the later declaration
    /// counts.
    ///
    /// # Errors
    /// The store's error, or an invalid name or option; nothing changed then.
    pub async fn declare_all<O: Into<EntityOptions>>(
        &self,
        entities: impl IntoIterator<Item = (String, O)>,
    ) -> Result<(), StartError> {
        let entities = entities.into_iter().map(|(name, options)| (name, options.into())).collect();
        self.declare_as(Intent::Declare, entities).await
    }

    /// Sends declarations to the catalogue. If an entity ended by itself before it applied its new options, the declaration is
    /// repeated: the catalogue knows of the end by then.
    pub(super) async fn declare_as(
        &self,
        intent: Intent,
        entities: Vec<(String, EntityOptions)>,
    ) -> Result<(), StartError> {
        loop {
            self.inner
                .host
                .ask_catalogue(CatalogueRequest::Declare { intent, entities: entities.clone() })
                .await?;
            if intent == Intent::Create || self.confirm(&entities).await {
                return Ok(());
            }
        }
    }

    /// Whether all of them exist and accept commands.
    async fn confirm(&self, entities: &[(String, EntityOptions)]) -> bool {
        let mut asked = Vec::new();
        for (name, _) in entities {
            let Some(entity) = self.inner.directory.get(&name_key(name)) else { return false };
            asked.extend(entity.confirm());
        }
        for answered in asked {
            if answered.await != Ok(true) {
                return false;
            }
        }
        true
    }

    /// Reserves ids for `count` subscriptions, never used for anything else; returns the first.
    pub(super) async fn reserve(&self, count: u64) -> Result<QueueId, StartError> {
        self.inner.host.ask_catalogue(CatalogueRequest::Reserve(count)).await.map(|first| QueueId(first.0))
    }

    /// Finds a queue or topic; names match case-insensitively. Its actor starts if it is not running.
    #[must_use]
    pub fn entity(&self, name: &str) -> Option<EntityRef> {
        let entity = self.inner.directory.get(&name_key(name))?;
        let (partition, options) = (entity.handle(), entity.options());
        Some(EntityRef { partition, queue: QueueId(entity.id.0), options })
    }

    /// The counts of an entity as of its last turn; they may be ahead of what is durable.
    #[must_use]
    pub fn counts(&self, name: &str) -> Option<Counts> {
        Some(self.inner.directory.get(&name_key(name))?.counts())
    }

    /// The present options of a queue or topic; unlike [`Self::entity`] this starts no actor.
    #[must_use]
    pub fn options(&self, name: &str) -> Option<Arc<EntityOptions>> {
        Some(self.inner.directory.get(&name_key(name))?.options())
    }

    /// Names of all queues and topics, sorted, as they were first given.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.inner.directory.all().iter().map(|entity| entity.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// A new id for a receiver or watcher of this partition.
    #[must_use]
    pub fn next_receiver_id(&self, partition: &PartitionHandle) -> ReceiverId {
        partition.receiver_id(self.inner.next_receiver.fetch_add(1, Ordering::Relaxed))
    }

    /// A counter that changes whenever an entity or subscription is created or deleted, or its options or rules change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.common.changes.subscribe()
    }

    /// Damage found in the store since the start, in order of entity and number: at most the first thousand entries.
    #[must_use]
    pub fn damage(&self) -> Vec<Damage> {
        self.inner.common.damages.list()
    }

    /// Records damage found and logged by another reader of the store; `key` is the damaged value, if known.
    pub fn note_damage(&self, key: Option<Key>, place: Place, reason: String) {
        let entity = key.map_or_else(String::new, |key| match self.inner.directory.by_id(key.partition) {
            Some(entity) => entity.name.clone(),
            None => format!("partition {}", key.partition.0),
        });
        let is_message = |key: &Key| matches!(key.space, Space::Head | Space::Body);
        let sequence_number = key.filter(is_message).map(|key| key.number);
        let damage = Damage { entity, sequence_number, place: Some(place), reason };
        self.inner.common.damages.add(damage);
    }

    /// Number of messages at present out of delivery because their stored data is damaged, over all queues and subscriptions.
    #[must_use]
    pub fn quarantined_count(&self) -> u64 {
        self.inner.directory.all().iter().map(|entity| entity.quarantined()).sum()
    }

    /// Whether the entity can't be declared because its stored state is damaged, or because it may be a stored entity whose
    /// name can't be read.
    #[must_use]
    pub fn is_damaged(&self, name: &str) -> bool {
        let entity = self.inner.directory.get(&name_key(name));
        entity.map_or(self.inner.host.is_catalogue_damaged, |entity| entity.is_damaged())
    }

    /// Number of damages found since the start, including those omitted by [`Self::damage`].
    #[must_use]
    pub fn damage_count(&self) -> u64 {
        self.inner.common.damages.count()
    }

    /// The clock, for front ends that create or compare timestamps.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.common.clock)
    }

    /// Resolves when a shard is lost: its lease is lost, a batch is in doubt, or an actor panicked. From then on its entities
    /// refuse every request with [`crate::Refusal::Unavailable`]; everything else continues. Never resolves otherwise.
    pub async fn shard_lost(&self) -> LostShard {
        self.inner.host.when_lost().await
    }

    /// The lost shard, if one is lost.
    #[must_use]
    pub fn lost_shard(&self) -> Option<LostShard> {
        self.inner.host.lost()
    }

    /// Stops all actors once their work under way is durable and answered. Later requests are refused with
    /// [`crate::Refusal::Unavailable`].
    pub async fn shutdown(&self) {
        let tasks: Vec<_> = self.inner.directory.all().iter().filter_map(|entity| entity.stop()).collect();
        for task in tasks {
            // An actor that panicked has failed its host already.
            let _ = task.await;
        }
        self.inner.host.stop_watching();
    }
}
