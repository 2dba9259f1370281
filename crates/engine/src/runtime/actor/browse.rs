//! Answers that carry contents: browsing and deferred messages. Rare and possibly large, so they keep apart from
//! deliveries and acknowledgements and may overtake each other.

use std::collections::VecDeque;
use std::task::Context;

use peeklock_storage::{Error, PartitionId, Shard};

use super::commits::CommitNumber;
use super::limits::{BROWSES_READING_MAX, READ_KEYS_MAX};
use super::reads::{Content, Reads, Source};
use crate::command::AnswerKind;
use crate::layout::body_key;
use crate::runtime::answer::Waiter;
use crate::runtime::damage::Unreadable;
use crate::{BodyRef, Command, Received, Refusal, Settlement};

/// One such answer.
#[derive(Debug)]
pub(super) struct Browse {
    pub(super) waiter: Waiter,
    pub(super) messages: Vec<Received>,
    /// Positions in `messages` whose content must be read, in order.
    pub(super) awaiting: VecDeque<usize>,
    /// Positions that turned out to be missing or damaged, and why, in order.
    pub(super) unreadable: Vec<(usize, Unreadable)>,
    /// Whether the messages are still to be removed, once everything is read (receive-and-delete).
    is_to_take: bool,
    /// Why they can't be.
    pub(super) refusal: Option<Refusal>,
    pub(super) after: CommitNumber,
    reads: Option<Reads>,
}

impl Browse {
    pub(super) fn new(waiter: Waiter, messages: Vec<Received>, after: CommitNumber) -> Self {
        Self {
            is_to_take: waiter.kind == AnswerKind::Received { takes: true },
            waiter,
            messages,
            awaiting: VecDeque::new(),
            unreadable: Vec::new(),
            refusal: None,
            after,
            reads: None,
        }
    }

    fn start(&mut self, shard: &dyn Shard, partition: PartitionId) {
        let bodies: Vec<BodyRef> =
            self.awaiting.iter().filter_map(|at| self.messages.get(*at)).map(|m| m.view.body).collect();
        let mut reads = Reads::default();
        for bodies in bodies.chunks(READ_KEYS_MAX) {
            reads.start(shard, bodies.iter().map(|body| body_key(partition, *body)).collect(), 0);
        }
        self.reads = Some(reads);
    }

    /// Whether its messages are to be removed now.
    fn can_be_taken(&self) -> bool {
        self.is_to_take && self.awaiting.is_empty() && !self.messages.is_empty()
    }

    /// Removes what was read.
    fn removal(&self) -> Option<Command> {
        let is_readable = |at: &usize| self.unreadable.iter().all(|(unreadable, _)| unreadable != at);
        let readable = self.messages.iter().enumerate().filter(|(at, _)| is_readable(at));
        let tokens = readable.filter_map(|(_, message)| Some(message.lock?.token)).collect();
        let queue = self.messages.first()?.view.queue;
        Some(Command::Settle { queue, tokens, settlement: Settlement::Complete })
    }

    fn fill(&mut self, value: Content) {
        let Some(position) = self.awaiting.pop_front() else { return };
        match (value, self.messages.get_mut(position)) {
            (Ok(value), Some(message)) => message.content = value,
            (Ok(_), None) => {}
            (Err(reason), _) => self.unreadable.push((position, reason)),
        }
    }
}

/// All such answers of a partition.
#[derive(Debug)]
pub(super) struct Browses {
    partition: PartitionId,
    waiting: Vec<Browse>,
    arrived: Vec<Content>,
}

impl Browses {
    pub(super) fn new(partition: PartitionId) -> Self {
        Self { partition, waiting: Vec::new(), arrived: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, browse: Browse) {
        self.waiting.push(browse);
    }

    /// Asks the store for contents, oldest answers first.
    pub(super) fn start_reads(&mut self, shard: &dyn Shard) {
        let reading = self.waiting.iter_mut().filter(|browse| !browse.awaiting.is_empty());
        for browse in reading.take(BROWSES_READING_MAX) {
            if browse.reads.is_none() {
                browse.start(shard, self.partition);
            }
        }
    }

    /// Takes in what arrived; false when nothing did. The error means that the store is dead.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, source: Source<'_>) -> Result<bool, Error> {
        let mut progress = false;
        for browse in &mut self.waiting {
            let Some(reads) = &mut browse.reads else { continue };
            progress |= reads.poll(context, source, &mut self.arrived)?;
            for value in self.arrived.drain(..) {
                browse.fill(value);
            }
        }
        Ok(progress)
    }

    /// What removes the messages of answers whose contents are all here; by position.
    pub(super) fn removals(&self) -> Vec<(usize, Command)> {
        let ready = self.waiting.iter().enumerate().filter(|(_, browse)| browse.can_be_taken());
        ready.filter_map(|(position, browse)| Some((position, browse.removal()?))).collect()
    }

    /// Says what became of one of [`Self::removals`]; which commit holds it is not known yet.
    pub(super) fn taken(&mut self, position: usize, taken: Result<(), Refusal>) {
        if let Some(browse) = self.waiting.get_mut(position) {
            browse.is_to_take = false;
            browse.refusal = taken.err();
            browse.after = CommitNumber::MAX;
        }
    }

    /// Says which commit holds those that were [`Self::taken`].
    pub(super) fn removed(&mut self, commit: CommitNumber) {
        for browse in self.waiting.iter_mut().filter(|browse| browse.after == CommitNumber::MAX) {
            browse.after = commit;
        }
    }

    /// An answer that may leave.
    pub(super) fn pop(&mut self, durable: CommitNumber) -> Option<Browse> {
        let ready =
            |browse: &Browse| browse.awaiting.is_empty() && !browse.can_be_taken() && browse.after <= durable;
        let position = self.waiting.iter().position(ready)?;
        Some(self.waiting.remove(position))
    }

    /// An answer whose messages were removed for it: they are nowhere else.
    pub(super) fn pop_taken(&mut self, durable: CommitNumber) -> Option<Browse> {
        let is_taken = |browse: &Browse| {
            let takes = browse.waiter.kind == AnswerKind::Received { takes: true };
            takes && !browse.is_to_take && browse.refusal.is_none() && browse.after <= durable
        };
        let position = self.waiting.iter().position(is_taken)?;
        Some(self.waiting.remove(position))
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Browse> + '_ {
        self.waiting.drain(..)
    }
}
