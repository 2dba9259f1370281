//! The actor that runs one partition: the only task that touches its state.
//!
//! A turn takes all waiting work (requests, a due timer), reads the clock once, passes the work to the partition, submits
//! the resulting events as one batch and continues without waiting for it. Effects leave when the batch they depend on is
//! durable. Effects of a turn whose events need no sync (delivery counts, locks) depend on the last earlier batch that
//! does.

mod access;
mod alarm;
mod browse;
mod buffers;
mod catch_up;
mod commits;
mod forwarders;
mod intake;
mod lane;
mod lending;
mod limits;
mod outgoing;
mod quarantine;
mod reads;
mod recovery;
mod release;
mod shared_counts;
mod tally;
mod tenancy;
mod traces;
mod turn;
mod write_estimate;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};

use peeklock_storage::{Epoch, Error, Limits, PartitionId, Shard};
use rand::rngs::StdRng;
use slab::Slab;
use tokio::sync::{mpsc, oneshot};

use self::alarm::Alarm;
use self::browse::Browses;
pub(super) use self::buffers::BufferPool;
use self::catch_up::CatchUps;
pub(super) use self::catch_up::{CatchUp, CaughtUp};
use self::commits::{CommitNumber, Commits};
use self::forwarders::Forwarders;
use self::lane::DeliveryLane;
pub(super) use self::limits::{BATCH_BYTES_MAX, TURN_EVENTS_MAX, TURN_VISITS_MAX};
use self::outgoing::Outgoing;
use self::reads::Source;
pub(super) use self::shared_counts::SharedCounts;
use self::tally::Tallies;
use self::tenancy::{Permission, Tenancy};
use self::traces::Traces;
pub(super) use self::write_estimate::{changed_bytes_allowed, check_writes, settlement_bytes};
use super::accessed::AccessedAt;
use super::answer::Waiter;
use super::body_cache::{BodyCache, CacheBudget};
use super::catalogue::deletion::Ended;
use super::changes::ChangeCounter;
use super::damage::Damages;
use super::forwarder::Routes;
use super::growth::{Growth, Relief};
use super::host::FailureScope;
use super::joint::{JointSteps, LoanRequest};
use super::long_work;
use super::spans::Spans;
use super::subscriptions::Subscriptions;
use super::{Clock, Mailbox, PartitionHandle, Request, Requests, Response, Tenure};
use crate::metrics::{EntityMetrics, SeriesPool};
use crate::partition::{Outputs, Partition, Unfinished};
use crate::{Command, EntityOptions, QueueId, ReceiverId, Refusal, RequestId, RuleLimits, Timestamp};

/// State shared by all actors of a host.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) shard: Arc<dyn Shard>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cache: Arc<CacheBudget>,
    /// The epoch in which the host owns the shard.
    pub(super) epoch: Epoch,
    /// Failed with the error that loses the shard.
    pub(super) scope: FailureScope,
    /// Finds the targets of forwarders.
    pub(super) routes: Routes,
    /// Accepts joint steps of several partitions.
    pub(super) joint: JointSteps,
    /// Limits on the rules of topics.
    pub(super) rule_limits: RuleLimits,
    /// Channel to the catalogue for entities that ended and are to be deleted.
    pub(super) ended: mpsc::UnboundedSender<Ended>,
    /// Notifies tasks that depend on options and rules.
    pub(super) changes: ChangeCounter,
    /// The pool of metric series: decides which entities have series of their own.
    pub(super) series: Arc<SeriesPool>,
    /// Records stored data that can't be read.
    pub(super) damages: Damages,
    /// Tracing, if enabled.
    pub(super) spans: Option<Arc<dyn Spans>>,
    /// Says whether the shard's lease allows output; without it, output is always allowed.
    pub(super) tenure: Option<Arc<dyn Tenure>>,
    /// Reusable buffers for turns.
    pub(super) buffers: Arc<BufferPool>,
}

/// Requests of the namespace to an actor.
#[derive(Debug)]
pub(super) enum Control {
    /// New options, already stored by the catalogue.
    ChangeOptions(Arc<EntityOptions>),
    /// Asks whether the entity still accepts commands and has applied all earlier option changes.
    Confirm(oneshot::Sender<bool>),
    /// Asks for a notification when nothing due is left to do.
    CatchUp(CatchUp),
    /// The clock was set back: read it again.
    CheckSetBack,
    /// Finish the work under way, then end.
    Stop,
    /// The shard is lost: refuse everything and end.
    Lose,
}

