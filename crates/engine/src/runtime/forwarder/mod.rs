//! The task that takes messages from a queue, subscription or dead-letter queue to another entity, in their order
//! (semantics §14.1).
//!
//! It reads like a receiver, a bounded number ahead, and has each message moved by a joint step of target and source: the one
//! stores it, the other completes it, both or neither. So a message is in exactly one of both whatever happens, and a
//! forwarder that has lost its lock moves nothing. One batch is under way at a time, which keeps the order. `refused` is
//! what becomes of those the target did not take, `route` finds it, `transfer` is what it gets.

mod refused;
mod route;
mod transfer;

use std::collections::VecDeque;
use std::sync::Arc;

use peeklock_budget::{Budget, Owner, Share};
use smallvec::SmallVec;
use tokio::sync::{mpsc, watch};

pub(super) use self::refused::why_undeliverable;
use self::refused::{RefusalOutcome, Unreachable, outcome, too_many_hops};
pub use self::route::ReadRuleProperties;
pub(super) use self::route::Routes;
use super::actor::{CatchUp, CaughtUp};
use super::joint::{JointSteps, Unit, UnitFailure, UnitOutcome, UnitStep};
use super::{Clock, EntityRef, Mailbox, MailboxReceiver, Output, PartitionHandle, Request, Response};
use crate::{
    Command, CreditLimit, Delivery, HOPS_MAX, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal,
    Settlement, SubQueue,
};

/// Messages read ahead of the target, those under way included.
const WINDOW_MESSAGES: u64 = 1024;
/// The same in bytes of content; one message more is always read.
const WINDOW_BYTES: u64 = 4 << 20;
/// Messages handed to the target at a time.
const BATCH_MESSAGES: usize = 256;
/// Contents handed over at a time, in bytes, unless a single one is larger.
const BATCH_BYTES: usize = 1 << 20;
/// First and longest pause after an attempt that failed, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 100..=5_000;

/// See the module.
pub(super) struct Forwarder {
    /// The source as messages forwarded out of its dead-letter queue remember it.
    name: Arc<str>,
    source: QueuePath,
    handle: PartitionHandle,
    /// The target's name; nobody tells it any more when forwarding is over.
    target: watch::Receiver<Box<str>>,
    /// Who wants to know when nothing is left to do, before and after it was heard.
    requests: mpsc::UnboundedReceiver<CatchUp>,
    pending: Vec<CatchUp>,
    /// Whether anything was done since somebody was told that nothing is left.
    has_worked: bool,
    routes: Routes,
    joint: JointSteps,
    clock: Arc<dyn Clock>,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    /// What it reads with, and how much of that it has dealt with.
    receiver: ReceiverId,
    done: CreditLimit,
    closed: bool,
    waiting: VecDeque<Delivery>,
    /// Contents of those that wait and of those under way to the target, in bytes.
    held_bytes: usize,
    /// The same, as the memory budget knows it.
    share: Share,
    last_tag: u64,
    pause_ms: u64,
}

/// The step of a unit that is about the target.
const TARGET_STEP: usize = 0;

/// Why forwarding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It is over.
    Over,
    /// It is tried again after a while.
    Pause,
    /// It begins anew: what nobody took may find somebody who does.
    NewTarget,
}

impl Forwarder {
    pub(super) fn new(
        name: String,
        source: QueuePath,
        handle: PartitionHandle,
        (target, requests): (watch::Receiver<Box<str>>, mpsc::UnboundedReceiver<CatchUp>),
        (routes, joint): (Routes, JointSteps),
        clock: Arc<dyn Clock>,
        budget: &Budget,
    ) -> Self {
        let (mailbox, outputs) = Mailbox::new();
        Self {
            name: name.into(),
            source,
            handle,
            target,
            requests,
            pending: Vec::new(),
            has_worked: false,
            routes,
            joint,
            clock,
            mailbox,
            outputs,
            receiver: ReceiverId(0),
            done: CreditLimit::default(),
            closed: true,
            waiting: VecDeque::new(),
            held_bytes: 0,
            share: budget.share(Owner::Forwarding),
            last_tag: 0,
            pause_ms: *PAUSE_MS.start(),
        }
    }

