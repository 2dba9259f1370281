//! A shard in use: its leased store, the actors of its entities, and the tasks they share.
//!
//! A host is one failure scope ([`scope`]). If the shard can't be trusted any more (the lease is lost, a batch is in doubt, a
//! task panicked), the whole host ends: its actors refuse all waiting requests with [`crate::Refusal::Unavailable`], which
//! clients retry, close their receivers and end; so do the catalogue and the committer. The process continues; the owner of
//! the [`super::Namespace`] receives a [`LostShard`] and decides.

mod scope;
mod set_back;

use std::sync::Arc;

use peeklock_storage::{Epoch, Error, Lease, PartitionId, ShardId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

pub(super) use self::scope::FailureScope;
use self::set_back::follow_set_backs;
use super::actor::Shared;
use super::catalogue::deletion::Ended;
use super::catalogue::load::{Loaded, load};
use super::catalogue::{Catalogue, CatalogueRequest, Declaration};
use super::directory::Directory;
use super::entity::Spawner;
use super::growth::Growth;
use super::joint::{Committer, JointSteps};
use super::namespace::Common;
use super::random::RandomSource;
use super::{NamespaceOptions, StartError};

/// Capacity of the catalogue's queue; further callers wait for room in it.
const DECLARATIONS_WAITING_MAX: usize = 1024;

/// A shard lost by its host: its entities refuse every request as retryable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shard {} was lost (epoch {epoch}): {reason}", shard.0)]
pub struct LostShard {
    /// The shard.
    pub shard: ShardId,
    /// The epoch in which it was owned.
    pub epoch: Epoch,
    /// The reason for the loss.
    pub reason: Error,
}

/// See the module.
pub(super) struct ShardHost {
    shard: ShardId,
    /// Starts the actors of entities.
    pub(super) spawner: Arc<Spawner>,
    declarations: mpsc::Sender<Declaration>,
    /// Whether the names of some entities can't be read.
    pub(super) is_catalogue_damaged: bool,
    /// Tasks that would otherwise outlive the host.
    watching: [AbortHandle; 2],
}

impl Drop for ShardHost {
    fn drop(&mut self) {
        self.stop_watching();
    }
}

impl ShardHost {
    /// Restores every entity of the leased shard into the directory. Actors start when entities are looked up.
    ///
    /// # Errors
    /// See [`StartError`].
    pub(super) async fn start(
        lease: Lease,
        common: &Common,
        directory: &Arc<Directory>,
        options: &NamespaceOptions,
    ) -> Result<Self, StartError> {
        let (ended, ended_receiver) = mpsc::unbounded_channel();
        let (joint, jobs) = JointSteps::new();
        let shared = shared(&lease, common, ended, joint);
        let random = RandomSource::new(options.seed).map_err(StartError::Randomness)?;
        let spawner = Arc::new(Spawner { shared, random, runtime: Handle::current() });
        let Loaded { next_partition, is_damaged, set_back, latest } = load(&spawner, directory).await?;
        spawner.shared.clock.go_on_from(latest);
        let (declarations, receiver) = mpsc::channel(DECLARATIONS_WAITING_MAX);
        let catalogue = Catalogue {
            directory: Arc::clone(directory),
            spawner: Arc::clone(&spawner),
            next_partition,
            entities_max: options.entities_max.unwrap_or(usize::MAX),
            is_damaged,
            undeleted: Vec::new(),
        };
        let committer = Committer {
            shard: Arc::clone(lease.shard()),
            scope: spawner.shared.scope.clone(),
            growth: Growth::of(&**lease.shard(), spawner.shared.cache.process()),
            random: spawner.random.partition(PartitionId(u64::MAX)),
        };
        let tasks = [
            spawner.runtime.spawn(catalogue.run(receiver, ended_receiver)),
            spawner.runtime.spawn(committer.run(jobs)),
        ];
        let following = follow_set_backs(Arc::clone(&spawner), Arc::clone(directory), set_back);
        let following = spawner.runtime.spawn(following).abort_handle();
        let shard = lease.id();
        let ending =
            end_when_lost(shard, Arc::clone(&spawner), Arc::clone(directory), tasks, following.clone());
        let ending = spawner.runtime.spawn(ending).abort_handle();
        Ok(Self {
            shard,
            spawner,
            declarations,
            is_catalogue_damaged: is_damaged,
            watching: [following, ending],
        })
    }

    /// Stops watching for the loss of the shard. After the entities have stopped, closing the store is no loss.
    pub(super) fn stop_watching(&self) {
        self.watching.iter().for_each(AbortHandle::abort);
    }

    /// Sends a request to the catalogue and waits for its answer.
    ///
    /// # Errors
    /// The catalogue's error, or [`Error::Unavailable`] once the host has ended.
    pub(super) async fn ask_catalogue(&self, request: CatalogueRequest) -> Result<PartitionId, StartError> {
        let gone = || Error::Unavailable { reason: "the shard was lost".to_owned() };
        let (answer, answered) = oneshot::channel();
        self.declarations.send(Declaration { request, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// The loss of the shard, if it is lost.
    pub(super) fn lost(&self) -> Option<LostShard> {
        self.spawner.shared.scope.failure().map(|reason| self.lost_because(reason))
    }

    /// Resolves when the shard is lost; from then on waiting requests are refused.
    pub(super) async fn when_lost(&self) -> LostShard {
        let reason = self.spawner.shared.scope.failed().await;
        self.lost_because(reason)
    }

    fn lost_because(&self, reason: Error) -> LostShard {
        LostShard { shard: self.shard, epoch: self.spawner.shared.epoch, reason }
    }
}

/// The state shared by the actors of a host.
fn shared(lease: &Lease, common: &Common, ended: mpsc::UnboundedSender<Ended>, joint: JointSteps) -> Shared {
    Shared {
        shard: Arc::clone(lease.shard()),
        epoch: lease.epoch(),
        scope: FailureScope::of(lease.clone()),
        ended,
        joint,
        clock: Arc::clone(&common.clock),
        cache: Arc::clone(&common.cache),
        changes: common.changes.clone(),
        series: Arc::clone(&common.series),
        damages: common.damages.clone(),
        routes: common.routes.clone(),
        rule_limits: common.rule_limits,
        spans: common.spans.clone(),
        tenure: common.tenure.clone(),
        buffers: Arc::default(),
    }
}

/// Ends all tasks of a host once its shard is lost.
async fn end_when_lost(
    shard: ShardId,
    spawner: Arc<Spawner>,
    directory: Arc<Directory>,
    tasks: [JoinHandle<()>; 2],
    following: AbortHandle,
) {
    let reason = spawner.shared.scope.watch().await;
    // Whoever waits for the loss logs the reason.
    tracing::debug!(shard = shard.0, %reason, "the shard is lost; its entities refuse all requests");
    following.abort();
    let mut actors = directory.end_all_of(&spawner);
    for task in tasks {
        // A task that panicked has ended as well.
        let _ = task.await;
    }
    // Entities that the catalogue created before it ended.
    actors.extend(directory.end_all_of(&spawner));
    for actor in actors {
        let _ = actor.await;
    }
}
