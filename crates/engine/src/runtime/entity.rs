//! An entity in use: its options, its counts and, once somebody wants it, its actor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use peeklock_storage::PartitionId;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::accessed::AccessedAt;
use super::actor::{Actor, CatchUp, CaughtUp, Control, Inputs, OwnedPartition, Shared, SharedCounts};
use super::random::RandomSource;
use super::subscriptions::Subscriptions;
use super::{EntityDescription, EntityKind, PartitionHandle};
use crate::metrics::EntityMetrics;
use crate::partition::{Activity, Counts, Partition};
use crate::{EntityOptions, EntityTimes, QueueId, SubscriptionOptions};

/// What it takes to start an actor on a host.
pub(super) struct Spawner {
    pub(super) shared: Shared,
    pub(super) random: RandomSource,
    pub(super) runtime: Handle,
}

/// An entity found by name: what a front end needs to talk to it.
#[derive(Debug, Clone)]
pub struct EntityRef {
    /// Where commands go.
    pub partition: PartitionHandle,
    /// Names the queue, or what is scheduled on the topic, in commands.
    pub queue: QueueId,
    /// Its options as of now.
    pub options: Arc<EntityOptions>,
}

/// A subscription found by name.
#[derive(Debug, Clone)]
pub struct SubscriptionRef {
    /// Where commands go: its topic's partition.
    pub partition: PartitionHandle,
    /// Names it in commands.
    pub queue: QueueId,
    /// Its options as of now.
    pub options: Arc<SubscriptionOptions>,
    /// Its topic's options as of now.
    pub topic: Arc<EntityOptions>,
}

/// A queue or topic. Its actor starts when somebody looks it up or a timer is pending: ten thousand idle queues cost their
/// state and no task.
pub(super) struct Entity {
    pub(super) name: String,
    pub(super) id: PartitionId,
    pub(super) kind: EntityKind,
    /// Of the host it lives on.
    spawner: Arc<Spawner>,
    declared: RwLock<Declared>,
    counts: Arc<SharedCounts>,
    pub(super) accessed: Arc<AccessedAt>,
    pub(super) metrics: Arc<EntityMetrics>,
    /// Of a topic; empty otherwise.
    pub(super) subscriptions: Arc<Subscriptions>,
    /// How often the clock had been set back when it was created or read from the store.
    set_backs: u64,
    actor: Mutex<ActorState>,
}

/// What its owner said of it, and when.
#[derive(Clone)]
struct Declared {
    options: Arc<EntityOptions>,
    times: EntityTimes,
}

enum ActorState {
    Dormant(Box<Partition>),
    /// What is stored of it can't be read; every request is refused.
    Damaged(PartitionHandle),
    Running {
        handle: PartitionHandle,
        control: mpsc::UnboundedSender<Control>,
        task: JoinHandle<()>,
    },
    Stopped,
}

impl Entity {
    pub(super) fn new(
        spawner: &Arc<Spawner>,
        (name, id): (String, PartitionId),
        options: EntityOptions,
        times: EntityTimes,
        mut partition: Partition,
        set_backs: u64,
    ) -> Self {
        let counts = Arc::new(SharedCounts::default());
        counts.set_entity(&partition, QueueId(id.0));
        let series = &spawner.shared.series;
        let metrics = series.entity();
        metrics.set_oldest(partition.oldest_available(QueueId(id.0)));
        Self {
            name,
            id,
            kind: EntityKind::from(&options),
            spawner: Arc::clone(spawner),
            declared: RwLock::new(Declared { options: Arc::new(options), times }),
            counts,
            accessed: Arc::default(),
            metrics,
            subscriptions: Arc::new(Subscriptions::of(&mut partition, Arc::clone(series))),
            set_backs,
            actor: Mutex::new(ActorState::Dormant(Box::new(partition))),
        }
    }

    /// One about which what is stored can't be read: it is there, and refuses everything.
    pub(super) fn damaged(
        spawner: &Arc<Spawner>,
        (name, id): (String, PartitionId),
        options: EntityOptions,
        times: EntityTimes,
    ) -> Self {
        let handle = stopped_handle();
        handle.set_damaged(&name);
        let partition = Partition::new(QueueId(id.0), options.clone());
        let entity = Self::new(spawner, (name, id), options, times, partition, 0);
        *entity.actor() = ActorState::Damaged(handle);
        entity
    }

    pub(super) fn is_damaged(&self) -> bool {
        matches!(&*self.actor(), ActorState::Damaged(_))
    }

    pub(super) fn options(&self) -> Arc<EntityOptions> {
        self.declared().options
    }

    pub(super) fn times(&self) -> EntityTimes {
        self.declared().times
    }

