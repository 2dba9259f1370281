//! Reusable buffers for the outputs of a turn, shared by the actors of a host.
//!
//! An actor needs them from a turn to the end of the turn's commits, and a burst needs large ones. With buffers of their
//! own, thousands of idle actors would keep that memory, or grow their buffers anew for each burst.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::limits::IDLE_CAPACITY_MAX;
use super::{Actor, PendingReply};
use crate::QueueId;
use crate::partition::Outputs;

/// Maximum number of pooled sets: only about as many actors as processors work at a time.
const SETS_MAX: usize = 16;
/// Sets with a larger capacity (in elements of one kind) are dropped: only timers of a large backlog or many waiting
/// requests need so much.
const CAPACITY_MAX: usize = 2048;

/// The buffers of a working actor. All are empty whenever they are given back or taken.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) outputs: Outputs,
    pub(super) accessed: Vec<QueueId>,
    pub(super) event_ends: Vec<usize>,
    pub(super) replies: VecDeque<PendingReply>,
}

impl Buffers {
    fn capacity(&self) -> usize {
        capacity(&self.outputs, &self.accessed, &self.event_ends, &self.replies)
    }
}

/// The largest capacity among the buffers, in elements.
fn capacity(
    outputs: &Outputs,
    accessed: &Vec<QueueId>,
    event_ends: &Vec<usize>,
    replies: &VecDeque<PendingReply>,
) -> usize {
    let outputs = outputs.events.capacity().max(outputs.effects.capacity());
    outputs.max(accessed.capacity()).max(event_ends.capacity()).max(replies.capacity())
}

/// Pool of buffer sets; see the module.
#[derive(Debug, Default)]
pub(in crate::runtime) struct BufferPool(Mutex<Vec<Buffers>>);

impl BufferPool {
    /// Takes the set given back last, if there is one: it may still be in the processor's cache.
    pub(super) fn take(&self) -> Option<Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Returns a set to the pool, or drops it if the pool is full or the set is too large.
    pub(super) fn give_back(&self, buffers: Buffers) {
        if buffers.capacity() > CAPACITY_MAX {
            return;
        }
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.len() < SETS_MAX {
            sets.push(buffers);
        }
    }
}

impl Actor {
    /// Returns the buffers to the pool when nothing is under way, because there may be thousands of idle actors.
    pub(super) fn return_buffers(&mut self) {
        if self.commits.is_empty() && self.lane.is_empty() {
            self.requests.shrink_to(IDLE_CAPACITY_MAX);
            let is_empty = self.outputs.events.is_empty() && self.replies.is_empty();
            let capacity = capacity(&self.outputs, &self.accessed, &self.event_ends, &self.replies);
            if is_empty && capacity > IDLE_CAPACITY_MAX {
                let used = Buffers {
                    outputs: std::mem::take(&mut self.outputs),
                    accessed: std::mem::take(&mut self.accessed),
                    event_ends: std::mem::take(&mut self.event_ends),
                    replies: std::mem::take(&mut self.replies),
                };
                self.shared.buffers.give_back(used);
            }
        }
    }

    /// Takes buffers from the pool if the actor has none.
    pub(super) fn take_buffers(&mut self) {
        let has_room = self.outputs.events.capacity() > 0 || !self.replies.is_empty();
        if !has_room && let Some(buffers) = self.shared.buffers.take() {
            let Buffers { outputs, accessed, event_ends, replies } = buffers;
            (self.outputs, self.accessed, self.event_ends) = (outputs, accessed, event_ends);
            self.replies = replies;
        }
    }
}
