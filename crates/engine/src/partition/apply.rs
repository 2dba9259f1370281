//! The only writer of [`State`]: total, without clock, randomness or errors. An event about something that is not
//! there changes nothing.

use super::Record;
use super::locks::Held;
use super::state::State;
use crate::event::{Event, Removal};
use crate::{LockToken, ReceiverId, SequenceNumber, SubQueue};

impl State {
    /// Lets `event` have happened.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Accepted { number, record, .. } => self.arrive(*number, record),
            Event::Activated { scheduled, number, record } => {
                self.remove(SubQueue::Main, *scheduled);
                self.arrive(*number, record);
            }
            Event::Changed { number, from, record, lock, .. } => {
                self.end_lock(*lock);
                self.change(*number, *from, record);
            }
            Event::Removed { number, sub_queue, removal, .. } => self.leave(*number, *sub_queue, *removal),
            Event::Locked { number, sub_queue, token, until, receiver } => {
                self.serve(*receiver, *sub_queue, *number);
                self.messages.get_mut(*sub_queue).set_locked(*number, true);
                self.locks.insert(*token, Held { sub_queue: *sub_queue, number: *number, until: *until });
            }
            Event::Renewed { token, until } => self.locks.prolong(*token, *until),
            Event::Released { token } => self.end_lock(Some(*token)),
            Event::ReceiverOpened { receiver, options } => self.receivers.open(*receiver, *options),
            Event::CreditSet { receiver, limit, drain } => {
                self.receivers.set_limit(*receiver, *limit, *drain);
            }
            Event::CreditDrained { receiver } => self.receivers.drained(*receiver),
            Event::ReceiverClosed { receiver } => self.receivers.close(*receiver),
        }
    }

    /// A message under a new number.
    fn arrive(&mut self, number: SequenceNumber, record: &Record) {
        self.next_number = self.next_number.max(SequenceNumber(number.0.saturating_add(1)));
        self.insert(number, record.clone());
    }

    /// New facts about a message, in its sub-queue or another.
    fn change(&mut self, number: SequenceNumber, from: SubQueue, record: &Record) {
        if from != record.sub_queue() {
            self.remove(from, number);
            self.insert(number, record.clone());
        } else {
            self.messages.get_mut(from).put(number, record.clone());
        }
    }

    /// A message goes.
    fn leave(&mut self, number: SequenceNumber, sub_queue: SubQueue, removal: Removal) {
        match removal {
            Removal::Completed(token) | Removal::Expired(Some(token)) => {
                self.locks.remove(token);
            }
            Removal::Received(receiver) => self.serve(receiver, sub_queue, number),
            Removal::Expired(None) | Removal::Cancelled => {}
        }
        self.remove(sub_queue, number);
    }

    /// A receiver got a message.
    fn serve(&mut self, receiver: Option<ReceiverId>, sub_queue: SubQueue, number: SequenceNumber) {
        let Some(receiver) = receiver else { return };
        let record = self.messages.get(sub_queue).get(number);
        let content_bytes = record.map_or(0, |record| u64::from(record.content_bytes()));
        self.receivers.served(receiver, content_bytes);
    }

    /// A message is locked no longer.
    fn end_lock(&mut self, token: Option<LockToken>) {
        if let Some(held) = token.and_then(|token| self.locks.remove(token)) {
            self.messages.get_mut(held.sub_queue).set_locked(held.number, false);
        }
    }
}
