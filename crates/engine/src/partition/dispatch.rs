//! Who gets what: competing receivers, one message each in turn, lowest number first.

use super::record::Record;
use super::step::Step;
use crate::event::{Event, Removal};
use crate::{Effect, Lock, ReceiveMode, ReceiverId, SequenceNumber, SubQueue};

impl Step<'_> {
    /// Delivers what is available as far as credit reaches. A message past its expiry is never delivered (S-4).
    pub(super) fn dispatch(&mut self, sub_queue: SubQueue) {
        while let Some((receiver, mode)) = self.state().receivers.next(sub_queue)
            && let Some((number, record)) = self.state().messages.get(sub_queue).first_available()
        {
            let record = record.clone();
            if record.expiry() > self.now {
                self.deliver(receiver, mode, number, &record);
            } else if self.expiries_left > 0 {
                self.expiries_left -= 1;
                self.expire(number, record, None);
            } else {
                return;
            }
        }
    }

    /// Tells receivers whose drain is complete. One held up by its byte limit drains on when that is raised.
    pub(super) fn finish_drains(&mut self) {
        while let Some(receiver) = {
            let state = self.state();
            state.receivers.next_drained(|sub_queue| !state.messages.get(sub_queue).has_available())
        } {
            self.emit(Event::CreditDrained { receiver });
            self.effect(Effect::Drained { receiver });
        }
    }

    /// Locks a message, or removes it, and hands it to a receiver.
    fn deliver(&mut self, receiver: ReceiverId, mode: ReceiveMode, number: SequenceNumber, record: &Record) {
        let view = record.view(number);
        let lock = match mode {
            ReceiveMode::PeekLock => Some(self.lock(number, record.sub_queue(), Some(receiver))),
            ReceiveMode::ReceiveAndDelete => {
                let removal = Removal::Received(Some(receiver));
                self.remove(number, record.sub_queue(), record, removal);
                None
            }
        };
        self.effect(Effect::Deliver { receiver, view, lock });
    }

    /// Locks a message from now on.
    pub(super) fn lock(
        &mut self,
        number: SequenceNumber,
        sub_queue: SubQueue,
        receiver: Option<ReceiverId>,
    ) -> Lock {
        let token = self.new_token();
        let locked_until = self.now.plus_ms(self.options.lock_duration_ms);
        self.emit(Event::Locked { number, sub_queue, token, until: locked_until, receiver });
        Lock { token, locked_until }
    }
}
