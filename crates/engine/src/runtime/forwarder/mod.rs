//! The task that moves messages from a queue, subscription or dead-letter queue to another entity, in their order
//! (semantics §14.1).
//!
//! It reads like a receiver, a bounded number of messages ahead, and moves each message by a joint step: the target stores
//! it and the source completes it, both or neither. So a message is always in exactly one of the two entities, and a
//! forwarder that has lost its lock moves nothing. One batch is under way at a time, which keeps the order. `refused`
//! handles messages that the target refuses, `route` finds the target, `transfer` builds the joint step.

mod kept;
mod refused;
mod route;
mod transfer;

use std::collections::VecDeque;
use std::sync::Arc;

use peeklock_budget::{Owner, Share};
use tokio::sync::{mpsc, watch};

use self::kept::RefusedBy;
pub(super) use self::refused::{FORWARDING_REASONS, why_undeliverable};
use self::refused::{RefusalOutcome, Unreachable, outcome, split};
pub use self::route::ReadRuleProperties;
pub(super) use self::route::Routes;
use super::actor::{CatchUp, CaughtUp, Shared};
use super::joint::{JointSteps, Unit, UnitFailure, UnitOutcome};
use super::{Clock, EntityRef, Mailbox, MailboxReceiver, Output, PartitionHandle, Request, Response};
use crate::{
    Command, CreditLimit, Delivery, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal, Settlement,
    SubQueue,
};

/// Messages read ahead of the target, including those under way.
const WINDOW_MESSAGES: u64 = 1024;
/// The same limit in bytes of bodies; one message more is always read.
const WINDOW_BYTES: u64 = 4 << 20;
/// Messages sent to the target in one batch.
const BATCH_MESSAGES: usize = 256;
/// Bytes of bodies in one batch; a single larger body is allowed.
const BATCH_BYTES: usize = 1 << 20;
/// Shortest and longest pause after a failed attempt, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 100..=5_000;

/// See the module.
pub(super) struct Forwarder {
    /// Name of the source, recorded in messages forwarded out of its dead-letter queue.
    name: Arc<str>,
    source: QueuePath,
    handle: PartitionHandle,
    /// The target's name; the channel is closed when forwarding is switched off.
    target: watch::Receiver<Box<str>>,
    /// Requests for a notification when nothing is left to do: not yet received, and pending.
    requests: mpsc::UnboundedReceiver<CatchUp>,
    pending: Vec<CatchUp>,
    /// Whether messages were moved since the last such notification.
    has_worked: bool,
    routes: Routes,
    joint: JointSteps,
    clock: Arc<dyn Clock>,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    /// The receiver, and the messages and bytes that it has processed.
    receiver: ReceiverId,
    done: CreditLimit,
    closed: bool,
    waiting: VecDeque<Delivery>,
    /// Bytes of the bodies that wait or are under way to the target.
    held_bytes: usize,
    /// The same number, as reported to the memory budget.
    share: Share,
    /// Set if dead letters stay locked that this target refused.
    refused_by: Option<RefusedBy>,
    last_tag: u64,
    pause_ms: u64,
}

/// The queue whose messages are forwarded.
pub(super) struct Source {
    /// Name of the entity or subscription.
    pub(super) name: String,
    /// The queue or dead-letter queue.
    pub(super) path: QueuePath,
    /// Its partition.
    pub(super) handle: PartitionHandle,
}

/// Index of the step for the target in a unit.
const TARGET_STEP: usize = 0;

/// Reasons why forwarding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It was switched off, or the source is gone.
    Over,
    /// It is retried after a pause.
    Pause,
    /// The target changed: messages refused by the old target are tried again.
    NewTarget,
}

impl Forwarder {
    pub(super) fn new(
        source: Source,
        target: watch::Receiver<Box<str>>,
        requests: mpsc::UnboundedReceiver<CatchUp>,
        shared: &Shared,
    ) -> Self {
        let (mailbox, outputs) = Mailbox::new();
        let Source { name, path, handle } = source;
        Self {
            name: name.into(),
            source: path,
            handle,
            target,
            requests,
            pending: Vec::new(),
            has_worked: false,
            routes: shared.routes.clone(),
            joint: shared.joint.clone(),
            clock: Arc::clone(&shared.clock),
            mailbox,
            outputs,
            receiver: ReceiverId(0),
            done: CreditLimit::default(),
            closed: true,
            waiting: VecDeque::new(),
            held_bytes: 0,
            share: shared.cache.process().share(Owner::Forwarding),
            refused_by: None,
            last_tag: 0,
            pause_ms: *PAUSE_MS.start(),
        }
    }