    /// Forwards until nobody tells a target any more.
    pub(super) async fn run(mut self) {
        loop {
            let stop = self.forward().await;
            // What is in hand goes back to where it was.
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

    /// Reads and hands over until something is in the way.
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
                }
            } else if let Err(stop) = self.forward_some().await {
                return stop;
            }
        }
    }

    /// Opens a receiver with as much credit as may be read ahead.
    async fn open(&mut self) -> Result<(), Stop> {
        self.receiver = self.routes.next_receiver_id(&self.handle).ok_or(Stop::Over)?;
        let (receiver, source) = (self.receiver, self.source);
        let options = ReceiverOptions { source, mode: ReceiveMode::Forward };
        self.closed = false;
        let opened = self.ask(Command::OpenReceiver { receiver, options, session: None }).await;
        match opened {
            Some(Response::Opened(Ok(_))) => {}
            Some(Response::Opened(Err(Refusal::EntityDeleted))) | None => return Err(Stop::Over),
            Some(_) => return Err(Stop::Pause),
        }
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

    /// Hands the next messages to the target.
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
            stop = stop.and(self.hand_over(&name, going).await);
        }
        self.report();
        if stop.is_ok() {
            self.give_credit();
        }
        stop
    }

    /// Tells the memory budget what is held while no batch is under way.
    fn report(&mut self) {
        self.held_bytes = self.waiting.iter().map(|delivery| delivery.message.content.len()).sum();
        self.share.set(self.held_bytes);
    }

    /// As many messages as go together, in order.
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

    async fn hand_over(&mut self, name: &str, batch: Vec<Delivery>) -> Result<(), Stop> {
        let Some(target) = self.routes.find(name) else {
            let outcomes =
                batch.iter().map(|delivery| self.settle(delivery, Unreachable::Missing.outcome(name)));
            return outcomes.fold(Ok(()), Result::and);
        };
        let pair = |delivery| Some((self.unit(&delivery, &target)?, delivery));
        let (units, batch): (Vec<Unit>, Vec<Delivery>) = batch.into_iter().filter_map(pair).unzip();
        let outcomes = self.joint.carry_out(units).await.ok_or(Stop::Over)?;
        self.conclude(name, &batch, outcomes)
    }

    /// A message arrives there and leaves here.
    fn unit(&self, delivery: &Delivery, target: &EntityRef) -> Option<Unit> {
        let messages = SmallVec::from_iter([self.transfer(delivery, &target.options)?]);
        let tokens = SmallVec::from_iter([delivery.message.lock.as_ref()?.token]);
        let complete = Command::Settle { queue: self.source.queue, tokens, settlement: Settlement::Complete };
        let step =
            |entity: &PartitionHandle, command| UnitStep { entity: entity.clone(), command, via: None };
        let arrive = step(&target.partition, Command::Send { messages });
        Some(Unit { steps: SmallVec::from_buf([arrive, step(&self.handle, complete)]) })
    }

    /// What did not move gets its outcome.
    fn conclude(&mut self, name: &str, batch: &[Delivery], outcomes: Vec<UnitOutcome>) -> Result<(), Stop> {
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
            self.settle(delivery, outcome)
        });
        outcomes.fold(Ok(()), Result::and)
    }

    /// Lets a message that did not go on meet its outcome.
    fn settle(&self, delivery: &Delivery, outcome: RefusalOutcome) -> Result<(), Stop> {
        let why = match (outcome, self.source.sub_queue) {
            (RefusalOutcome::Later, _)
            | (RefusalOutcome::NotNow(_), SubQueue::DeadLetter | SubQueue::TransferDeadLetter) => {
                return Err(Stop::Pause);
            }
            // It stays, and locked, so that nobody meets it again before the next start or the next target.
            (RefusalOutcome::Never(_), SubQueue::DeadLetter | SubQueue::TransferDeadLetter) => return Ok(()),
            // No target can have it: it becomes a transfer dead letter, which can be received.
            (RefusalOutcome::Nowhere(why), _)
            | (RefusalOutcome::Never(why) | RefusalOutcome::NotNow(why), SubQueue::Main) => why,
        };
        let tokens = delivery.message.lock.iter().map(|lock| lock.token).collect();
        let settlement = Settlement::DeadLetter { why: Arc::new(why), modify: Vec::new() };
        self.send(None, Command::Settle { queue: self.source.queue, tokens, settlement });
        Ok(())
    }

    /// Waits before the next attempt, unless the target changes; false when forwarding is over.
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

    /// Tells all who asked that nothing is left that can be done now.
    fn nothing_left(&mut self) {
        let Some(requested) = self.pending.pop() else { return };
        let was_left = std::mem::take(&mut self.has_worked);
        for requested in self.pending.drain(..).chain([requested]) {
            // Whoever asked may be gone.
            let _ = requested.answer.send(CaughtUp { was_due: was_left, next: None });
        }
    }

    /// Asks the source and waits for the answer; `None` when there will be none. What else arrives meanwhile is kept.
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

    /// Tells the source.
    fn send(&self, tag: Option<u64>, command: Command) {
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    /// Takes note of what arrived; what is about an earlier receiver is void.
    fn take(&mut self, output: Output) {
        match output {
            Output::Delivery(mut delivery) if delivery.receiver == self.receiver && !self.closed => {
                delivery.share = None;
                self.held_bytes += delivery.message.content.len();
                self.share.set(self.held_bytes);
                self.waiting.push_back(*delivery);
            }
            Output::ReceiverClosed { receiver, .. } if receiver == self.receiver => self.closed = true,
            _ => {}
        }
    }
}

/// What the source has counted against the credit, also of a content that can't be read.
fn counted_bytes(delivery: &Delivery) -> u64 {
    delivery.departing.as_ref().map_or(0, |departing| departing.content_bytes.into())
}

/// Those that may go on, and those that may not whatever the target says.
fn split(batch: Vec<Delivery>) -> (Vec<Delivery>, Vec<(Delivery, RefusalOutcome)>) {
    let (mut going, mut staying) = (Vec::with_capacity(batch.len()), Vec::new());
    for delivery in batch {
        let hops = delivery.message.view.forwarded.as_ref().map_or(0, |forwarded| forwarded.hops);
        if hops >= HOPS_MAX {
            staying.push((delivery, too_many_hops()));
        } else {
            going.push(delivery);
        }
    }
    (going, staying)
}
