//! Messages whose stored body can't be read: they are taken out of delivery and recorded, so that they hold up no others.

use super::browse::Browse;
use super::traces::Names;
use super::{Actor, OwnedPartition};
use crate::command::AnswerKind;
use crate::runtime::Response;
use crate::runtime::damage::Unreadable;
use crate::{Assigned, Command, Delivery, Lock, MessageView, QueueId, Received, ReceiverId, Refusal};

impl Actor {
    /// Quarantines the message of a delivery whose body can't be read, and returns its credit to the receiver.
    pub(super) fn set_aside(&mut self, delivery: &Delivery, why: Unreadable) {
        let Received { view, lock, .. } = &delivery.message;
        let receiver = Some((delivery.receiver, u64::from(view.content_bytes)));
        self.quarantine(view, *lock, receiver, why);
    }

    fn quarantine(
        &mut self,
        view: &MessageView,
        lock: Option<Lock>,
        receiver: Option<(ReceiverId, u64)>,
        why: Unreadable,
    ) {
        let (queue, number) = (view.queue, view.sequence_number);
        let assigned = lock.map_or(Assigned::Shown, |lock| Assigned::Locked(lock.token));
        // A message that was deleted, expired or moved while its body was being read is not damaged.
        if self.owned.partition.has_message(queue, number) && self.is_there(queue) {
            self.shared.damages.note(why.damage(self.name_of(queue), Some(number)));
        }
        self.internal.push_back(Command::Quarantine { queue, number, assigned, receiver });
    }

    fn is_there(&self, queue: QueueId) -> bool {
        let partition = &self.owned.partition;
        !partition.has_ended() && (queue.0 == self.owned.id.0 || partition.subscription(queue).is_some())
    }

    /// The name of the entity; for a subscription, with the name of its topic.
    pub(super) fn name_of(&self, queue: QueueId) -> String {
        match self.owned.partition.subscription(queue) {
            Some(subscription) => format!("{}/Subscriptions/{}", self.owned.name, subscription.name),
            None => self.owned.name.clone(),
        }
    }

    /// Answers without the messages that can't be read, unless no others are left. If locks are granted, the whole answer
    /// is refused instead and the other locks are released; messages already deleted by receive-and-delete are sent.
    pub(super) fn answer_browse(&mut self, browse: Browse) {
        let Browse { waiter, mut messages, unreadable, refusal: not_taken, .. } = browse;
        let takes = not_taken.is_none() && waiter.kind == AnswerKind::Received { takes: true };
        let is_all_or_none = !takes && messages.iter().any(|message| message.lock.is_some());
        let first = unreadable.first().and_then(|(at, _)| messages.get(*at));
        let damaged = first.map(|message| Refusal::MessageDamaged(message.view.shown_number().0));
        let refusal = not_taken.or(damaged);
        for (position, why) in unreadable.into_iter().rev() {
            if position >= messages.len() {
                continue;
            }
            let Received { view, lock, .. } = messages.remove(position);
            self.quarantine(&view, lock, None, why);
        }
        match refusal {
            Some(refusal) if is_all_or_none || messages.is_empty() => {
                messages.iter().for_each(|message| self.give_back(message));
                self.outgoing.put(&waiter.mailbox, waiter.refusal(refusal));
            }
            _ => {
                if takes || messages.iter().any(|message| message.lock.is_some()) {
                    let OwnedPartition { name, partition, .. } = &self.owned;
                    let names = Names { entity: name, partition };
                    messages.iter().for_each(|message| self.traces.delivered(message, None, names));
                }
                if takes {
                    messages.iter_mut().for_each(|message| message.lock = None);
                }
                let answer = waiter.output(Response::Received(Ok(messages)));
                self.outgoing.put(&waiter.mailbox, answer);
            }
        }
    }
}
