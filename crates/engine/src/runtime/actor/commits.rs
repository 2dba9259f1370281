//! Batches on their way to the disk, in submit order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use peeklock_storage::{Commit, Error};

use super::limits::{COMMIT_BYTES_IN_FLIGHT_MAX, COMMITS_IN_FLIGHT_MAX, TIMER_COMMITS_IN_FLIGHT_MAX};
use crate::{BodyRef, Durability, Event, QueueId};

/// Position of a batch in the partition's commit order; 0 is durable from the start.
pub(super) type CommitNumber = u64;

/// Batches submitted and not yet durable. Commits resolve in submit order, so a single number says what is durable.
#[derive(Debug, Default)]
pub(super) struct Commits {
    waiting: VecDeque<Waiting>,
    submitted: CommitNumber,
    durable: CommitNumber,
    last_sync: CommitNumber,
    /// The last commit that changed messages stored earlier.
    last_change: CommitNumber,
    bytes: usize,
    /// The greatest number of a durable body.
    durable_body: Option<u64>,
    /// The smallest body number under way.
    first_body: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    commit: Commit,
    bytes: usize,
    /// Smallest and greatest number of the bodies that it stores.
    bodies: Option<(u64, u64)>,
    /// Subscriptions that it deletes.
    removed: Vec<QueueId>,
}

/// The properties of a batch that decide which effects wait for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Whether it has events that are written.
    pub(super) is_stored: bool,
    /// Whether effects wait for it.
    is_sync: bool,
    /// Whether it changes messages stored earlier.
    changes_messages: bool,
    /// Smallest and greatest number of the bodies that it stores.
    bodies: Option<(u64, u64)>,
    /// Subscriptions that it deletes.
    removed: Vec<QueueId>,
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
            if let Event::SubscriptionRemoved { queue, .. } = event {
                contents.removed.push(*queue);
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
        let Contents { bodies, removed, .. } = contents;
        self.waiting.push_back(Waiting { commit, bytes, bodies, removed });
    }

    /// The commit that a new effect depends on.
    pub(super) fn last_sync(&self) -> CommitNumber {
        self.last_sync
    }

    /// The commit that the delivery of a message depends on. A message whose body is durable does not wait for commits that
    /// change other messages.
    pub(super) fn delivery_after(&self, body: BodyRef) -> CommitNumber {
        if self.first_body.is_none_or(|first| body.0 < first) { self.last_change } else { self.last_sync }
    }

    /// Subscriptions whose deletion the store may still refuse.
    pub(super) fn removed_subscriptions(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.waiting.iter().flat_map(|waiting| waiting.removed.iter().copied())
    }

    /// The latest submitted batch.
    pub(super) fn submitted(&self) -> CommitNumber {
        self.submitted
    }

    pub(super) fn durable(&self) -> CommitNumber {
        self.durable
    }

    /// The greatest number up to which all bodies can be read from the store. Bodies under way may have lower numbers than
    /// durable ones, because transactions use numbers that were reserved earlier.
    pub(super) fn durable_body(&self) -> Option<BodyRef> {
        let durable = self.durable_body?;
        let before_first = self.first_body.map_or(u64::MAX, |first| first.saturating_sub(1));
        Some(BodyRef(durable.min(before_first)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another batch may be submitted.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < COMMITS_IN_FLIGHT_MAX && self.bytes < COMMIT_BYTES_IN_FLIGHT_MAX
    }

    /// Whether batches of timers may be submitted: no client waits for them, so they must not delay the batches of
    /// requests.
    pub(super) fn has_room_for_timers(&self) -> bool {
        self.waiting.len() < TIMER_COMMITS_IN_FLIGHT_MAX
    }

    /// Ready when a batch became durable or failed.
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

    /// Waits until every batch is answered, whatever the outcome; the error if the shard is lost.
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
