//! An entity in use: its options, its counts and, once it is needed, its actor.

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

/// Everything needed to start an actor on a host.
pub(super) struct Spawner {
    pub(super) shared: Shared,
    pub(super) random: RandomSource,
    pub(super) runtime: Handle,
}

/// An entity found by name, as front ends use it.
#[derive(Debug, Clone)]
pub struct EntityRef {
    /// Accepts commands.
    pub partition: PartitionHandle,
    /// Identifies the queue, or the messages scheduled on the topic, in commands.
    pub queue: QueueId,
    /// Its present options.
    pub options: Arc<EntityOptions>,
}

/// A subscription found by name.
#[derive(Debug, Clone)]
pub struct SubscriptionRef {
    /// Accepts commands: the partition of its topic.
    pub partition: PartitionHandle,
    /// Identifies it in commands.
    pub queue: QueueId,
    /// Its present options.
    pub options: Arc<SubscriptionOptions>,
    /// The present options of its topic.
    pub topic: Arc<EntityOptions>,
}

/// A queue or topic. Its actor starts when it is looked up or a timer is pending: an idle queue costs its state but no
/// task.
pub(super) struct Entity {
    pub(super) name: String,
    pub(super) id: PartitionId,
    pub(super) kind: EntityKind,
    /// The spawner of its host.
    spawner: Arc<Spawner>,
    declared: RwLock<Declared>,
    counts: Arc<SharedCounts>,
    pub(super) accessed: Arc<AccessedAt>,
    pub(super) metrics: Arc<EntityMetrics>,
    /// The subscriptions of a topic; empty otherwise.
    pub(super) subscriptions: Arc<Subscriptions>,
    /// The clock's set-back count when it was created or read from the store.
    set_backs: u64,
    actor: Mutex<ActorState>,
}

/// Its options, and when they were declared.
#[derive(Clone)]
struct Declared {
    options: Arc<EntityOptions>,
    times: EntityTimes,
}

enum ActorState {
    Dormant(Box<Partition>),
    /// Its stored state can't be read; every request is refused.
    Damaged(PartitionHandle),
    Running {
        handle: PartitionHandle,
        control: mpsc::UnboundedSender<Control>,
        task: JoinHandle<()>,
    },
    /// Its actor has been told to end, or never ran; every request through the handle will be refused.
    Ended(PartitionHandle),
}

