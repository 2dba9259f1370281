//! Answers with message bodies: browsing and deferred messages. They are rare and possibly large, so they are kept apart
//! from deliveries and acknowledgements and may overtake each other.

use std::collections::VecDeque;
use std::task::Context;

use peeklock_storage::{Error, PartitionId, Shard};

use super::commits::CommitNumber;
use super::limits::{BROWSES_READING_MAX, READ_KEYS_MAX};
use super::reads::{Allowance, Content, Reads, Source};
use crate::command::AnswerKind;
use crate::layout::body_key;
use crate::runtime::answer::Waiter;
use crate::runtime::damage::Unreadable;
use crate::{Command, Received, Refusal, Settlement};

/// One answer with bodies.
#[derive(Debug)]
pub(super) struct Browse {
    pub(super) waiter: Waiter,
    pub(super) messages: Vec<Received>,
    /// Positions in `messages` whose body must still be read, in order.
    pub(super) awaiting: VecDeque<usize>,
    /// Positions whose body is missing or damaged, with the reason, in order.
    pub(super) unreadable: Vec<(usize, Unreadable)>,
    /// Whether the messages are still to be removed once all bodies are read (receive-and-delete).
    is_to_take: bool,
    /// Why the removal was refused.
    pub(super) refusal: Option<Refusal>,
    pub(super) after: CommitNumber,
    reads: Reads,
    /// Number of entries at the front of `awaiting` whose read was started.
    asked: usize,
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
            reads: Reads::default(),
            asked: 0,
        }
    }

    /// Starts reads until the allowance is used up; true if some are left to start.
    fn start_reads(&mut self, shard: &dyn Shard, partition: PartitionId, allowance: &mut Allowance) -> bool {
        while self.asked < self.awaiting.len() {
            if allowance.is_used_up() {
                return true;
            }
            let next = self.awaiting.iter().skip(self.asked).take(READ_KEYS_MAX);
            let views = next.filter_map(|at| Some(&self.messages.get(*at)?.view));
            let bytes = views.clone().map(|view| view.content_bytes as usize).sum();
            let keys: Vec<_> = views.map(|view| body_key(partition, view.body)).collect();
            self.asked = (self.asked + READ_KEYS_MAX).min(self.awaiting.len());
            self.reads.start(shard, keys, bytes, allowance);
        }
        false
    }

    /// Whether its messages can be removed now.
    fn can_be_taken(&self) -> bool {
        self.is_to_take && self.awaiting.is_empty() && !self.messages.is_empty()
    }

    /// The command that removes the messages whose bodies were read.
    fn removal(&self) -> Option<Command> {
        let is_readable = |at: &usize| self.unreadable.iter().all(|(unreadable, _)| unreadable != at);
        let readable = self.messages.iter().enumerate().filter(|(at, _)| is_readable(at));
        let tokens = readable.filter_map(|(_, message)| Some(message.lock?.token)).collect();
        let queue = self.messages.first()?.view.queue;
        Some(Command::Settle { queue, tokens, settlement: Settlement::Complete })
    }

    fn fill(&mut self, value: Content) {
        let Some(position) = self.awaiting.pop_front() else { return };
        self.asked -= 1;
        match (value, self.messages.get_mut(position)) {
            (Ok(value), Some(message)) => message.content = value,
            (Ok(_), None) => {}
            (Err(reason), _) => self.unreadable.push((position, reason)),
        }
    }
}

