//! Who gets what: competing receivers, one message each in turn, lowest number first.

use super::record::Record;
use super::step::Step;
use crate::event::{Event, Removal};
use crate::{Effect, Lock, QueueId, QueuePath, ReceiveMode, ReceiverId, SequenceNumber, SubQueue};

impl Step<'_> {
    /// Delivers what is available as far as credit reaches. A message past its expiry is never delivered (S-4).
    pub(super) fn dispatch(&mut self, from: QueuePath) {
        while let Some(queue) = self.state().queue(from.queue)
            && let Some((receiver, mode)) = queue.receivers.next(from.sub_queue)
            && let Some((number, record)) = queue.messages.get(from.sub_queue).first_available()
        {
            let record = record.clone();
            if record.expiry() > self.now {
                self.deliver(receiver, mode, from.queue, number, &record);
            } else if self.expiries_left > 0 {
                self.expiries_left -= 1;
                self.expire(from.queue, number, record, None);
            } else {
                return;
            }
        }
    }

    /// Tells receivers whose drain is complete. One held up by its byte limit drains on when that is raised.
    pub(super) fn finish_drains(&mut self, queue: QueueId) {
        while let Some(receiver) = self.state().queue(queue).and_then(|queue| {
            queue.receivers.next_drained(|sub_queue| !queue.messages.get(sub_queue).has_available())
        }) {
            self.emit(Event::CreditDrained { receiver });
            self.effect(Effect::Drained { receiver });
        }
    }

    /// Locks a message, or removes it, and hands it to a receiver.
    fn deliver(
        &mut self,
        receiver: ReceiverId,
        mode: ReceiveMode,
        queue: QueueId,
        number: SequenceNumber,
        record: &Record,
    ) {
        let view = record.view(queue, number);
        let lock = match mode {
            ReceiveMode::PeekLock => Some(self.lock(queue, number, record.sub_queue(), Some(receiver))),
            ReceiveMode::ReceiveAndDelete => {
                let removal = Removal::Received(Some(receiver));
                self.remove(queue, number, record.sub_queue(), record, removal);
                None
            }
        };
        self.effect(Effect::Deliver { receiver, view, lock });
    }

    /// Locks a message from now on.
    pub(super) fn lock(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        sub_queue: SubQueue,
        receiver: Option<ReceiverId>,
    ) -> Lock {
        let token = self.new_token();
        let locked_until = self.now.plus_ms(self.policy(queue).lock_duration_ms);
        let until = locked_until;
        self.emit(Event::Locked { queue, number, sub_queue, token, until, receiver, in_session: false });
        Lock { token, locked_until }
    }
}
