//! Counts the partition's decisions: plain integers within a turn, published at its end.
//!
//! Each event costs one match and a few additions, each delivery one comparison more; publishing costs one atomic addition
//! per changed number and entity at the end of a turn. Locks are remembered up to a limit, which bounds the memory for
//! measuring how long they are held: beyond it, locks are counted but not measured.

mod cause;
mod reasons;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use peeklock_metrics::Stopwatch;
use rustc_hash::FxHashMap;

pub(super) use self::cause::Cause;
use self::cause::{failures, sent};
use self::reasons::count_dead_letter;
use super::Actor;
use super::commits::CommitNumber;
use crate::event::{Change, Removal};
use crate::metrics::{EntityMetrics, Tally};
use crate::partition::Record;
use crate::{Delivery, Effect, Event, LockToken, Publication, QueueId, ReceiverId, SubQueue, Timestamp};

/// Maximum number of locks measured at a time.
const MEASURED_LOCKS_MAX: usize = 4096;
/// Maximum number of commits measured at a time.
const MEASURED_COMMITS_MAX: usize = 1024;

/// A measured lock.
#[derive(Debug)]
struct Held {
    queue: QueueId,
    since: Timestamp,
    is_forwarding: bool,
}

/// A commit with messages whose senders wait for the acknowledgement.
#[derive(Debug)]
struct Storing {
    commit: CommitNumber,
    since_us: u64,
    messages: u64,
}

/// The tally of a queue or subscription, and the metrics in which it is published.
#[derive(Debug, Default)]
struct Counted {
    tally: Tally,
    metrics: Option<Arc<EntityMetrics>>,
    is_touched: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tallies {
    id: QueueId,
    entity: Counted,
    subscriptions: FxHashMap<QueueId, Counted>,
    /// Subscriptions with something to publish.
    touched: Vec<QueueId>,
    held: FxHashMap<LockToken, Held>,
    links: FxHashMap<ReceiverId, (QueueId, bool)>,
    /// Messages accepted since the last commit.
    accepted: u64,
    storing: VecDeque<Storing>,
    stopwatch: Stopwatch,
}

impl Tallies {
    pub(super) fn new(id: QueueId, metrics: Arc<EntityMetrics>) -> Self {
        Self {
            id,
            entity: Counted { metrics: Some(metrics), ..Counted::default() },
            subscriptions: FxHashMap::default(),
            touched: Vec::new(),
            held: FxHashMap::default(),
            links: FxHashMap::default(),
            accepted: 0,
            storing: VecDeque::new(),
            stopwatch: Stopwatch::default(),
        }
    }

    fn of(&mut self, queue: QueueId) -> &mut Tally {
        if queue == self.id {
            self.entity.is_touched = true;
            return &mut self.entity.tally;
        }
        let counted = self.subscriptions.entry(queue).or_default();
        if !std::mem::replace(&mut counted.is_touched, true) {
            self.touched.push(queue);
        }
        &mut counted.tally
    }

    /// Counts the result of one command, timer or joint step. Not inlined, so that profiles show the cost of counting.
    #[inline(never)]
    pub(super) fn note(&mut self, now: Timestamp, cause: Cause, events: &[Event], effects: &[Effect]) {
        let accepted_before = self.accepted;
        let failed: u64 = events.iter().map(|event| self.note_event(now, cause, event)).sum();
        match cause {
            Cause::Abandon(queue, count) => {
                // Each abandoned message ended a lock, and so was also counted as an expired lock.
                let abandoned = count.saturating_sub(failures(effects));
                let totals = &mut self.of(queue).totals;
                totals.abandoned += abandoned;
                totals.locks_expired -= abandoned.min(failed);
            }
            Cause::Send => {
                let accepted = self.accepted - accepted_before;
                let duplicates = sent(effects).saturating_sub(accepted);
                if duplicates > 0 {
                    self.of(self.id).totals.duplicates += duplicates;
                }
            }
            Cause::Joint | Cause::Other => {}
        }
        for effect in effects {
            if let Effect::Deliver { lock: Some(lock), departing: Some(_), .. } = effect
                && let Some(held) = self.held.get_mut(&lock.token)
            {
                held.is_forwarding = true;
            }
        }
    }

