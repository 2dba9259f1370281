//! Batches under way to the disk, in submit order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use peeklock_storage::{Commit, Error};

use super::limits::{COMMIT_BYTES_IN_FLIGHT_MAX, COMMITS_IN_FLIGHT_MAX, TIMER_COMMITS_IN_FLIGHT_MAX};
use crate::BodyRef;

/// Position of a batch in the partition's commit order; 0 is durable from the start.
pub(super) type CommitNumber = u64;

/// Batches submitted and not yet durable. Commits resolve in submit order, so one number tells what is durable.
#[derive(Debug, Default)]
pub(super) struct Commits {
    waiting: VecDeque<Waiting>,
    submitted: CommitNumber,
    durable: CommitNumber,
    last_sync: CommitNumber,
    bytes: usize,
    durable_body: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    commit: Commit,
    bytes: usize,
    /// Number of the last body it stores.
    body: Option<u64>,
}

impl Commits {
    /// Adds a submitted batch; effects wait for it when `sync`.
    pub(super) fn push(&mut self, commit: Commit, sync: bool, bytes: usize, body: Option<u64>) {
        self.submitted += 1;
        if sync {
            self.last_sync = self.submitted;
        }
        self.bytes += bytes;
        self.waiting.push_back(Waiting { commit, bytes, body });
    }

    /// Which commit an effect of this moment depends on.
    pub(super) fn last_sync(&self) -> CommitNumber {
        self.last_sync
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
            let (bytes, body) = (front.bytes, front.body);
            self.waiting.pop_front();
            self.bytes -= bytes;
            if let Err(error) = result {
                return Poll::Ready(Err(error));
            }
            self.durable_body = std::cmp::max(self.durable_body, body);
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
