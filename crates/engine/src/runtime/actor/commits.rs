//! Batches under way to the disk, in submit order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use peeklock_storage::{Commit, Error};

use super::limits::{COMMIT_BYTES_IN_FLIGHT_MAX, COMMITS_IN_FLIGHT_MAX, TIMER_COMMITS_IN_FLIGHT_MAX};
use crate::{BodyRef, Durability, Event};

/// Position of a batch in the partition's commit order; 0 is durable from the start.
pub(super) type CommitNumber = u64;

/// Batches submitted and not yet durable. Commits resolve in submit order, so one number tells what is durable.
#[derive(Debug, Default)]
pub(super) struct Commits {
    waiting: VecDeque<Waiting>,
    submitted: CommitNumber,
    durable: CommitNumber,
    last_sync: CommitNumber,
    /// The last one that changed messages which rested before.
    last_change: CommitNumber,
    bytes: usize,
    durable_body: Option<u64>,
    /// The least body under way.
    first_body: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    commit: Commit,
    bytes: usize,
    /// Least and greatest body that it stores.
    bodies: Option<(u64, u64)>,
}

/// What is in a batch, as far as others wait for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Whether anything of it is written.
    pub(super) is_stored: bool,
    /// Whether effects wait for it.
    is_sync: bool,
    /// Whether it changes messages that rested before.
    changes_messages: bool,
    /// Least and greatest body that it stores.
    bodies: Option<(u64, u64)>,
}

impl Contents {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut contents = Self::default();
        for event in events {
            let durability = event.durability();
            contents.is_stored |= durability != Durability::Volatile;
            contents.is_sync |= durability == Durability::Sync;
            contents.changes_messages |= !event.leaves_others_as_they_are();
            if let Some((BodyRef(body), _)) = event.stored_body() {
                let (first, last) = contents.bodies.unwrap_or((body, body));
                contents.bodies = Some((first.min(body), last.max(body)));
            }
        }
        contents
    }
}

impl Commits {
    /// Adds a submitted batch.
    pub(super) fn push(&mut self, commit: Commit, contents: Contents, bytes: usize) {
        self.submitted += 1;
        if contents.is_sync {
            self.last_sync = self.submitted;
        }
        if contents.changes_messages {
            self.last_change = self.submitted;
        }
        self.bytes += bytes;
        let first = contents.bodies.map(|(first, _)| first);
        self.first_body = self.first_body.into_iter().chain(first).min();
        self.waiting.push_back(Waiting { commit, bytes, bodies: contents.bodies });
    }

    /// Which commit an effect of this moment depends on.
    pub(super) fn last_sync(&self) -> CommitNumber {
        self.last_sync
    }

    /// Which commit the delivery of a message depends on. One that rests since its body was stored is known as well as it ever
    /// will be: what became of others need not be waited for.
    pub(super) fn delivery_after(&self, body: BodyRef) -> CommitNumber {
        if self.first_body.is_none_or(|first| body.0 < first) { self.last_change } else { self.last_sync }
    }

    /// The latest batch under way, or durable already.
    pub(super) fn submitted(&self) -> CommitNumber {
        self.submitted
    }

    /// Everything up to this commit is durable.
    pub(super) fn durable(&self) -> CommitNumber {
        self.durable
    }

    /// Bodies up to this one can be read from the store.
    pub(super) fn durable_body(&self) -> Option<BodyRef> {
        self.durable_body.map(BodyRef)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another batch may be submitted.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < COMMITS_IN_FLIGHT_MAX && self.bytes < COMMIT_BYTES_IN_FLIGHT_MAX
    }

    /// Whether what nobody waits for may be submitted: it must not fill the log ahead of what others wait for.
    pub(super) fn has_room_for_timers(&self) -> bool {
        self.waiting.len() < TIMER_COMMITS_IN_FLIGHT_MAX
    }

    /// Ready when something became durable or failed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let before = self.durable;
        while let Some(front) = self.waiting.front_mut() {
            let Poll::Ready(result) = Pin::new(&mut front.commit).poll(context) else { break };
            let (bytes, bodies) = (front.bytes, front.bodies);
            self.waiting.pop_front();
            self.bytes -= bytes;
            if let Err(error) = result {
                return Poll::Ready(Err(error));
            }
            if let Some((_, last)) = bodies {
                self.durable_body = self.durable_body.max(Some(last));
                self.first_body = self.waiting.iter().filter_map(|waiting| Some(waiting.bodies?.0)).min();
            }
            self.durable += 1;
        }
        if self.durable > before { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Waits until every batch has its answer, whatever it is; the error if the shard is lost.
    pub(super) async fn settle(&mut self) -> Result<(), Error> {
        while let Some(waiting) = self.waiting.pop_front() {
            match waiting.commit.await {
                Err(error) if error.is_loss() => return Err(error),
                _ => {}
            }
        }
        *self = Self::default();
        Ok(())
    }
}
