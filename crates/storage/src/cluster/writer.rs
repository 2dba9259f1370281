//! The task that appends: collects pending batches into records, sends several ahead, and completes them in the order
//! of their places.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};

use super::log::{NewRecord, RecordId, RecordKind, RecordPlace};
use super::part::{Bound, Mark};
use super::record::{Commit, CommitBuilder, Copy, RecordSize, seal};
use super::shard::{closed, limits};
use super::shared::Shared;
use crate::queue::{FrameLimits, Queue, batch_bytes};
use crate::waiting::{Halted, Waiting, full, refuse};
use crate::{Batch, CommitNotifier, Epoch, Error, PartitionId};

/// A record accepts no further batch beyond this many operations, which bounds the time for which the state is locked.
const RECORD_OPERATIONS_MAX: usize = 16 << 10;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Request {
    Commit(Batch, CommitNotifier),
    /// Accepts batches of this partition again; its owner has noticed the refusal and has no batch under way any more.
    Resume(PartitionId),
    /// The keeper has a record to be written.
    MaintenanceWrite(MaintenanceWrite, Reply),
    /// The log reported to the keeper that this epoch does not own it.
    Doubt(Epoch),
    /// Finish the submitted batches and end.
    Stop,
}

/// A record that the keeper wants to be written.
#[derive(Debug)]
pub(super) enum MaintenanceWrite {
    Copy(Vec<Copy>),
    /// The part of a checkpoint that begins at this bound.
    Part(Bound),
    Mark(Mark),
}

/// The result of a maintenance write once its record is durable.
#[derive(Debug, Clone, std::marker::Copy)]
pub(super) struct Written {
    pub(super) place: RecordPlace,
    pub(super) heads_bytes: u64,
    /// Bytes of the heads of all earlier records.
    pub(super) bytes_before: u64,
    /// For a part: the start of the next part.
    pub(super) next: Bound,
}

/// Fails with [`Error::Unavailable`] when the record is not stored, or with the cause of the lease's loss.
pub(super) type Reply = oneshot::Sender<Result<Written, Error>>;

/// A record that was sent and not answered yet.
#[derive(Debug)]
pub(super) struct UnderWay {
    /// `None`: nothing was sent, because all batches were refused or empty; the answers wait for those of earlier
    /// batches.
    pub(super) place: Option<RecordPlace>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) maintenance: Option<(Bound, Reply)>,
    commit: Commit,
    bodies: Bytes,
    heads_bytes: u64,
}

/// State of the task; see the module.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    requests: UnboundedReceiver<Request>,
    loss: watch::Receiver<Option<Error>>,
    pub(super) queue: Queue,
    halted: Halted,
    maintenance: VecDeque<(MaintenanceWrite, Reply)>,
    /// A [`Request::Resume`] or [`Request::Stop`], which waits until all earlier requests are answered.
    carried: Option<Request>,
    is_closed: bool,
    is_doubted: bool,
    pub(super) under_way: VecDeque<UnderWay>,
    pub(super) answers: FuturesUnordered<BoxFuture<'static, (RecordId, Result<(), Error>)>>,
    /// The last record sent, or the owner record.
    pub(super) last: RecordId,
    /// Failed attempts to append since the last success.
    pub(super) failures: u32,
}

