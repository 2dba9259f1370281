//! Timers: locks end, scheduled messages become available, messages expire.
//!
//! A timer is disarmed by the event it causes, so none can fire twice, and each call fires a bounded number.

use super::Partition;
use super::locks::LockedMessage;
use super::record::Record;
use super::state::State;
use super::step::{Step, TIMERS_PER_CALL_MAX};
use crate::event::{Change, Event};
use crate::{LockToken, MessageState, QueueId, SequenceNumber, SubQueue, Timestamp};

/// The next due timer.
enum Timer {
    /// A lock ends.
    LockEnd(LockToken, LockedMessage),
    /// A scheduled message becomes available.
    Activation(SequenceNumber),
}

impl State {
    /// The earliest due time.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if self.ended {
            return None;
        }
        if !self.tombstones.is_empty() || self.lacks_tombstones() {
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

    /// The earliest lock end or activation; at equal times the lock's.
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

    /// Whether publications are held. Queues are exempt, because activation adds no messages to them, whereas a topic makes a
    /// copy for each subscription.
    fn holds_publications(&self) -> bool {
        self.holds_publications && self.topic.is_some()
    }
}

impl Partition {
    /// Sets whether messages scheduled on a topic are held when they are due, instead of being published.
    pub fn hold_publications(&mut self, is_held: bool) {
        self.state.holds_publications = is_held;
    }

    /// The due time of the first held message; [`Self::next_deadline`] ignores held messages.
    #[must_use]
    pub fn held_publication(&self) -> Option<Timestamp> {
        self.state.next_activation().filter(|_| self.state.holds_publications()).map(|(due, _)| due)
    }
}

impl Step<'_> {
    /// Fires due lock ends and activations, in order of time.
    pub(super) fn fire_due_timers(&mut self) {
        self.remove_tombstones();
        for _ in 0..TIMERS_PER_CALL_MAX {
            match self.state().next_timer() {
                Some((at, timer)) if at <= self.now && self.timer_bytes_left > 0 => match timer {
                    Timer::LockEnd(token, held) => self.end_lock(token, held),
                    Timer::Activation(_) if self.copies_left == 0 => break,
                    Timer::Activation(number) if self.is_topic() => self.publish_scheduled(number),
                    Timer::Activation(number) => self.activate(number),
                },
                _ => break,
            }
        }
        self.forget_expired_ids();
        self.touch_due_queues();
    }

    /// Makes messages available whose hold-back time has passed, a bounded number in each call over all queues.
    pub(super) fn free_held_back(&mut self, queue: QueueId) {
        while self.frees_left > 0
            && self.timer_bytes_left > 0
            && let Some((number, record)) =
                self.state().queue(queue).and_then(|queue| queue.first_to_free(self.now))
        {
            let mut record = record.clone();
            self.frees_left -= 1;
            self.count_timer_bytes(&record);
            record.hold_back(None);
            let (from, change) = (record.sub_queue(), Change::HeldBackNoLonger);
            self.emit(Event::Changed { queue, number, from, record, lock: None, change });
        }
    }

    /// Expires overdue messages while there is an active listener (S-3), before any are delivered to it.
    pub(super) fn sweep_expired(&mut self, id: QueueId) {
        while self.may_expire()
            && let Some(queue) = self.state().queue(id)
            && queue.receivers.is_active(SubQueue::Main)
            && let Some((number, record)) = queue.messages.get(SubQueue::Main).first_overdue(self.now)
        {
            let record = record.clone();
            self.count_expiry(&record);
            self.expire(id, number, record, None);
        }
    }

    /// Whether another message may expire in this call.
    pub(super) const fn may_expire(&self) -> bool {
        self.expiries_left > 0 && self.timer_bytes_left > 0
    }

    /// Counts a message that expires in this call.
    pub(super) fn count_expiry(&mut self, record: &Record) {
        self.expiries_left = self.expiries_left.saturating_sub(1);
        self.count_timer_bytes(record);
    }

    /// Ends an expired lock: this counts as a failed delivery, unless the message never reached its receiver.
    fn end_lock(&mut self, token: LockToken, held: LockedMessage) {
        let record = self.state().record(held.queue, held.sub_queue, held.number).cloned();
        if let Some(record) = &record {
            self.count_timer_bytes(record);
        }
        match record {
            Some(record) if held.counts => self.fail_delivery(token, held, record, Change::Returned),
            Some(record) => self.release(token, held, record),
            None => self.emit(Event::Released { token }),
        }
    }

    /// Activates a scheduled message as if it were sent now: it gets a new number and enqueued time, and its time to live
    /// starts (S-9), limited by the queue's present default.
    fn activate(&mut self, scheduled: SequenceNumber) {
        let entity = &self.state().entity;
        let Some(record) = entity.messages.get(SubQueue::Main).get(scheduled) else { return };
        let (mut record, body) = (record.clone(), record.body(scheduled));
        let time_to_live_ms = entity.policy.effective_time_to_live_ms(record.time_to_live_ms());
        self.count_timer_bytes(&record);
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