/// All answers with bodies of a partition.
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

    /// Starts reads of bodies, oldest answers first; true if the actor must yield before it starts more.
    pub(super) fn start_reads(&mut self, shard: &dyn Shard, allowance: &mut Allowance) -> bool {
        let partition = self.partition;
        let reading = self.waiting.iter_mut().filter(|browse| !browse.awaiting.is_empty());
        reading.take(BROWSES_READING_MAX).any(|browse| browse.start_reads(shard, partition, allowance))
    }

    /// Accepts bodies that arrived; false if none did. The error means that the shard is lost.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, source: Source<'_>) -> Result<bool, Error> {
        let mut progress = false;
        for browse in &mut self.waiting {
            progress |= browse.reads.poll(context, source, &mut self.arrived)?;
            for value in self.arrived.drain(..) {
                browse.fill(value);
            }
        }
        Ok(progress)
    }

    /// Commands that remove the messages of answers whose bodies are all read, each with the answer's position.
    pub(super) fn removals(&self) -> Vec<(usize, Command)> {
        let ready = self.waiting.iter().enumerate().filter(|(_, browse)| browse.can_be_taken());
        ready.filter_map(|(position, browse)| Some((position, browse.removal()?))).collect()
    }

    /// Records the outcome of one of [`Self::removals`]. The number of the commit with the removal is set later by
    /// [`Self::removed`].
    pub(super) fn taken(&mut self, position: usize, taken: Result<(), Refusal>) {
        if let Some(browse) = self.waiting.get_mut(position) {
            browse.is_to_take = false;
            browse.refusal = taken.err();
            browse.after = CommitNumber::MAX;
        }
    }

    /// Sets the commit of the answers marked by [`Self::taken`].
    pub(super) fn removed(&mut self, commit: CommitNumber) {
        for browse in self.waiting.iter_mut().filter(|browse| browse.after == CommitNumber::MAX) {
            browse.after = commit;
        }
    }

    /// Takes out an answer that may be sent.
    pub(super) fn pop(&mut self, durable: CommitNumber) -> Option<Browse> {
        let ready =
            |browse: &Browse| browse.awaiting.is_empty() && !browse.can_be_taken() && browse.after <= durable;
        let position = self.waiting.iter().position(ready)?;
        Some(self.waiting.remove(position))
    }

    /// Takes out an answer whose messages were removed: the answer is their only copy.
    pub(super) fn pop_taken(&mut self, durable: CommitNumber) -> Option<Browse> {
        let is_taken = |browse: &Browse| {
            let takes = browse.waiter.kind == AnswerKind::Received { takes: true };
            takes && !browse.is_to_take && browse.refusal.is_none() && browse.after <= durable
        };
        let position = self.waiting.iter().position(is_taken)?;
        Some(self.waiting.remove(position))
    }

    /// Takes out all answers.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Browse> + '_ {
        self.waiting.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use peeklock_storage::{Batch, MemoryStore, ShardId, Store};

    use super::*;
    use crate::runtime::{Clock, Mailbox, SystemClock};
    use crate::{BodyRef, MessageView, QueueId, SequenceNumber};

    const PARTITION: PartitionId = PartitionId(1);
    const CONTENT_BYTES: u32 = 4 << 10;
    /// Four reads, each of which uses up the allowance of a turn.
    const MESSAGES: u64 = 4 * READ_KEYS_MAX as u64;

    fn message(number: u64) -> Received {
        let view = MessageView {
            content_bytes: CONTENT_BYTES,
            ..MessageView::new(QueueId::default(), SequenceNumber(number))
        };
        Received { view, content: Bytes::new(), lock: None }
    }

    fn browse() -> Browse {
        let waiter =
            Waiter { mailbox: Mailbox::new().0, tag: 0, kind: AnswerKind::Received { takes: false } };
        let mut browse = Browse::new(waiter, (1..=MESSAGES).map(message).collect(), CommitNumber::default());
        browse.awaiting = (0..browse.messages.len()).collect();
        browse
    }

    #[tokio::test]
    async fn large_answers_that_are_ready_together_are_spread_over_turns() {
        let lease = MemoryStore::new().acquire(ShardId(0)).await.unwrap();
        let mut batch = Batch::new();
        for number in 1..=MESSAGES {
            let content = Bytes::from(vec![7; CONTENT_BYTES as usize]);
            batch.put(body_key(PARTITION, BodyRef(number)), content);
        }
        lease.shard().submit(batch).await.unwrap();
        let mut browses = Browses::new(PARTITION);
        (0..2).for_each(|_| browses.push(browse()));
        let left = |browses: &Browses| browses.waiting.iter().map(|one| one.awaiting.len()).sum::<usize>();
        let mut turns = 0;
        while left(&browses) > 0 {
            let before = left(&browses);
            let goes_on = browses.start_reads(&**lease.shard(), &mut Allowance::of_a_turn());
            let clock = SystemClock::new();
            let source = Source { shard: &**lease.shard(), clock: &clock as &dyn Clock };
            let polled =
                std::future::poll_fn(|context| std::task::Poll::Ready(browses.poll(context, source)));
            assert!(polled.await.unwrap());
            turns += 1;
            let read = before - left(&browses);
            assert_eq!(read, READ_KEYS_MAX, "in turn {turns}");
            assert_eq!(goes_on, left(&browses) > 0, "turn {turns}");
        }
        assert_eq!(turns, 8);
        let full =
            |browse: Browse| browse.messages.iter().all(|one| one.content.len() == CONTENT_BYTES as usize);
        assert!(browses.drain().all(full));
    }
}