enum Woken {
    Request(Option<Request>),
    Answer(RecordId, Result<(), Error>),
    Lost,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, owner: RecordId, requests: UnboundedReceiver<Request>) -> Self {
        let loss = shared.loss.subscribe();
        Self {
            shared,
            requests,
            loss,
            queue: Queue::default(),
            halted: Halted::default(),
            maintenance: VecDeque::new(),
            carried: None,
            is_closed: false,
            is_doubted: false,
            under_way: VecDeque::new(),
            answers: FuturesUnordered::new(),
            last: owner,
            failures: 0,
        }
    }

    /// Runs until stopped, or until the lease is lost.
    pub(super) async fn run(mut self) {
        let _alarm = Alarm(Arc::clone(&self.shared));
        let end = self.work().await;
        self.shared.fail_handle(end);
        self.refuse_all();
    }

    async fn work(&mut self) -> Error {
        loop {
            self.fill();
            self.carry_out();
            if self.is_finished() {
                break;
            }
            if self.is_idle() {
                self.shared.end_outage();
            }
            match self.wake().await {
                Woken::Request(request) => self.take_in(request),
                Woken::Answer(id, Ok(())) => {
                    self.note_success();
                    self.shared.acknowledge(id);
                    self.settle(id.place);
                }
                Woken::Answer(_, Err(error)) => {
                    if let Err(loss) = self.recover(error).await {
                        return loss;
                    }
                }
                Woken::Lost => break,
            }
            if std::mem::take(&mut self.is_doubted)
                && let Err(loss) = self.recover(fenced_keeper()).await
            {
                return loss;
            }
        }
        closed()
    }

    async fn wake(&mut self) -> Woken {
        let takes_in = self.carried.is_none() && !self.queue.is_full() && !self.is_closed;
        let Self { requests, answers, loss, .. } = self;
        let mut lost = pin!(loss.wait_for(Option::is_some));
        poll_fn(|context| {
            if lost.as_mut().poll(context).is_ready() {
                return Poll::Ready(Woken::Lost);
            }
            if let Poll::Ready(Some((id, result))) = answers.poll_next_unpin(context) {
                return Poll::Ready(Woken::Answer(id, result));
            }
            if takes_in && let Poll::Ready(request) = requests.poll_recv(context) {
                return Poll::Ready(Woken::Request(request));
            }
            Poll::Pending
        })
        .await
    }

    /// Takes in a request and all further requests that are queued.
    fn take_in(&mut self, request: Option<Request>) {
        let mut next = request;
        self.is_closed = next.is_none();
        while let Some(request) = next.take() {
            match request {
                Request::Commit(batch, notifier) => self.queue.push(batch, notifier),
                Request::MaintenanceWrite(maintenance, reply) => {
                    self.maintenance.push_back((maintenance, reply));
                }
                // The writer may have changed the epoch in the meantime.
                Request::Doubt(epoch) => self.is_doubted |= epoch == self.last.epoch,
                request @ (Request::Resume(_) | Request::Stop) => {
                    self.carried = Some(request);
                    return;
                }
            }
            if !self.queue.is_full() {
                next = self.requests.try_recv().ok();
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty()
    }

    fn is_finished(&self) -> bool {
        let is_stopping = self.is_closed || matches!(self.carried, Some(Request::Stop));
        is_stopping && self.is_idle()
    }

    fn carry_out(&mut self) {
        if self.is_idle()
            && let Some(Request::Resume(partition)) = self.carried
        {
            self.halted.resume(partition);
            self.carried = None;
        }
    }

    /// Sends as many records as may be under way.
    fn fill(&mut self) {
        while self.under_way.len() < self.shared.options.records_under_way_max {
            match self.maintenance.front() {
                // A part lists the live entries at its place, so no record may be under way before it.
                Some((MaintenanceWrite::Part(_), _)) if !self.under_way.is_empty() => return,
                Some(_) => self.run_maintenance_write(),
                None if self.queue.is_empty() => return,
                None => self.next_record(),
            }
        }
    }

    fn next_record(&mut self) {
        let limits =
            FrameLimits { bytes: self.shared.options.record_bytes_max, operations: RECORD_OPERATIONS_MAX };
        let mut waiting = Vec::new();
        self.queue.take_frame(limits, &mut waiting);
        self.judge(&mut waiting);
        let accepted = || waiting.iter().filter(|one| one.refusal.is_none()).map(|one| &one.batch);
        if accepted().all(Batch::is_empty) {
            let (commit, bodies) = (Commit::default(), Bytes::new());
            self.under_way.push_back(UnderWay {
                place: None,
                waiting,
                maintenance: None,
                commit,
                bodies,
                heads_bytes: 0,
            });
            return self.settle(RecordPlace(0));
        }
        let bytes = accepted().map(batch_bytes).sum::<u64>();
        let mut builder = CommitBuilder::with_capacity(usize::try_from(bytes).unwrap_or_default());
        accepted().for_each(|batch| builder.push(batch));
        self.send_commit(builder, waiting, None);
    }

    /// Refuses batches that can't be accepted.
    fn judge(&mut self, waiting: &mut [Waiting]) {
        let (limits, log) = (limits(&self.shared), self.shared.log.limits());
        for one in waiting.iter_mut().filter(|one| one.refusal.is_none()) {
            one.refusal = one.batch.check(limits).and_then(|()| RecordSize::check(&one.batch, log)).err();
        }
        if self.shared.is_full() {
            refuse(waiting, &full("only the room for removals is left"), Batch::grows);
        }
        self.halted.spread(waiting);
    }

    fn run_maintenance_write(&mut self) {
        let Some((maintenance, reply)) = self.maintenance.pop_front() else { return };
        match maintenance {
            MaintenanceWrite::Copy(copies) => {
                let mut builder = CommitBuilder::default();
                copies.iter().for_each(|copy| builder.push_copy(copy));
                self.send_commit(builder, Vec::new(), Some((Bound::End, reply)));
            }
            MaintenanceWrite::Part(from) => {
                let part = self.shared.state().part(from, self.shared.options.part_bytes);
                self.send_other(RecordKind::Part, part.payload, (part.to, reply));
            }
            MaintenanceWrite::Mark(mark) => {
                self.send_other(RecordKind::Mark, mark.encode(), (Bound::End, reply));
            }
        }
    }

    fn send_commit(
        &mut self,
        builder: CommitBuilder,
        waiting: Vec<Waiting>,
        maintenance: Option<(Bound, Reply)>,
    ) {
        let built = builder.finish();
        let (place, heads_bytes) = self.send(RecordKind::Commit, built.payload, built.bodies.clone());
        let (commit, bodies) = (built.commit, built.bodies);
        let one = UnderWay { place: Some(place), waiting, maintenance, commit, bodies, heads_bytes };
        self.under_way.push_back(one);
    }

    fn send_other(&mut self, kind: RecordKind, payload: Vec<u8>, maintenance: (Bound, Reply)) {
        let (place, heads_bytes) = self.send(kind, payload, Bytes::new());
        self.under_way.push_back(UnderWay {
            place: Some(place),
            waiting: Vec::new(),
            maintenance: Some(maintenance),
            commit: Commit::default(),
            bodies: Bytes::new(),
            heads_bytes,
        });
    }

    fn send(&mut self, kind: RecordKind, payload: Vec<u8>, bodies: Bytes) -> (RecordPlace, u64) {
        let id = RecordId { place: self.last.place.next(), epoch: self.last.epoch };
        self.last = id;
        let heads = seal(self.shared.shard, id, kind, payload);
        let heads_bytes = heads.len() as u64;
        let answer = self.shared.log.append(NewRecord { id, kind, heads, bodies });
        self.answers.push(answer.map(move |result| (id, result)).boxed());
        (id.place, heads_bytes)
    }

    /// Applies and answers everything up to `durable`.
    pub(super) fn settle(&mut self, durable: RecordPlace) {
        while self.under_way.front().is_some_and(|first| first.place.is_none_or(|place| place <= durable))
            && let Some(one) = self.under_way.pop_front()
        {
            self.finish(one);
        }
    }

    fn finish(&self, one: UnderWay) {
        if let Some(place) = one.place {
            let bytes_before = self.shared.account().appended_bytes;
            self.shared.apply(place, &one.commit, &one.bodies, one.heads_bytes);
            if let Some((next, reply)) = one.maintenance {
                let written = Written { place, heads_bytes: one.heads_bytes, bytes_before, next };
                // A keeper that has ended needs no answer.
                let _ = reply.send(Ok(written));
            }
        }
        for waiting in one.waiting {
            waiting.notifier.resolve(waiting.refusal.map_or(Ok(()), Err));
        }
    }

    /// Answers all pending requests with the cause of the lease's loss.
    fn refuse_all(&mut self) {
        let cause = self.shared.cause().unwrap_or_else(closed);
        let mut waiting: Vec<Waiting> = self.under_way.drain(..).flat_map(|one| one.waiting).collect();
        self.queue.take_frame(FrameLimits { bytes: u64::MAX, operations: usize::MAX }, &mut waiting);
        for one in waiting {
            one.notifier.resolve(Err(cause.clone()));
        }
        self.maintenance.clear();
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            if let Request::Commit(_, notifier) = request {
                notifier.resolve(Err(cause.clone()));
            }
        }
    }
}

/// The reason for reading the log back although no append failed.
fn fenced_keeper() -> Error {
    Error::Unavailable { reason: "another epoch owns the log".to_owned() }
}

/// Marks the lease as lost when its task panics, which is a bug; otherwise callers would wait for ever.
#[derive(Debug)]
struct Alarm(Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail_handle(Error::InDoubt { reason: "the writer of a shard panicked".to_owned() });
        }
    }
}