    /// Counts an event; returns 1 if it counted as an expired lock of the queue in `cause`.
    fn note_event(&mut self, now: Timestamp, cause: Cause, event: &Event) -> u64 {
        match event {
            Event::Accepted { record, content, .. } => self.note_accepted(record, content.len()),
            Event::Published(publication) => self.note_published(publication),
            Event::Changed { queue, record, lock, change, .. } => {
                self.unlocked(now, *queue, *lock);
                return self.note_changed(cause, *queue, record, *change, lock.is_some());
            }
            Event::Removed { queue, removal, .. } => self.note_removed(now, *queue, *removal),
            Event::Deleted(deletion) => {
                self.of(deletion.queue).totals.deleted += deletion.numbers.len() as u64;
            }
            Event::Locked { queue, token, receiver, .. } => {
                if self.held.len() < MEASURED_LOCKS_MAX {
                    self.held.insert(*token, Held { queue: *queue, since: now, is_forwarding: false });
                }
                if receiver.is_none() {
                    self.of(*queue).totals.delivered += 1;
                }
            }
            Event::Renewed { .. } => self.of(self.id).totals.lock_renewals += 1,
            Event::SessionRenewed { queue, .. } => self.of(*queue).totals.lock_renewals += 1,
            Event::Released { token } | Event::Quarantined { lock: Some(token), .. } => {
                self.held.remove(token);
            }
            Event::SubscriptionRemoved { queue, .. } => self.note_subscription_removed(*queue),
            _ => self.note_link(event),
        }
        0
    }

    /// Publishes what is left to publish of a deleted subscription, whose links have ended: if it has no series of its own,
    /// it is part of a sum that remains.
    fn note_subscription_removed(&mut self, queue: QueueId) {
        self.held.retain(|_, held| held.queue != queue);
        let closed: Vec<_> = self.links.extract_if(|_, (of, _)| *of == queue).collect();
        for (_, (_, is_sender)) in closed {
            self.add_link(queue, is_sender, -1);
        }
        if let Some(mut counted) = self.subscriptions.remove(&queue) {
            publish(&mut counted);
        }
    }

    fn note_published(&mut self, publication: &Publication) {
        if publication.scheduled.is_none() {
            let totals = &mut self.of(self.id).totals;
            totals.accepted += 1;
            totals.accepted_bytes += u64::from(publication.content_bytes);
            self.accepted += 1;
        }
        for copy in &publication.copies {
            let totals = &mut self.of(copy.queue).totals;
            totals.accepted += 1;
            totals.accepted_bytes += u64::from(publication.content_bytes);
            if copy.record.sub_queue() == SubQueue::DeadLetter {
                count_dead_letter(totals, &copy.record, true);
            }
        }
    }

    /// Counts a changed message; returns 1 if it counted as an expired lock of the queue in `cause`.
    fn note_changed(
        &mut self,
        cause: Cause,
        queue: QueueId,
        record: &Record,
        change: Change,
        was_locked: bool,
    ) -> u64 {
        let totals = &mut self.of(queue).totals;
        let has_failed = match change {
            Change::Returned | Change::ReturnedModified => was_locked,
            Change::Deferred => {
                totals.deferred += 1;
                false
            }
            Change::DeferralDeadLettered => {
                totals.deferred += 1;
                count_dead_letter(totals, record, false);
                false
            }
            Change::DeadLettered => count_dead_letter(totals, record, false) && was_locked,
            Change::HeldBackNoLonger | Change::Undeferred => false,
        };
        if !has_failed {
            return 0;
        }
        if cause == Cause::Joint {
            totals.abandoned += 1;
            return 0;
        }
        totals.locks_expired += 1;
        u64::from(matches!(cause, Cause::Abandon(of, _) if of == queue))
    }

    fn note_accepted(&mut self, record: &Record, bytes: usize) {
        let totals = &mut self.of(self.id).totals;
        if record.sub_queue() == SubQueue::TransferDeadLetter {
            totals.dead_lettered_forwarding += 1;
            return;
        }
        totals.accepted += 1;
        totals.accepted_bytes += bytes as u64;
        self.accepted += 1;
    }

    fn note_removed(&mut self, now: Timestamp, queue: QueueId, removal: Removal) {
        match removal {
            Removal::Completed(token) => {
                let is_forwarding = self.unlocked(now, queue, Some(token));
                let totals = &mut self.of(queue).totals;
                *(if is_forwarding { &mut totals.forwarded } else { &mut totals.completed }) += 1;
            }
            Removal::Expired(lock) => {
                self.unlocked(now, queue, lock);
                self.of(queue).totals.expired += 1;
            }
            Removal::Cancelled => self.of(queue).totals.deleted += 1,
        }
    }

