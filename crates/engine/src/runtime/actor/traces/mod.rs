//! Spans of traced messages, made from the partition's commands and decisions.
//!
//! Without [`Spans`] this costs a few comparisons. With it, the properties of each message are read when it is sent and
//! when it is delivered; the memory for sampled messages is bounded.

mod attempt;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::commits::CommitNumber;
use crate::event::Removal;
use crate::partition::Partition;
use crate::runtime::spans::{Disposition, Operation, Span, Spans, Trace};
use crate::{
    Event, LockToken, MessageView, QueueId, ReceiveMode, Received, ReceiverId, Refusal, SequenceNumber,
};

/// Maximum number of locks remembered. Beyond it, spans of deliveries start when they are sent, and settlements have no
/// spans.
const LOCKS_MAX: usize = 16_384;
/// Maximum number of spans that wait for a commit; further ones are dropped.
const WAITING_MAX: usize = 16_384;

/// A lock whose message may be traced.
#[derive(Debug)]
struct Held {
    queue: QueueId,
    locked_ns: u64,
    /// Set when the message was delivered, if it is sampled.
    trace: Option<Box<dyn Trace>>,
}

/// A span that ends when a commit is durable.
#[derive(Debug)]
struct Waiting {
    after: Option<CommitNumber>,
    done: Done,
}

/// A finished operation.
#[derive(Debug)]
struct Done {
    operation: Operation,
    queue: QueueId,
    started_ns: u64,
    sequence_number: Option<SequenceNumber>,
    trace: Box<dyn Trace>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Traces(Option<Box<Tracing>>);

#[derive(Debug)]
struct Tracing {
    spans: Arc<dyn Spans>,
    locks: FxHashMap<LockToken, Held>,
    /// Receivers that do not settle.
    deleting: FxHashSet<ReceiverId>,
    waiting: VecDeque<Waiting>,
}

/// Names of entities in spans.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) entity: &'a str,
    pub(super) partition: &'a Partition,
}

impl Names<'_> {
    fn subscription(&self, queue: QueueId) -> Option<&str> {
        self.partition.subscription(queue).map(|subscription| &*subscription.name)
    }
}

impl Traces {
    pub(super) fn new(spans: Option<Arc<dyn Spans>>) -> Self {
        Self(spans.map(|spans| {
            let (locks, deleting) = (FxHashMap::default(), FxHashSet::default());
            Box::new(Tracing { spans, locks, deleting, waiting: VecDeque::new() })
        }))
    }

    /// Tracks locks and receive-and-delete receivers.
    pub(super) fn note(&mut self, events: &[Event]) {
        let Some(tracing) = &mut self.0 else { return };
        let mut now_ns = None;
        for event in events {
            tracing.note(event, &mut now_ns);
        }
    }

    /// Records the result of a joint step.
    pub(super) fn joined(&mut self, events: &[Event]) {
        let Some(tracing) = &mut self.0 else { return };
        let now_ns = tracing.spans.now_ns();
        for event in events {
            tracing.joined(event, now_ns);
        }
        self.note(events);
    }

    /// Operations recorded since the last call become durable with this commit.
    pub(super) fn stored_by(&mut self, commit: CommitNumber) {
        let Some(tracing) = &mut self.0 else { return };
        for waiting in tracing.waiting.iter_mut().rev().take_while(|waiting| waiting.after.is_none()) {
            waiting.after = Some(commit);
        }
    }

    /// Records the spans of operations up to `durable`, which are durable and answered.
    pub(super) fn durable(&mut self, durable: CommitNumber, names: Names<'_>) {
        let Some(tracing) = &mut self.0 else { return };
        let is_over = |waiting: &Waiting| waiting.after.is_some_and(|after| after <= durable);
        while tracing.waiting.front().is_some_and(is_over)
            && let Some(waiting) = tracing.waiting.pop_front()
        {
            tracing.record(&waiting.done, None, names);
        }
    }

    /// Records the delivery of a message to its receiver.
    pub(super) fn delivered(&mut self, message: &Received, receiver: Option<ReceiverId>, names: Names<'_>) {
        let Some(tracing) = &mut self.0 else { return };
        tracing.delivered(message, receiver, names);
    }

    /// Discards locks and waiting spans when the state is read back from the store.
    pub(super) fn start_over(&mut self) {
        let Some(tracing) = &mut self.0 else { return };
        tracing.locks.clear();
        tracing.deleting.clear();
        tracing.waiting.clear();
    }
}

