//! Room for what turns decide, shared by the actors of a host.
//!
//! An actor needs it from a turn to the end of the turn's commits, and a burst needs much: room of its own would either be
//! kept by thousands of idle actors, or be made anew for each burst, piece by piece.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::limits::IDLE_CAPACITY_MAX;
use super::{Actor, PendingReply};
use crate::QueueId;
use crate::partition::Outputs;

/// Sets that are kept: few more actors than processors have something under way at a time, or room matters least.
const SETS_MAX: usize = 16;
/// Elements of one kind beyond which the room of a set is not kept: the timers of a large backlog needed it, or many that wait.
const CAPACITY_MAX: usize = 2048;

/// What an actor has while it works. All are empty whenever they change hands.
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

/// For how many elements of one kind there is room.
fn capacity(
    outputs: &Outputs,
    accessed: &Vec<QueueId>,
    event_ends: &Vec<usize>,
    replies: &VecDeque<PendingReply>,
) -> usize {
    let outputs = outputs.events.capacity().max(outputs.effects.capacity());
    outputs.max(accessed.capacity()).max(event_ends.capacity()).max(replies.capacity())
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::runtime) struct BufferPool(Mutex<Vec<Buffers>>);

impl BufferPool {
    /// A set with room, if there is one: the latest that was given back, which a processor may still have in its cache.
    pub(super) fn take(&self) -> Option<Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a set for others, or drops it where there are enough.
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
    /// Hands the room that a burst needed to whoever has the next once nothing is under way: there may be thousands of idle
    /// actors.
    pub(super) fn rest(&mut self) {
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

    /// Takes room for what a turn decides, if there is none.
    pub(super) fn equip(&mut self) {
        let has_room = self.outputs.events.capacity() > 0 || !self.replies.is_empty();
        if !has_room && let Some(buffers) = self.shared.buffers.take() {
            let Buffers { outputs, accessed, event_ends, replies } = buffers;
            (self.outputs, self.accessed, self.event_ends) = (outputs, accessed, event_ends);
            self.replies = replies;
        }
    }
}
