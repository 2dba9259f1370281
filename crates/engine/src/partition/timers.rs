//! What happens because time passes: locks end, scheduled messages become available, messages expire.
//!
//! A timer is disarmed by the event it causes, so none can fire twice, and each call fires a bounded number.

use super::Partition;
use super::locks::LockedMessage;
use super::state::State;
use super::step::{Step, TIMERS_PER_CALL_MAX};
use crate::event::{Change, Event};
use crate::{LockToken, MessageState, QueueId, SequenceNumber, SubQueue, Timestamp};

/// The timer that is due next.
enum Timer {
    /// A lock ends.
    LockEnd(LockToken, LockedMessage),
    /// A scheduled message becomes available.
    Activation(SequenceNumber),
}

impl State {
    /// The earliest instant at which something happens by itself.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if self.ended {
            return None;
        }
        if !self.traces.is_empty() {
            return Some(Timestamp::default());
        }
        let timer = self.next_timer().map(|(at, _)| at);
        let over = self.duplicates_deadline();
        self.next_queue_deadline()
            .into_iter()
            .chain(timer)
            .chain(over)
            .min()
            .filter(|at| *at != Timestamp::NEVER)
    }

    /// The earliest lock or activation; of two at the same instant, the lock's.
    fn next_timer(&self) -> Option<(Timestamp, Timer)> {
        let lock = self.locks.first_end().map(|(token, held)| (held.until, Timer::LockEnd(token, held)));
        let activation = self.next_activation().filter(|_| !self.holds_publications());
        let activation = activation.map(|(at, number)| (at, Timer::Activation(number)));
        match (lock, activation) {
            (Some(lock), Some(activation)) if activation.0 < lock.0 => Some(activation),
            (Some(lock), _) => Some(lock),
            (None, activation) => activation,
        }
    }

    /// The next scheduled message.
    fn next_activation(&self) -> Option<(Timestamp, SequenceNumber)> {
        self.entity.activations.first().copied()
    }

    /// A scheduled message of a queue becomes available without becoming more; one of a topic becomes a message of each
    /// subscription.
    fn holds_publications(&self) -> bool {
        self.holds_publications && self.topic.is_some()
    }
}

impl Partition {
    /// From now on messages that are scheduled on a topic are published when they are due, or held.
    pub fn hold_publications(&mut self, is_held: bool) {
        self.state.holds_publications = is_held;
    }

    /// When the first of the messages that are held is due, or was; [`Self::next_deadline`] knows nothing of them.
    #[must_use]
    pub fn held_publication(&self) -> Option<Timestamp> {
        self.state.next_activation().filter(|_| self.state.holds_publications()).map(|(due, _)| due)
    }
}

impl Step<'_> {
    /// Ends locks and activates messages whose time has come, in order of time.
    pub(super) fn fire_due_timers(&mut self) {
        self.erase_traces();
        for _ in 0..TIMERS_PER_CALL_MAX {
            match self.state().next_timer() {
                Some((at, timer)) if at <= self.now => match timer {
                    Timer::LockEnd(token, held) => self.end_lock(token, held),
                    Timer::Activation(_) if self.copies_left == 0 => break,
                    Timer::Activation(number) if self.is_topic() => self.publish_scheduled(number),
                    Timer::Activation(number) => self.activate(number),
                },
                _ => break,
            }
        }
        self.forget_what_is_over();
        self.touch_due_queues();
    }

    /// Lets receivers have what was held back until now, a bounded number of messages in each call.
    pub(super) fn free_held_back(&mut self, queue: QueueId) {
        for _ in 0..TIMERS_PER_CALL_MAX {
            let due = self.state().queue(queue).and_then(|queue| queue.first_to_free(self.now));
            let Some((number, mut record)) = due.map(|(number, record)| (number, record.clone())) else {
                return;
            };
            record.hold_back(None);
            let (from, change) = (record.sub_queue(), Change::HeldBackNoLonger);
            self.emit(Event::Changed { queue, number, from, record, lock: None, change });
        }
    }

    /// Expires what is overdue, as long as there is an active listener (S-3): before anything is delivered to it.
    pub(super) fn sweep_expired(&mut self, id: QueueId) {
        while self.expiries_left > 0
            && let Some(queue) = self.state().queue(id)
            && queue.receivers.is_active(SubQueue::Main)
            && let Some((number, record)) = queue.messages.get(SubQueue::Main).first_overdue(self.now)
        {
            let record = record.clone();
            self.expiries_left -= 1;
            self.expire(id, number, record, None);
        }
    }

    /// A lock was held too long: a failed delivery, unless the message never left.
    fn end_lock(&mut self, token: LockToken, held: LockedMessage) {
        match self.state().record(held.queue, held.sub_queue, held.number).cloned() {
            Some(record) if held.counts => self.fail_delivery(token, held, record, Change::Returned),
            Some(record) => self.release(token, held, record),
            None => self.emit(Event::Released { token }),
        }
    }

    /// A scheduled message becomes available, as if it were sent now: new number, new enqueued time, and its
    /// time-to-live starts (S-9), capped by what the queue's default is now.
    fn activate(&mut self, scheduled: SequenceNumber) {
        let entity = &self.state().entity;
        let Some(record) = entity.messages.get(SubQueue::Main).get(scheduled) else { return };
        let (mut record, body) = (record.clone(), record.body(scheduled));
        let time_to_live_ms = entity.policy.effective_time_to_live_ms(record.time_to_live_ms());
        record.restart(self.now, time_to_live_ms);
        record.set_place(SubQueue::Main, MessageState::Active);
        record.edit_extra(|extra| {
            extra.scheduled_enqueue_time = None;
            extra.body = Some(body);
        });
        let number = self.state().entity.next_number;
        self.emit(Event::Activated { scheduled, number, record });
    }
}
