//! Temporary entities: what is unused for as long as `auto_delete_on_idle` says is deleted (S-25…S-32).
//!
//! Use is an event, so that a partition without that option pays nothing. An exact instant is kept in memory; a coarse
//! one is stored, so that a restart neither cuts a life short nor prolongs it by more than [`step_ms`].

use super::queue::Queue;
use super::step::Step;
use crate::command::Uses;
use crate::event::Event;
use crate::{Command, End, QueueId, SubQueue, Timestamp};

/// Largest distance between the stored instant of the last use and the true one.
const STEP_MS_MAX: u64 = 60_000;

/// How coarsely use is stored.
const fn step_ms(idle_ms: u64) -> u64 {
    let quarter = idle_ms / 4;
    if quarter < STEP_MS_MAX { quarter + 1 } else { STEP_MS_MAX }
}

impl Queue {
    /// When something is to be done about idleness: noting its first use, noting again that it is in use, or ending it.
    pub(super) fn idle_deadline(&self) -> Option<Timestamp> {
        let idle_ms = self.policy.auto_delete_on_idle_ms?;
        if self.used_at == Timestamp::default() {
            return Some(self.used_at);
        }
        // What is in use is stored again a step after the stored use, not the last: no more than a step is ever lost.
        Some(if self.is_in_use() {
            self.used_at_stored.plus_ms(step_ms(idle_ms))
        } else {
            self.used_at.plus_ms(idle_ms)
        })
    }

    /// Whether idleness matters to it.
    pub(super) fn ends_when_idle(&self) -> bool {
        self.policy.auto_delete_on_idle_ms.is_some()
    }

    /// Whether it counts as used without anybody doing anything: someone listens to it (S-30, S-32), it
    /// forwards (S-33) or to a subscription
    /// of it (S-31), or messages are scheduled (S-30, S-31).
    pub(super) fn is_in_use(&self) -> bool {
        let is_waited_for = self.sessions.as_ref().is_some_and(|sessions| !sessions.waiters.is_empty());
        // Forwarding of dead letters is no use of the queue.
        let listened_to = [SubQueue::Main, SubQueue::DeadLetter, SubQueue::TransferDeadLetter]
            .into_iter()
            .any(|sub_queue| self.receivers.is_active(sub_queue) && self.forwarders.get(sub_queue).is_none());
        self.policy.forwards
            || listened_to
            || is_waited_for
            || self.subscriptions_in_use > 0
            || !self.activations.is_empty()
    }
}

/// What a command uses, if anything.
pub(super) enum Use {
    /// Nothing: looking at rules and sessions, attaching without asking for messages.
    Nothing,
    /// The queue, or the topic itself.
    Entity,
    /// A queue or subscription; with a subscription also its topic (S-31).
    Queue(QueueId),
}

impl Step<'_> {
    /// What a command is about to use (§17).
    pub(super) fn use_of(&self, command: &Command) -> Use {
        match command.describe().uses {
            Uses::Nothing => Use::Nothing,
            Uses::Entity => Use::Entity,
            // Browsing keeps queues and subscriptions (S-30, S-32), not topics (S-31).
            Uses::Browsed(queue) if self.is_topic() && queue == self.state().entity.id => Use::Nothing,
            Uses::Queue(queue) | Uses::Browsed(queue) => Use::Queue(queue),
            Uses::Subscription { queue, name } => Use::Queue(self.declared(queue, name).unwrap_or(queue)),
            // Forwarding is no use by a receiver.
            Uses::SourceOf(receiver) if self.state().is_forwarder(receiver) => Use::Nothing,
            Uses::SourceOf(receiver) => {
                self.state().homes.get(&receiver).map_or(Use::Nothing, |queue| Use::Queue(*queue))
            }
        }
    }

    /// Notes a use.
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

    /// Notes that a queue or subscription was used now.
    fn used(&mut self, id: QueueId) {
        let Some(queue) = self.state().queue(id) else { return };
        let Some(idle_ms) = queue.policy.auto_delete_on_idle_ms else { return };
        if queue.used_at >= self.now {
            return;
        }
        let stored = queue.used_at_stored.plus_ms(step_ms(idle_ms)) <= self.now;
        self.emit(Event::Used { queue: id, at: self.now, stored });
    }

    /// Notes that a queue is in use, or was until now, or ends it when it was idle for long enough.
    pub(super) fn tend_idleness(&mut self, id: QueueId) {
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

    /// Notes that the entity was in use until now, before its options change: afterwards its idleness may not matter any more.
    pub(super) fn note_use_until_now(&mut self) {
        let entity = &self.state().entity;
        if entity.was_in_use || entity.is_in_use() {
            self.used(entity.id);
        }
    }

    /// Ends what was idle: a subscription at once, the entity as soon as the namespace has deleted what is stored.
    fn end_idle(&mut self, id: QueueId) {
        if id != self.state().entity.id {
            return self.end_subscription(id);
        }
        self.end_entity(End::Idle);
    }
}