impl Tracing {
    fn note(&mut self, event: &Event, now_ns: &mut Option<u64>) {
        match event {
            Event::Locked { queue, token, .. } if self.locks.len() < LOCKS_MAX => {
                let locked_ns = *now_ns.get_or_insert_with(|| self.spans.now_ns());
                self.locks.insert(*token, Held { queue: *queue, locked_ns, trace: None });
            }
            Event::ReceiverOpened { receiver, options } if options.mode == ReceiveMode::ReceiveAndDelete => {
                self.deleting.insert(*receiver);
            }
            Event::ReceiverClosed { receiver } => {
                self.deleting.remove(receiver);
            }
            Event::SubscriptionRemoved { queue, .. } => self.locks.retain(|_, held| held.queue != *queue),
            _ => {
                if let Some((token, _)) = ended_lock(event) {
                    self.locks.remove(&token);
                }
            }
        }
    }

    fn joined(&mut self, event: &Event, now_ns: u64) {
        let (operation, queue, number, trace) = match event {
            // A forwarded message was published at its source.
            Event::Accepted { record, number, content, .. }
                if record.extra().is_none_or(|extra| extra.forwarded.is_none()) =>
            {
                (Operation::Publish, QueueId(0), Some(*number), self.spans.trace(content))
            }
            Event::Published(published)
                if published
                    .copies
                    .iter()
                    .all(|copy| copy.record.extra().is_none_or(|extra| extra.forwarded.is_none())) =>
            {
                let trace = published.content.as_ref().and_then(|content| self.spans.trace(content));
                (Operation::Publish, QueueId(0), Some(published.number), trace)
            }
            _ => {
                let Some((token, Some(disposition))) = ended_lock(event) else { return };
                let Some(held) = self.locks.remove(&token) else { return };
                (Operation::Settle(disposition), held.queue, None, held.trace)
            }
        };
        if let Some(trace) = trace {
            self.wait(Done { operation, queue, started_ns: now_ns, sequence_number: number, trace });
        }
    }

    fn wait(&mut self, done: Done) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Waiting { after: None, done });
        }
    }

    fn delivered(&mut self, message: &Received, receiver: Option<ReceiverId>, names: Names<'_>) {
        let token = message.lock.map(|lock| lock.token);
        let Some(trace) = self.spans.trace(&message.content) else {
            token.map(|token| self.locks.remove(&token));
            return;
        };
        let ended_ns = self.spans.now_ns();
        let held = token.and_then(|token| self.locks.get_mut(&token));
        let MessageView { queue, enqueued_at, delivery_count, .. } = &message.view;
        trace.record(&Span {
            operation: Operation::Deliver,
            entity: names.entity,
            subscription: names.subscription(*queue),
            started_ns: held.as_ref().map_or(ended_ns, |held| held.locked_ns),
            ended_ns,
            sequence_number: Some(message.view.shown_number()),
            delivery: Some((*enqueued_at, *delivery_count)),
            refusal: None,
        });
        let settles = receiver.is_none_or(|receiver| !self.deleting.contains(&receiver));
        if let Some(held) = held.filter(|_| settles) {
            held.trace = Some(trace);
        }
    }

    /// Ends a span now.
    fn record(&self, done: &Done, refusal: Option<&Refusal>, names: Names<'_>) {
        done.trace.record(&Span {
            operation: done.operation,
            entity: names.entity,
            subscription: names.subscription(done.queue),
            started_ns: done.started_ns,
            ended_ns: self.spans.now_ns(),
            sequence_number: done.sequence_number,
            delivery: None,
            refusal,
        });
    }
}

/// The lock that an event ends, and its holder's disposition if the holder ended it.
fn ended_lock(event: &Event) -> Option<(LockToken, Option<Disposition>)> {
    use crate::event::Change;
    match event {
        Event::Changed { lock: Some(token), change, .. } => {
            let disposition = match change {
                Change::Returned | Change::ReturnedModified => Some(Disposition::Abandon),
                Change::Deferred | Change::DeferralDeadLettered => Some(Disposition::Defer),
                Change::DeadLettered => Some(Disposition::DeadLetter),
                Change::HeldBackNoLonger | Change::Undeferred => None,
            };
            Some((*token, disposition))
        }
        Event::Removed { removal: Removal::Completed(token), .. } => {
            Some((*token, Some(Disposition::Complete)))
        }
        Event::Removed { removal: Removal::Expired(Some(token)), .. }
        | Event::Quarantined { lock: Some(token), .. } => Some((*token, None)),
        Event::Released { token } => Some((*token, Some(Disposition::Release))),
        _ => None,
    }
}
