//! `Select` and `Examined`: receivers with a selector.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::super::selection::SelectionChange;
use super::super::step::Step;
use crate::event::Event;
use crate::{Effect, QueueId, ReceiverId, Refusal, SequenceNumber, SubQueue};

impl Step<'_> {
    /// Ignored if the receiver is not open: its opening was refused.
    pub(in crate::partition) fn select(&mut self, receiver: ReceiverId) {
        let state = self.state();
        let Some(queue) = state.source_of(receiver) else { return };
        let Some(open) = queue.receivers.get(receiver) else { return };
        let has_session = queue.sessions.is_some() && open.options.source.sub_queue == SubQueue::Main;
        if !has_session && !state.is_forwarder(receiver) {
            return self.emit(Event::Selection { receiver, change: SelectionChange::Begun });
        }
        let refusal = Refusal::NotAllowed("A receiver that holds a session can't have a selector.");
        self.close_receiver(receiver);
        self.effect(Effect::ReceiverClosed { receiver, refusal });
    }

    /// Ignored if the receiver was closed meanwhile.
    pub(in crate::partition) fn examined(&mut self, receiver: ReceiverId, matching: Vec<SequenceNumber>) {
        if self.state().receiver_queues.contains_key(&receiver) {
            self.emit(Event::Selection { receiver, change: SelectionChange::Examined(matching) });
        }
    }

    /// Delivers matching messages, one for each receiver in turn, and sends messages to be examined to the receivers that
    /// could get more. Only receivers that a change concerns are visited.
    pub(in crate::partition) fn dispatch_selected(&mut self, id: QueueId) {
        let mut concerned: BTreeSet<ReceiverId> = self.take_selections(id).into_iter().collect();
        let mut is_served = !concerned.is_empty();
        while is_served {
            is_served = false;
            let mut last = Bound::Unbounded;
            while let Some(receiver) = concerned.range((last, Bound::Unbounded)).next().copied() {
                last = Bound::Excluded(receiver);
                if self.deliver_selected(id, receiver) {
                    is_served = true;
                    concerned.extend(self.take_selections(id));
                }
            }
        }
        for receiver in concerned {
            self.show_next(id, receiver);
        }
    }

    fn deliver_selected(&mut self, id: QueueId, receiver: ReceiverId) -> bool {
        let Some(queue) = self.state().queue(id) else { return false };
        let Some(open) = queue.receivers.get(receiver).filter(|open| open.can_be_served()) else {
            return false;
        };
        let Some(selection) = queue.receivers.selections.get(receiver) else { return false };
        let messages = queue.messages.get(open.options.source.sub_queue);
        let Some(number) = selection.deliverable(messages) else { return false };
        // An expired message is removed in this call or the next.
        let Some(record) = messages.get(number).filter(|record| record.expiry() > self.now).cloned() else {
            return false;
        };
        let mode = open.options.mode;
        self.deliver(receiver, mode, id, number, &record);
        true
    }

    fn show_next(&mut self, id: QueueId, receiver: ReceiverId) {
        let Some(queue) = self.state().queue(id) else { return };
        let Some(selection) = queue.receivers.selections.get(receiver) else { return };
        let Some(open) = queue.receivers.get(receiver).filter(|open| open.can_be_served()) else { return };
        let messages = queue.messages.get(open.options.source.sub_queue);
        let numbers = selection.to_show(messages, self.now);
        let views: Vec<_> =
            numbers.iter().filter_map(|number| Some(messages.get(*number)?.view(id, *number))).collect();
        if !views.is_empty() {
            self.emit(Event::Selection { receiver, change: SelectionChange::Shown(numbers) });
            self.effect(Effect::Examine { receiver, views });
        }
    }
}