/// The channels from which an actor receives its work.
pub(super) struct Inputs {
    pub(super) requests: Requests,
    pub(super) loans: mpsc::UnboundedReceiver<LoanRequest>,
    pub(super) control: mpsc::UnboundedReceiver<Control>,
}

/// The state that an actor owns.
pub(super) struct OwnedPartition {
    pub(super) id: PartitionId,
    pub(super) name: String,
    /// The actor's own handle, for its forwarders.
    pub(super) handle: PartitionHandle,
    pub(super) partition: Partition,
    pub(super) options: Arc<EntityOptions>,
    pub(super) random: StdRng,
    /// The clock's set-back count when the partition was read from the store.
    pub(super) set_backs: u64,
    pub(super) counts: Arc<SharedCounts>,
    pub(super) accessed: Arc<AccessedAt>,
    pub(super) metrics: Arc<EntityMetrics>,
    pub(super) subscriptions: Arc<Subscriptions>,
}

/// See the module.
pub(super) struct Actor {
    owned: OwnedPartition,
    shared: Shared,
    /// The time of this turn.
    now: Timestamp,
    /// The point in time up to which everything due was handled ahead of a clock that is about to be moved there.
    travelled: Timestamp,
    limits: Limits,
    growth: Growth,
    inbox: Requests,
    control: mpsc::UnboundedReceiver<Control>,
    loans: mpsc::UnboundedReceiver<LoanRequest>,
    /// A pending request to borrow the partition's state.
    loan: Option<LoanRequest>,
    /// Requests of this turn and those left from the last one; reused.
    requests: Vec<Request>,
    /// Commands that the actor issues itself, such as locks to release and receivers to close.
    internal: VecDeque<Command>,
    /// Requests that take several turns, the one continued least recently first.
    unfinished: VecDeque<(RequestId, Unfinished)>,
    /// Entries visited in this turn, see [`Outputs::visits`].
    visits: usize,
    /// `Confirm` requests, which wait for the commands before them.
    confirmations: Vec<oneshot::Sender<bool>>,
    outputs: Outputs,
    /// Queues and subscriptions that clients used in this turn.
    accessed: Vec<QueueId>,
    /// The end index of each command's events in this turn.
    event_ends: Vec<usize>,
    /// Estimated size of this turn's batch, in bytes.
    batch_bytes: usize,
    waiters: Slab<Waiter>,
    receivers: HashMap<ReceiverId, Mailbox>,
    commits: Commits,
    replies: VecDeque<PendingReply>,
    outgoing: Outgoing,
    lane: DeliveryLane,
    browses: Browses,
    forwarders: Forwarders,
    cache: BodyCache,
    tallies: Tallies,
    traces: Traces,
    alarm: Alarm,
    /// When to check again for memory.
    memory_alarm: Alarm,
    /// Signals the end of a shortage while messages are held because of it.
    relief: Relief,
    catch_ups: CatchUps,
    tenancy: Tenancy,
    /// Requests handled since the actor last yielded.
    handled_since_yield: usize,
    stopping: bool,
    /// The shard is lost.
    is_lost: bool,
    inbox_ended: bool,
}

/// A panic must not leave requests unanswered: everything it loses is refused, like everything else of the host.
impl Drop for Actor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.refuse_everything(&Refusal::Unavailable);
        }
    }
}

/// A reply that waits for its commit.
#[derive(Debug)]
struct PendingReply {
    after: CommitNumber,
    /// Whether its commit was still under way when the reply was decided. Once that commit is durable, it proves that the
    /// shard was ours and the reply is valid.
    is_proven: bool,
    waiter: Waiter,
    response: Response,
}

/// The reason why the actor was woken.
enum Wake {
    Work,
    Lost,
    Failed(Error),
}

impl Actor {
    pub(super) fn new(owned: OwnedPartition, shared: Shared, inputs: Inputs) -> Self {
        let id = owned.id;
        Self {
            limits: shared.shard.limits(),
            growth: Growth::of(&*shared.shard, shared.cache.process()),
            now: Timestamp::default(),
            travelled: Timestamp::default(),
            inbox: inputs.requests,
            control: inputs.control,
            loans: inputs.loans,
            loan: None,
            requests: Vec::new(),
            internal: VecDeque::new(),
            unfinished: VecDeque::new(),
            visits: 0,
            confirmations: Vec::new(),
            outputs: Outputs::default(),
            accessed: Vec::new(),
            event_ends: Vec::new(),
            batch_bytes: 0,
            waiters: Slab::new(),
            receivers: HashMap::new(),
            commits: Commits::default(),
            replies: VecDeque::new(),
            outgoing: Outgoing::default(),
            lane: DeliveryLane::new(id, shared.cache.process()),
            browses: Browses::new(id),
            forwarders: Forwarders::default(),
            cache: BodyCache::new(Arc::clone(&shared.cache)),
            tallies: Tallies::new(QueueId(id.0), Arc::clone(&owned.metrics)),
            traces: Traces::new(shared.spans.clone()),
            alarm: Alarm::default(),
            memory_alarm: Alarm::default(),
            relief: Relief::default(),
            catch_ups: CatchUps::default(),
            tenancy: Tenancy::new(shared.tenure.clone()),
            handled_since_yield: 0,
            stopping: false,
            is_lost: false,
            inbox_ended: false,
            owned,
            shared,
        }
    }

