//! AutoDeleteOnIdle: an entity or subscription that is unused for `auto_delete_on_idle` is deleted (S-25…S-32).
//!
//! Each use is an event, so a partition without that option pays nothing. The exact time is kept in memory; a coarser one is
//! stored, so that a restart deletes early by no more than [`step_ms`] (S-26).

use super::queue::Queue;
use super::state::State;
use super::step::{MESSAGES_PER_SUBSCRIPTION, Step};
use crate::command::Uses;
use crate::event::Event;
use crate::{Command, End, QueueId, SubQueue, Timestamp};

/// Maximum difference between the stored and the true time of the last use.
const STEP_MS_MAX: u64 = 60_000;

/// Interval at which uses are stored.
const fn step_ms(idle_ms: u64) -> u64 {
    let quarter = idle_ms / 4;
    if quarter < STEP_MS_MAX { quarter + 1 } else { STEP_MS_MAX }
}

impl Queue {
    /// When idleness needs processing: recording the first use, recording continued use, or ending it.
    pub(super) fn idle_deadline(&self) -> Option<Timestamp> {
        let idle_ms = self.policy.auto_delete_on_idle_ms?;
        if self.used_at == Timestamp::default() {
            return Some(self.used_at);
        }
        // While in use, the time is stored one step after the previously stored use, so that at most one step is lost.
        Some(if self.is_in_use() {
            self.used_at_stored.plus_ms(step_ms(idle_ms))
        } else {
            self.used_at.plus_ms(idle_ms)
        })
    }

    /// Whether it is deleted when idle.
    pub(super) fn ends_when_idle(&self) -> bool {
        self.policy.auto_delete_on_idle_ms.is_some()
    }

    /// Whether it counts as used without any operation: a receiver is listening (S-30, S-32), it forwards (S-33), a
    /// subscription of it does (S-31), or messages are scheduled (S-30, S-31).
    pub(super) fn is_in_use(&self) -> bool {
        let is_waited_for = self.sessions.as_ref().is_some_and(|sessions| !sessions.waiters.is_empty());
        // Forwarding of dead letters does not count as use.
        let listened_to = SubQueue::ALL
            .into_iter()
            .any(|sub_queue| self.receivers.is_active(sub_queue) && self.forwarders.get(sub_queue).is_none());
        self.policy.forwards
            || (listened_to && self.policy.is_used_by_listening)
            || is_waited_for
            || self.subscriptions_in_use > 0
            || !self.activations.is_empty()
    }
}

impl State {
    /// Keeps the last uses of `other`, the state before this one was read back from the store.
    pub(super) fn keep_uses_of(&mut self, other: &Self) {
        let idling = |queue: &&Queue| queue.ends_when_idle();
        for before in other.subscriptions.values().chain([&other.entity]).filter(idling) {
            // The clock may have been set back.
            let used_at = self.restored_instant(before.used_at);
            let Some(queue) = self.queue_mut(before.id) else { continue };
            // It was in use until now, which the next call records.
            let is_used_now = before.is_in_use();
            queue.used_at = if is_used_now { Timestamp::default() } else { queue.used_at.max(used_at) };
            self.mark_processed(before.id);
        }
    }
}

/// The entity that a command uses.
pub(super) enum Use {
    /// Nothing: listing rules and sessions, attaching without requesting messages.
    Nothing,
    /// The queue, or the topic itself.
    Entity,
    /// A queue or subscription; with a subscription also its topic (S-31).
    Queue(QueueId),
}

impl Step<'_> {
    /// The use of a command that is about to be carried out (§17).
    pub(super) fn use_of(&self, command: &Command) -> Use {
        let used = match command.describe().uses {
            Uses::Nothing => Use::Nothing,
            Uses::Entity => Use::Entity,
            Uses::Queue(queue) => Use::Queue(queue),
            Uses::Subscription { queue, name } => Use::Queue(self.declared(queue, name).unwrap_or(queue)),
            // A forwarder's commands don't count as use.
            Uses::SourceOf(receiver) if self.state().is_forwarder(receiver) => Use::Nothing,
            Uses::SourceOf(receiver) => {
                self.state().receiver_queues.get(&receiver).map_or(Use::Nothing, |queue| Use::Queue(*queue))
            }
        };
        match used {
            // Reading is use of queues and subscriptions (S-30, S-32), not of topics (S-31): neither browsing their scheduled
            // messages nor receiving their transfer dead letters.
            Use::Queue(queue) if self.is_topic() && queue == self.state().entity.id => Use::Nothing,
            used => used,
        }
    }

    /// Records a use.
    pub(super) fn note_use(&mut self, used: &Use) {
        let entity = self.state().entity.id;
        match used {
            Use::Nothing => {}
            Use::Entity => self.used(entity),
            Use::Queue(queue) => {
                self.used(*queue);
                if *queue != entity {
                    self.used(entity);
                }
            }
        }
    }

    /// Records that a queue or subscription was used now.
    fn used(&mut self, id: QueueId) {
        let Some(queue) = self.state().queue(id) else { return };
        let Some(idle_ms) = queue.policy.auto_delete_on_idle_ms else { return };
        if queue.used_at >= self.now {
            return;
        }
        let stored = queue.used_at_stored.plus_ms(step_ms(idle_ms)) <= self.now;
        self.emit(Event::Used { queue: id, at: self.now, stored });
    }

    /// Records that a queue is in use, or was until now, or ends it if it was idle for long enough.
    pub(super) fn update_idle_timer(&mut self, id: QueueId) {
        let state = self.state();
        let Some(queue) = state.queue(id) else { return };
        if !queue.ends_when_idle() && !state.entity.ends_when_idle() {
            return;
        }
        let due = queue.idle_deadline().is_some_and(|at| at <= self.now);
        let in_use = queue.is_in_use();
        let is_new = queue.used_at == Timestamp::default();
        if in_use != queue.was_in_use || (due && (in_use || is_new)) {
            self.note_use(&Use::Queue(id));
        } else if due {
            self.end_idle(id);
        }
    }

    /// Records that the entity was in use until now, before its options change: afterwards its idleness may not matter any
    /// more.
    pub(super) fn note_use_until_now(&mut self) {
        let entity = &self.state().entity;
        if entity.was_in_use || entity.is_in_use() {
            self.used(entity.id);
        }
    }

    /// Ends an idle entity or subscription: a subscription at once, an entity when the namespace has deleted its stored state.
    /// Subscriptions that become idle at one time end over several calls: all their messages are visited.
    fn end_idle(&mut self, id: QueueId) {
        if id == self.state().entity.id {
            return self.end_entity(End::Idle);
        }
        if self.idle_ends_left > 0 {
            let messages = self.state().queue(id).map_or(0, |queue| queue.message_count());
            self.idle_ends_left =
                self.idle_ends_left.saturating_sub(messages.saturating_add(MESSAGES_PER_SUBSCRIPTION));
            self.end_subscription(id);
        }
    }
}
