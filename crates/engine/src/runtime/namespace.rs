//! All entities of a broker: a directory of them and the hosts that they live on.

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

/// What a namespace needs beside its shard.
#[derive(Debug, Clone, Default)]
pub struct NamespaceOptions {
    /// Memory for recently written contents, over all partitions, in bytes.
    pub body_cache_bytes: usize,
    /// Seed of the random numbers; `None` draws one from the operating system. Lock tokens repeat with the seed, so
    /// it is for tests, and one that restarts a namespace gives each start another.
    pub seed: Option<u64>,
    /// Reads out of an encoded message what rules see of it, for messages forwarded to a topic; without it rules see
    /// nothing of those.
    pub read_rule_properties: Option<ReadRuleProperties>,
    /// How much topics may have of subscriptions and rules.
    pub rule_limits: RuleLimits,
    /// Queues and topics, beyond which none is created; `None` for no limit.
    pub entities_max: Option<usize>,
    /// The memory of the process that peers can make it hold; without limit by default.
    pub budget: Budget,
    /// Queues, topics and subscriptions whose metrics have series of their own; all others are summed up.
    pub series_max: usize,
    /// Who takes part in traces, if anybody does.
    pub spans: Option<Arc<dyn Spans>>,
    /// Whether anything may be handed out; always, by default.
    pub tenure: Option<Arc<dyn Tenure>>,
    /// Called once everything is restored, before anything happens to it: what was restored may be all that memory holds.
    pub when_restored: Option<fn(&Budget)>,
}

/// All entities; cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    pub(super) inner: Arc<Inner>,
}

/// A directory of entities, and the hosts that they live on: one at present.
pub(super) struct Inner {
    pub(super) directory: Arc<Directory>,
    pub(super) host: ShardHost,
    pub(super) common: Common,
    next_receiver: AtomicU64,
    /// Who consumes from subscriptions of clients.
    pub(super) subscribers: Subscribers,
    /// One at a time catches up: forwarders tell a single one that they were at work.
    pub(super) catching_up: tokio::sync::Mutex<()>,
}

/// What all hosts of a namespace share.
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
    /// The memory of the process that peers can make it hold.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        self.inner.common.cache.process()
    }

    /// Restores every entity from the leased shard and starts the actors of those that have timers pending; the others start
    /// when they are first looked up. Call it on the tokio runtime that is to run them, timers enabled.
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

    /// Creates a queue or topic, or updates the options of an existing one, durably. Declaring what is already so
    /// writes nothing.
    ///
    /// # Errors
    /// The store's, or an invalid name or option; nothing changed then.
    pub async fn declare(&self, name: &str, options: impl Into<EntityOptions>) -> Result<(), StartError> {
        self.declare_all([(name.to_owned(), options.into())]).await
    }

    /// [`Self::declare`] for many entities with one write, all or none. Of two declarations of the same name the
    /// later counts.
    ///
    /// # Errors
    /// The store's, or an invalid name or option; nothing changed then.
    pub async fn declare_all<O: Into<EntityOptions>>(
        &self,
        entities: impl IntoIterator<Item = (String, O)>,
    ) -> Result<(), StartError> {
        let entities = entities.into_iter().map(|(name, options)| (name, options.into())).collect();
        self.declare_as(Intent::Declare, entities).await
    }

    /// Hands declarations to the catalogue. An entity that ended by itself before it knew of its new options was declared
    /// too late: then the catalogue is asked again, which knows of the end by now.
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

    /// Whether all of them are there and take commands.
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

    /// Ids for so many subscriptions, never given to anything else: the first of them.
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

    /// The options of a queue or topic as of now; unlike [`Self::entity`] this starts no actor.
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

    /// An id never used before for a receiver or watcher of this partition.
    #[must_use]
    pub fn next_receiver_id(&self, partition: &PartitionHandle) -> ReceiverId {
        partition.receiver_id(self.inner.next_receiver.fetch_add(1, Ordering::Relaxed))
    }

    /// Moves whenever an entity or subscription is created or deleted, or its options or rules change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.common.changes.subscribe()
    }

    /// What of the store could not be read since the start, in order of entity and number: at most the first thousand.
    #[must_use]
    pub fn damage(&self) -> Vec<Damage> {
        self.inner.common.damages.list()
    }

    /// Notes damage that somebody else found who reads the store, and has logged: `key` is the value that it hit, if any.
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

    /// How many messages are out of delivery at present because what is stored of them is damaged, over all queues and
    /// subscriptions.
    #[must_use]
    pub fn quarantined_count(&self) -> u64 {
        self.inner.directory.all().iter().map(|entity| entity.quarantined()).sum()
    }

    /// Whether what is stored about an entity, or about one whose name can't be read, is damaged, so that it can't be
    /// declared.
    #[must_use]
    pub fn is_damaged(&self, name: &str) -> bool {
        let entity = self.inner.directory.get(&name_key(name));
        entity.map_or(self.inner.host.is_catalogue_damaged, |entity| entity.is_damaged())
    }

    /// How many damages were met since the start, including those that [`Self::damage`] has no room for.
    #[must_use]
    pub fn damage_count(&self) -> u64 {
        self.inner.common.damages.count()
    }

    /// The clock, for front ends that stamp or compare instants.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.common.clock)
    }

    /// Resolves when a shard is lost: its lease, a batch in doubt, or an actor that panicked. From then on its entities refuse
    /// everything with [`crate::Refusal::Unavailable`]; everything else goes on. Never resolves otherwise.
    pub async fn shard_lost(&self) -> LostShard {
        self.inner.host.when_lost().await
    }

    /// The shard that is lost, if one is.
    #[must_use]
    pub fn lost_shard(&self) -> Option<LostShard> {
        self.inner.host.lost()
    }

    /// Stops all actors once what they have in hand is durable and answered. Later requests are refused with
    /// [`crate::Refusal::Unavailable`].
    pub async fn shutdown(&self) {
        let tasks: Vec<_> = self.inner.directory.all().iter().filter_map(|entity| entity.stop()).collect();
        for task in tasks {
            // An actor that panicked has ended its host already.
            let _ = task.await;
        }
        self.inner.host.stop_watching();
    }
}