    /// Runs until the namespace stops it or the shard is lost.
    pub(super) async fn run(mut self: Box<Self>) {
        let _guard = self.shared.scope.clone().guard();
        self.alarm.arm(&*self.shared.clock, self.owned.partition.next_deadline());
        self.update_forwarders();
        while !self.is_done() {
            let outcome = match self.wake().await {
                Wake::Lost => {
                    // Durable results must not be refused: a client whose request is refused may repeat it.
                    self.release_before_refusing();
                    break;
                }
                Wake::Work if self.check_set_back() => match self.lend_if_requested().await {
                    Ok(()) => {
                        if self.turn() {
                            tokio::task::yield_now().await;
                        }
                        continue;
                    }
                    Err(error) => Box::pin(self.recover(error)).await,
                },
                Wake::Work => Box::pin(self.follow_the_clock_back()).await,
                Wake::Failed(error) => Box::pin(self.recover(error)).await,
            };
            if let Err(error) = outcome {
                if let Some(error) = error {
                    self.shared.scope.fail(error);
                }
                break;
            }
        }
        self.refuse_everything(&Refusal::Unavailable);
        long_work::free(self.owned.take_partition());
    }

    /// Reads the clock for a turn; false if it was set back since the state was read from the store.
    fn check_set_back(&mut self) -> bool {
        let (now, set_backs) = self.shared.clock.reading();
        self.now = now.max(self.travelled);
        set_backs.count == self.owned.set_backs
    }

    fn is_done(&self) -> bool {
        self.inbox_ended
            && self.requests.is_empty()
            && self.internal.is_empty()
            && self.unfinished.is_empty()
            && self.commits.is_empty()
            && self.replies.is_empty()
            && (self.lane.is_empty() || !self.tenancy.delivers())
            && self.browses.is_empty()
    }

    /// Waits for something to do. The first of many tasks that are ready ends the wait: if it left few requests, the others
    /// run before the turn, so that their requests join it and its batch.
    async fn wake(&mut self) -> Wake {
        let mut was_idle = false;
        let wake = std::future::poll_fn(|context| {
            let wake = self.poll_wake(context);
            was_idle |= wake.is_pending();
            wake
        });
        let wake = wake.await;
        if was_idle && self.has_few_requests() {
            tokio::task::yield_now().await;
        }
        wake
    }

    /// Ready when there is something to do. All sources are polled, so that each has registered the waker.
    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<Wake> {
        let mut work =
            !self.internal.is_empty() || !self.unfinished.is_empty() || !self.confirmations.is_empty();
        match self.commits.poll(context) {
            Poll::Ready(Err(error)) => return Poll::Ready(Wake::Failed(error)),
            Poll::Ready(Ok(())) => work = true,
            Poll::Pending => {}
        }
        let source = Source { shard: &*self.shared.shard, clock: &*self.shared.clock };
        let reads =
            self.lane.poll(context, source).and_then(|a| Ok(a | self.browses.poll(context, source)?));
        match reads {
            Err(error) => return Poll::Ready(Wake::Failed(error)),
            Ok(progress) => work |= progress,
        }
        work |= self.poll_control(context);
        if self.is_lost {
            return Poll::Ready(Wake::Lost);
        }
        match self.tenancy.poll(context, &self.shared.scope) {
            Permission::Granted => {}
            Permission::Restored => work = true,
            Permission::Withheld => return Poll::Pending,
            Permission::Lost => return Poll::Ready(Wake::Lost),
        }
        work |= self.poll_loans(context);
        work |= self.catch_ups.take_unseen();
        work |= self.poll_requests(context);
        work |= self.memory_alarm.poll(context);
        work |= !self.stopping && self.relief.poll(context);
        work |= !self.stopping && self.commits.has_room_for_timers() && self.alarm.poll(context);
        if work || self.is_done() {
            return Poll::Ready(Wake::Work);
        }
        self.return_buffers();
        Poll::Pending
    }
}