    fn declared(&self) -> Declared {
        self.declared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What administrators see.
    pub(super) fn describe(&self) -> EntityDescription {
        let Declared { options, times } = self.declared();
        let (subscriptions, filters) = self.subscriptions.sizes();
        EntityDescription {
            name: self.name.clone(),
            queue: QueueId(self.id.0),
            options,
            times,
            accessed_at: self.accessed.get(),
            counts: self.counts(),
            totals: self.metrics.totals(),
            is_damaged: self.is_damaged(),
            subscriptions,
            sql_filters: filters.sql + filters.constant,
            correlation_filters: filters.correlation,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// The same, and what clients do with it, of the same instant.
    pub(super) fn counts_and_activity(&self) -> (Counts, Activity) {
        self.counts.both()
    }

    /// Messages that are out of delivery because what is stored of them is damaged, of all subscriptions as well.
    pub(super) fn quarantined(&self) -> u64 {
        self.counts().quarantined.saturating_add(self.subscriptions.quarantined())
    }

    /// The handle of its actor, which starts if need be.
    pub(super) fn handle(&self) -> PartitionHandle {
        let mut actor = self.actor();
        match std::mem::replace(&mut *actor, ActorState::Stopped) {
            ActorState::Dormant(partition) => {
                let (handle, running) = self.spawn(*partition);
                *actor = running;
                handle
            }
            running @ ActorState::Running { .. } => {
                *actor = running;
                match &*actor {
                    ActorState::Running { handle, .. } => handle.clone(),
                    _ => stopped_handle(),
                }
            }
            ActorState::Damaged(handle) => {
                *actor = ActorState::Damaged(handle.clone());
                handle
            }
            ActorState::Stopped => stopped_handle(),
        }
    }

    /// Starts the actor if something happens without anybody looking: a timer is pending, or messages go on from here.
    pub(super) fn start_if_timed(&self) {
        let timed = match &*self.actor() {
            ActorState::Dormant(partition) => {
                partition.next_deadline().is_some() || partition.is_forwarding()
            }
            ActorState::Running { .. } | ActorState::Damaged(_) | ActorState::Stopped => false,
        };
        if timed {
            self.handle();
        }
    }

    /// Asks to be told when nothing due is left to do, and whether anything was; an actor starts for it if need be.
    pub(super) fn catch_up(&self, requested: CatchUp) {
        let next = match &*self.actor() {
            ActorState::Dormant(partition) => partition.next_deadline(),
            ActorState::Running { .. } | ActorState::Damaged(_) | ActorState::Stopped => None,
        };
        if next.is_some_and(|at| at <= requested.until) {
            self.handle();
        } else if next.is_some() {
            let _ = requested.answer.send(CaughtUp { was_due: false, next });
        }
        if let ActorState::Running { control, .. } = &*self.actor() {
            // An actor that is gone has nothing left to do.
            let _ = control.send(Control::CatchUp(requested));
        }
    }

    /// The clock was set back: what is in memory is read again.
    pub(super) fn see_the_time(&self) {
        self.handle();
        if let ActorState::Running { control, .. } = &*self.actor() {
            // An actor that is gone has no use for it.
            let _ = control.send(Control::SeeTheTime);
        }
    }

    /// Takes over options that the catalogue has stored. A running actor carries out a [`crate::Command::ChangeOptions`] in
    /// order with its other commands.
    pub(super) fn change_options(&self, options: EntityOptions, times: EntityTimes) {
        let options = Arc::new(options);
        match &mut *self.actor() {
            ActorState::Dormant(partition) => partition.follow_options(Arc::clone(&options)),
            ActorState::Running { control, .. } => {
                // An actor that is gone needs no options.
                let _ = control.send(Control::ChangeOptions(Arc::clone(&options)));
            }
            ActorState::Damaged(_) | ActorState::Stopped => {}
        }
        let declared = Declared { options, times };
        *self.declared.write().unwrap_or_else(PoisonError::into_inner) = declared;
    }

    /// Asks the actor whether it still takes commands, with the options given before; `None` when no actor runs that could
    /// have ended.
    pub(super) fn confirm(&self) -> Option<oneshot::Receiver<bool>> {
        let ActorState::Running { control, .. } = &*self.actor() else { return None };
        let (answer, answered) = oneshot::channel();
        control.send(Control::Confirm(answer)).ok().map(|()| answered)
    }

    /// Whoever still has a handle learns that the entity is no more.
    pub(super) fn set_deleted(&self) {
        if let ActorState::Running { handle, .. } = &*self.actor() {
            handle.set_deleted();
        }
    }

    /// Whether this is its host.
    pub(super) fn lives_on(&self, host: &Arc<Spawner>) -> bool {
        Arc::ptr_eq(&self.spawner, host)
    }

    /// Tells the actor to finish; the task to wait for, if there is one.
    pub(super) fn stop(&self) -> Option<JoinHandle<()>> {
        self.end(Control::Stop)
    }

    /// Its shard is lost: the actor refuses all who wait and ends; the task to wait for, if there is one.
    pub(super) fn lose(&self) -> Option<JoinHandle<()>> {
        self.end(Control::Lose)
    }

    fn end(&self, last_request: Control) -> Option<JoinHandle<()>> {
        match std::mem::replace(&mut *self.actor(), ActorState::Stopped) {
            ActorState::Running { control, task, .. } => {
                // One that has ended by itself needs no word.
                let _ = control.send(last_request);
                Some(task)
            }
            ActorState::Dormant(_) | ActorState::Damaged(_) | ActorState::Stopped => None,
        }
    }

    fn spawn(&self, partition: Partition) -> (PartitionHandle, ActorState) {
        let (handle, requests, loans) = PartitionHandle::of_actor(self.spawner.shared.epoch);
        let (control, control_receiver) = mpsc::unbounded_channel();
        let owned = OwnedPartition {
            id: self.id,
            name: self.name.clone(),
            handle: handle.clone(),
            partition,
            options: self.options(),
            random: self.spawner.random.partition(self.id),
            set_backs: self.set_backs,
            counts: Arc::clone(&self.counts),
            accessed: Arc::clone(&self.accessed),
            metrics: Arc::clone(&self.metrics),
            subscriptions: Arc::clone(&self.subscriptions),
        };
        let inputs = Inputs { requests, loans, control: control_receiver };
        // Boxed: a future keeps room for its arguments twice.
        let actor = Box::new(Actor::new(owned, self.spawner.shared.clone(), inputs));
        let task = self.spawner.runtime.spawn(actor.run());
        (handle.clone(), ActorState::Running { handle, control, task })
    }

    fn actor(&self) -> MutexGuard<'_, ActorState> {
        self.actor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle that answers every request with a refusal.
fn stopped_handle() -> PartitionHandle {
    PartitionHandle::new().0
}
