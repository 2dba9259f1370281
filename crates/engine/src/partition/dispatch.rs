//! Delivery: competing receivers get one message each in turn, lowest number first.

use super::record::Record;
use super::step::Step;
use crate::event::Event;
use crate::{Effect, Lock, QueueId, QueuePath, ReceiveMode, ReceiverId, SequenceNumber, SubQueue};

impl Step<'_> {
    /// Delivers available messages as far as credit allows. An expired message is never delivered (S-4).
    pub(super) fn dispatch(&mut self, from: QueuePath) {
        while let Some(queue) = self.state().queue(from.queue)
            && let Some((receiver, mode)) = queue.receivers.next(from.sub_queue)
            && let Some((number, record)) = queue.messages.get(from.sub_queue).first_available()
        {
            let record = record.clone();
            if record.expiry() > self.now {
                self.deliver(receiver, mode, from.queue, number, &record);
            } else if self.may_expire() {
                self.count_expiry(&record);
                self.expire(from.queue, number, record, None);
            } else {
                return;
            }
        }
    }

    /// Notifies receivers whose drain is complete.
    pub(super) fn finish_drains(&mut self, queue: QueueId) {
        while let Some(receiver) = self.state().queue(queue).and_then(|queue| {
            queue.receivers.next_drained(|receiver, sub_queue| queue.is_dry(receiver, sub_queue))
        }) {
            self.emit(Event::CreditDrained { receiver });
            self.effect(Effect::Drained { receiver });
        }
    }

    /// Locks a message and delivers it to a receiver.
    pub(super) fn deliver(
        &mut self,
        receiver: ReceiverId,
        mode: ReceiveMode,
        queue: QueueId,
        number: SequenceNumber,
        record: &Record,
    ) {
        let view = record.view(queue, number);
        if mode == ReceiveMode::Forward {
            return self.hand_over(receiver, queue, number, record);
        }
        let lock = Some(self.lock(queue, number, record.sub_queue(), (Some(receiver), mode)));
        self.effect(Effect::Deliver { receiver, view, lock, departing: None });
    }

    /// Locks a message from now on; the lock of a session's message ends with the session's lock.
    pub(super) fn lock(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        sub_queue: SubQueue,
        (receiver, mode): (Option<ReceiverId>, ReceiveMode),
    ) -> Lock {
        let token = self.new_token();
        let session_end = self.session_lock_end(queue, sub_queue, number);
        let in_session = session_end.is_some();
        let lock_duration_ms = || self.state().queue(queue).map_or(0, |queue| queue.policy.lock_duration_ms);
        let until = session_end.unwrap_or_else(|| self.now.plus_ms(lock_duration_ms()));
        let counts = mode != ReceiveMode::ReceiveAndDelete;
        self.emit(Event::Locked { queue, number, sub_queue, token, until, receiver, in_session, counts });
        Lock { token, locked_until: until }
    }
}