    /// Forwards until forwarding is switched off.
    pub(super) async fn run(mut self) {
        loop {
            let stop = self.forward().await;
            // Unsettled messages are released in the source.
            self.send(None, Command::CloseReceiver { receiver: self.receiver });
            self.waiting.clear();
            self.report();
            self.closed = true;
            let goes_on = match stop {
                Stop::Over => false,
                Stop::Pause => self.pause().await,
                Stop::NewTarget => true,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Reads and forwards messages until an obstacle.
    async fn forward(&mut self) -> Stop {
        if let Err(stop) = self.open().await {
            return stop;
        }
        loop {
            while let Ok(output) = self.outputs.try_recv() {
                self.take(output);
            }
            match self.target.has_changed() {
                Err(_) => return Stop::Over,
                Ok(true) => {
                    self.target.mark_unchanged();
                    return Stop::NewTarget;
                }
                Ok(false) => {}
            }
            if self.closed {
                return Stop::Pause;
            }
            if self.waiting.is_empty() {
                self.nothing_left();
                tokio::select! {
                    biased;
                    changed = self.target.changed() => {
                        return if changed.is_ok() { Stop::NewTarget } else { Stop::Over };
                    }
                    output = self.outputs.recv() => output.into_iter().for_each(|output| self.take(output)),
                    Some(requested) = self.requests.recv() => self.pending.push(requested),
                    // A pause: the target may not follow its new options yet, and may change often.
                    () = RefusedBy::changed(self.refused_by.as_ref(), &self.routes) => return Stop::Pause,
                }
            } else if let Err(stop) = self.forward_some().await {
                return stop;
            }
        }
    }

    /// Opens a receiver, with credit for the messages that may be read ahead.
    async fn open(&mut self) -> Result<(), Stop> {
        self.receiver = self.routes.next_receiver_id(&self.handle).ok_or(Stop::Over)?;
        let (receiver, source) = (self.receiver, self.source);
        let options = ReceiverOptions { source, mode: ReceiveMode::Forward };
        let opened = self.ask(Command::OpenReceiver { receiver, options, session: None }).await;
        match opened {
            Some(Response::Opened(Ok(_))) => {}
            Some(Response::Opened(Err(Refusal::EntityDeleted))) | None => return Err(Stop::Over),
            Some(_) => return Err(Stop::Pause),
        }
        // Outputs for the earlier receiver have arrived before the answer.
        self.closed = false;
        self.refused_by = None;
        self.done = CreditLimit::default();
        self.give_credit();
        Ok(())
    }

    fn give_credit(&self) {
        let limit = CreditLimit {
            messages: self.done.messages + WINDOW_MESSAGES,
            bytes: self.done.bytes + WINDOW_BYTES,
        };
        self.send(None, Command::Credit { receiver: self.receiver, limit, drain: false });
    }

    /// Sends the next messages to the target.
    async fn forward_some(&mut self) -> Result<(), Stop> {
        self.has_worked = true;
        let name = self.target.borrow().clone();
        let batch = self.next_batch();
        for delivery in &batch {
            self.done.messages += 1;
            self.done.bytes += counted_bytes(delivery);
        }
        let (going, staying) = split(batch);
        let mut stop = Ok(());
        for (delivery, outcome) in staying {
            stop = stop.and(self.settle(&delivery, outcome));
        }
        if !going.is_empty() {
            stop = stop.and(self.move_to_target(&name, going).await);
        }
        self.report();
        if stop.is_ok() {
            self.give_credit();
        }
        stop
    }

    /// Reports the held bytes to the memory budget while no batch is under way.
    fn report(&mut self) {
        self.held_bytes = self.waiting.iter().map(|delivery| delivery.message.content.len()).sum();
        self.share.set(self.held_bytes);
    }

    /// The messages of the next batch, in order.
    fn next_batch(&mut self) -> Vec<Delivery> {
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        while let Some(next) = self.waiting.front()
            && batch.len() < BATCH_MESSAGES
        {
            bytes = bytes.saturating_add(next.message.content.len());
            if !batch.is_empty() && bytes > BATCH_BYTES {
                break;
            }
            batch.extend(self.waiting.pop_front());
        }
        batch
    }

    /// Moves a batch to the target, and settles the messages that it refuses.
    async fn move_to_target(&mut self, name: &str, batch: Vec<Delivery>) -> Result<(), Stop> {
        let Some(target) = self.routes.find(name) else {
            let outcomes =
                batch.iter().map(|delivery| self.settle(delivery, Unreachable::Missing.outcome(name)));
            return outcomes.fold(Ok(()), Result::and);
        };
        let pair = |delivery| Some((self.unit(&delivery, &target)?, delivery));
        let (units, mut batch): (Vec<Unit>, Vec<Delivery>) = batch.into_iter().filter_map(pair).unzip();
        let outcomes = self.joint.carry_out(units).await.ok_or(Stop::Over)?;
        self.put_back(batch.split_off(outcomes.len().min(batch.len())));
        self.conclude((name, &target), &batch, outcomes)
    }

    /// Settles the messages that were not moved.
    fn conclude(
        &mut self,
        (name, target): (&str, &EntityRef),
        batch: &[Delivery],
        outcomes: Vec<UnitOutcome>,
    ) -> Result<(), Stop> {
        if outcomes.iter().any(Result::is_ok) {
            self.pause_ms = *PAUSE_MS.start();
        }
        let refused =
            batch.iter().zip(outcomes).filter_map(|(delivery, outcome)| Some((delivery, outcome.err()?)));
        let outcomes = refused.map(|(delivery, UnitFailure { step, refusal })| {
            let outcome = if step == TARGET_STEP { outcome(&refusal, name) } else { RefusalOutcome::Later };
            if outcome == RefusalOutcome::Later {
                tracing::debug!(source = &*self.name, target = name, %refusal, "forwarding waits");
            }
            if matches!(outcome, RefusalOutcome::Never(_)) && self.source.sub_queue != SubQueue::Main {
                // The first ones: the target may have changed since.
                self.refused_by.get_or_insert_with(|| RefusedBy::new(name, &target.options));
            }
            self.settle(delivery, outcome)
        });
        outcomes.fold(Ok(()), Result::and)
    }

    /// Settles a message that was not forwarded by its outcome.
    fn settle(&mut self, delivery: &Delivery, outcome: RefusalOutcome) -> Result<(), Stop> {
        let why = match (outcome, self.source.sub_queue) {
            (RefusalOutcome::Later, _)
            | (RefusalOutcome::NotNow(_), SubQueue::DeadLetter | SubQueue::TransferDeadLetter) => {
                return Err(Stop::Pause);
            }
            // It stays locked in the dead-letter queue, so that it is not read again before there is another target.
            (RefusalOutcome::Never(_), SubQueue::DeadLetter | SubQueue::TransferDeadLetter) => return Ok(()),
            // No target can accept it: it becomes a transfer dead letter, which can be received.
            (RefusalOutcome::Nowhere(why), _)
            | (RefusalOutcome::Never(why) | RefusalOutcome::NotNow(why), SubQueue::Main) => why,
        };
        let tokens = delivery.message.lock.iter().map(|lock| lock.token).collect();
        let settlement = Settlement::DeadLetter { why: Arc::new(why), modify: Vec::new() };
        // A refusal ends this attempt, see `take`: the message would stay locked without an end.
        self.last_tag += 1;
        let tag = Some(self.last_tag);
        self.send(tag, Command::Settle { queue: self.source.queue, tokens, settlement });
        Ok(())
    }

    /// Pauses before the next attempt, unless the target changes; false when forwarding is switched off.
    async fn pause(&mut self) -> bool {
        let until = self.clock.now().plus_ms(self.pause_ms);
        self.pause_ms = (self.pause_ms * 2).min(*PAUSE_MS.end());
        let mut sleep = self.clock.sleep_until(until);
        self.nothing_left();
        loop {
            tokio::select! {
                biased;
                changed = self.target.changed() => return changed.is_ok(),
                () = &mut sleep => return true,
                Some(requested) = self.requests.recv() => {
                    self.pending.push(requested);
                    self.nothing_left();
                }
            }
        }
    }

    /// Answers all pending requests: nothing is left that can be done now.
    fn nothing_left(&mut self) {
        let Some(requested) = self.pending.pop() else { return };
        let was_left = std::mem::take(&mut self.has_worked);
        for requested in self.pending.drain(..).chain([requested]) {
            // The requester may be gone.
            let _ = requested.answer.send(CaughtUp { was_due: was_left, next: None });
        }
    }

    /// Sends a command to the source and waits for the answer; `None` if there will be none. Other outputs are processed
    /// meanwhile.
    async fn ask(&mut self, command: Command) -> Option<Response> {
        self.last_tag += 1;
        let tag = self.last_tag;
        let request = Request { mailbox: self.mailbox.clone(), tag: Some(tag), command };
        self.handle.submit(request);
        loop {
            match self.outputs.recv().await? {
                Output::Response { tag: answered, response } if answered == tag => return Some(response),
                output => self.take(output),
            }
        }
    }

    /// Sends a command to the source.
    fn send(&self, tag: Option<u64>, command: Command) {
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    /// Processes an output; outputs for an earlier receiver are ignored.
    fn take(&mut self, output: Output) {
        match output {
            Output::Delivery(mut delivery) if delivery.receiver == self.receiver && !self.closed => {
                delivery.share = None;
                self.held_bytes += delivery.message.content.len();
                self.share.set(self.held_bytes);
                self.waiting.push_back(*delivery);
            }
            Output::ReceiverClosed { receiver, .. } if receiver == self.receiver => self.closed = true,
            Output::Response { response: Response::Settled(failures), .. } if !failures.is_empty() => {
                self.closed = true;
            }
            _ => {}
        }
    }
}

/// The size that the source has counted against the credit, known even for a body that can't be read.
fn counted_bytes(delivery: &Delivery) -> u64 {
    delivery.departing.as_ref().map_or(0, |departing| departing.content_bytes.into())
}
