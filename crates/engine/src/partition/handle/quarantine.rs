//! `Quarantine`: takes a message whose stored body can't be read out of delivery. Nothing is stored about it: the next start
//! reads the message again and delivers it if the fault of the disk was transient.

use super::super::step::Step;
use crate::event::Event;
use crate::{Assigned, QueueId, ReceiverId, SequenceNumber, SubQueue, Timestamp};

impl Step<'_> {
    pub(in crate::partition) fn quarantine(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        assigned: Assigned,
        receiver: Option<(ReceiverId, u64)>,
    ) {
        let Some(known) = self.state().queue(queue) else { return };
        let sub_queue =
            SubQueue::ALL.into_iter().find(|sub_queue| known.messages.get(*sub_queue).get(number).is_some());
        let is_locked = sub_queue.is_some_and(|place| known.messages.get(place).is_locked(number));
        let lock = match assigned {
            // An expired lock whose timer has not fired yet counts as well; the message is damaged either way.
            Assigned::Locked(token) => self
                .state()
                .locks
                .get(token, Timestamp::default())
                .filter(|held| held.queue == queue && held.number == number)
                .map(|_| token),
            Assigned::Shown => None,
        };
        if sub_queue.is_some() && is_locked == lock.is_some() {
            self.emit(Event::Quarantined { queue, number, sub_queue, lock });
        }
        if let Some((receiver, content_bytes)) = receiver {
            self.emit(Event::NotDelivered { receiver, content_bytes });
        }
    }
}