    /// Counts the end of a lock; returns whether it was a forwarder's.
    fn unlocked(&mut self, now: Timestamp, queue: QueueId, lock: Option<LockToken>) -> bool {
        let Some(held) = lock.and_then(|token| self.held.remove(&token)) else { return false };
        if !held.is_forwarding {
            self.of(queue).hold.observe_us(us_between(held.since, now), 1);
        }
        held.is_forwarding
    }

    fn note_link(&mut self, event: &Event) {
        let (link, queue, is_sender) = match event {
            Event::ReceiverOpened { receiver, options } => (*receiver, options.source.queue, false),
            Event::Watched { watcher, queue, sends: true } => (*watcher, *queue, true),
            Event::ReceiverClosed { receiver } => {
                if let Some((queue, is_sender)) = self.links.remove(receiver) {
                    self.add_link(queue, is_sender, -1);
                }
                return;
            }
            _ => return,
        };
        if self.links.insert(link, (queue, is_sender)).is_none() {
            self.add_link(queue, is_sender, 1);
        }
    }

    fn add_link(&mut self, queue: QueueId, is_sender: bool, change: i64) {
        let tally = self.of(queue);
        *(if is_sender { &mut tally.senders } else { &mut tally.receivers }) += change;
    }

    /// Counts a delivery that was sent to its receiver.
    #[inline(never)]
    pub(super) fn delivered(&mut self, now: Timestamp, delivery: &Delivery) {
        if delivery.departing.is_some() {
            return;
        }
        let (view, bytes) = (&delivery.message.view, delivery.message.content.len());
        let tally = self.of(view.queue);
        tally.totals.delivered += 1;
        tally.totals.delivered_bytes += bytes as u64;
        if view.delivery_count == 0 && view.sub_queue == SubQueue::Main {
            tally.wait.observe_us(us_between(view.enqueued_at, now), 1);
        }
    }

    /// Messages accepted since the last call become durable with this commit.
    #[inline(never)]
    pub(super) fn stored_by(&mut self, commit: CommitNumber) {
        let messages = std::mem::take(&mut self.accepted);
        if messages > 0 && self.storing.len() < MEASURED_COMMITS_MAX {
            self.storing.push_back(Storing { commit, since_us: self.stopwatch.elapsed_us(), messages });
        }
    }

    /// Measures the commits up to `durable`, which are durable and answered.
    #[inline(never)]
    pub(super) fn durable(&mut self, durable: CommitNumber) {
        if self.storing.front().is_none_or(|first| first.commit > durable) {
            return;
        }
        let now_us = self.stopwatch.elapsed_us();
        while let Some(stored) = self.storing.front().filter(|first| first.commit <= durable) {
            let (since_us, messages) = (stored.since_us, stored.messages);
            self.storing.pop_front();
            let took_us = now_us.saturating_sub(since_us);
            self.of(self.id).accept.observe_us(took_us, messages);
        }
    }

    /// Resets links and locks when the state is read back from the store.
    pub(super) fn start_over(&mut self) {
        for (_, (queue, is_sender)) in std::mem::take(&mut self.links) {
            self.add_link(queue, is_sender, -1);
        }
        self.held.clear();
        self.storing.clear();
        self.accepted = 0;
    }

    /// Publishes this turn's counts. `find` returns the metrics of a subscription.
    #[inline(never)]
    fn publish(&mut self, find: impl Fn(QueueId) -> Option<Arc<EntityMetrics>>) {
        if std::mem::take(&mut self.entity.is_touched) {
            publish(&mut self.entity);
        }
        let subscriptions = &mut self.subscriptions;
        self.touched.retain(|queue| {
            let Some(counted) = subscriptions.get_mut(queue) else { return false };
            if counted.metrics.is_none() {
                counted.metrics = find(*queue);
            }
            let is_known = counted.metrics.is_some();
            if is_known {
                counted.is_touched = false;
                publish(counted);
            }
            !is_known
        });
    }
}

impl Actor {
    /// Publishes the counts at the end of a turn.
    pub(super) fn show_tallies(&mut self) {
        let subscriptions = &self.owned.subscriptions;
        self.tallies.publish(|queue| subscriptions.metrics(queue));
    }
}

fn publish(counted: &mut Counted) {
    if let Some(metrics) = &counted.metrics {
        metrics.publish(&mut counted.tally);
    }
}

fn us_between(from: Timestamp, to: Timestamp) -> u64 {
    to.0.saturating_sub(from.0).saturating_mul(1000)
}