impl Entity {
    pub(super) fn new(
        spawner: &Arc<Spawner>,
        (name, id): (String, PartitionId),
        options: Arc<EntityOptions>,
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
            kind: EntityKind::from(&*options),
            spawner: Arc::clone(spawner),
            declared: RwLock::new(Declared { options, times }),
            counts,
            accessed: Arc::default(),
            metrics,
            subscriptions: Arc::new(Subscriptions::of(&mut partition, Arc::clone(series))),
            set_backs,
            actor: Mutex::new(ActorState::Dormant(Box::new(partition))),
        }
    }

    /// An entity whose stored state can't be read: it exists and refuses every command.
    pub(super) fn damaged(
        spawner: &Arc<Spawner>,
        (name, id): (String, PartitionId),
        options: Arc<EntityOptions>,
        times: EntityTimes,
    ) -> Self {
        let handle = ended_handle();
        handle.set_damaged(&name);
        let partition = Partition::sharing(QueueId(id.0), Arc::clone(&options));
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

    /// The description for administrators.
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

    /// Counts and client activity, both from the same point in time.
    pub(super) fn counts_and_activity(&self) -> (Counts, Activity) {
        self.counts.both()
    }

    /// Number of messages out of delivery because their stored data is damaged, including those of subscriptions.
    pub(super) fn quarantined(&self) -> u64 {
        self.counts().quarantined.saturating_add(self.subscriptions.quarantined())
    }

    /// The handle of its actor, which is started if necessary.
    pub(super) fn handle(&self) -> PartitionHandle {
        let mut actor = self.actor();
        if let Some(handle) = actor.handle() {
            return handle.clone();
        }
        let ended = ActorState::Ended(ended_handle());
        if let ActorState::Dormant(partition) = std::mem::replace(&mut *actor, ended) {
            *actor = self.spawn(*partition);
        }
        actor.handle().map_or_else(ended_handle, PartitionHandle::clone)
    }

    /// Starts the actor if it has work without a client: a pending timer, or messages to forward.
    pub(super) fn start_if_timed(&self) {
        let timed = match &*self.actor() {
            ActorState::Dormant(partition) => {
                partition.next_deadline().is_some() || partition.is_forwarding()
            }
            ActorState::Running { .. } | ActorState::Damaged(_) | ActorState::Ended(_) => false,
        };
        if timed {
            self.handle();
        }
    }

    /// Requests a notification when nothing due is left to do; starts the actor if a timer is due.
    pub(super) fn catch_up(&self, requested: CatchUp) {
        let next = match &*self.actor() {
            ActorState::Dormant(partition) => partition.next_deadline(),
            ActorState::Running { .. } | ActorState::Damaged(_) | ActorState::Ended(_) => None,
        };
        if next.is_some_and(|at| at <= requested.until) {
            self.handle();
        } else if next.is_some() {
            let _ = requested.answer.send(CaughtUp { was_due: false, next });
        }
        if let ActorState::Running { control, .. } = &*self.actor() {
            // An actor that has ended has nothing left to do.
            let _ = control.send(Control::CatchUp(requested));
        }
    }

    /// Makes the actor read its state again after the clock was set back.
    pub(super) fn check_set_back(&self) {
        self.handle();
        if let ActorState::Running { control, .. } = &*self.actor() {
            // An actor that has ended needs no state.
            let _ = control.send(Control::CheckSetBack);
        }
    }

    /// Applies options that the catalogue has stored. A running actor carries out a [`crate::Command::ChangeOptions`] in
    /// order with its other commands.
    pub(super) fn change_options(&self, options: Arc<EntityOptions>, times: EntityTimes) {
        match &mut *self.actor() {
            ActorState::Dormant(partition) => partition.follow_options(Arc::clone(&options)),
            ActorState::Running { control, .. } => {
                // An actor that has ended needs no options.
                let _ = control.send(Control::ChangeOptions(Arc::clone(&options)));
            }
            ActorState::Damaged(_) | ActorState::Ended(_) => {}
        }
        let declared = Declared { options, times };
        *self.declared.write().unwrap_or_else(PoisonError::into_inner) = declared;
    }

    /// Asks the actor whether it still accepts commands and has applied the options set before; `None` if no actor is
    /// running.
    pub(super) fn confirm(&self) -> Option<oneshot::Receiver<bool>> {
        let ActorState::Running { control, .. } = &*self.actor() else { return None };
        let (answer, answered) = oneshot::channel();
        control.send(Control::Confirm(answer)).ok().map(|()| answered)
    }

    /// Whether it lives on this host.
    pub(super) fn lives_on(&self, host: &Arc<Spawner>) -> bool {
        Arc::ptr_eq(&self.spawner, host)
    }

    /// Stops the actor after the work under way; returns its task, if there is one.
    pub(super) fn stop(&self) -> Option<JoinHandle<()>> {
        self.end(Control::Stop, |_| ())
    }

    /// Stops the actor of an entity that was deleted; requests fail as [`crate::Refusal::EntityDeleted`]. Returns its task,
    /// if there is one.
    pub(super) fn stop_deleted(&self) -> Option<JoinHandle<()>> {
        self.end(Control::Stop, PartitionHandle::set_deleted)
    }

    /// Ends the actor because its shard is lost: waiting requests are refused. Returns its task, if there is one.
    pub(super) fn lose(&self) -> Option<JoinHandle<()>> {
        self.end(Control::Lose, |_| ())
    }

    /// Ends the actor. `give_reason` sets on its handle why requests are refused.
    fn end(&self, last_request: Control, give_reason: impl Fn(&PartitionHandle)) -> Option<JoinHandle<()>> {
        let mut actor = self.actor();
        // The handle of a damaged entity has a reason already.
        let handle = match &*actor {
            ActorState::Running { handle, .. } => handle.clone(),
            _ => ended_handle(),
        };
        give_reason(&handle);
        match std::mem::replace(&mut *actor, ActorState::Ended(handle)) {
            ActorState::Running { control, task, .. } => {
                // The actor may have ended by itself.
                let _ = control.send(last_request);
                Some(task)
            }
            ActorState::Dormant(_) | ActorState::Damaged(_) | ActorState::Ended(_) => None,
        }
    }

    fn spawn(&self, partition: Partition) -> ActorState {
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
        // Boxed, because a future reserves space for its arguments twice.
        let actor = Box::new(Actor::new(owned, self.spawner.shared.clone(), inputs));
        let task = self.spawner.runtime.spawn(actor.run());
        ActorState::Running { handle, control, task }
    }

    fn actor(&self) -> MutexGuard<'_, ActorState> {
        self.actor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActorState {
    /// The handle for requests; `None` if the actor has not been needed yet.
    const fn handle(&self) -> Option<&PartitionHandle> {
        match self {
            Self::Dormant(_) => None,
            Self::Running { handle, .. } | Self::Damaged(handle) | Self::Ended(handle) => Some(handle),
        }
    }
}

/// A handle that answers every request with a refusal.
fn ended_handle() -> PartitionHandle {
    PartitionHandle::new().0
}
