//! The status of an entity in the model: forbidden operations, and links that are detached when it changes (semantics §4.4).

use super::queue::check;
use super::{ENTITY, Model, Rule};
use crate::{Effect, QueueId, ReceiverId, Refusal, SequenceNumber, Settlement};

impl Model {
    fn allows_send(&self) -> bool {
        self.queues[&ENTITY].options.status.allows_send() || self.turn.breaks(Rule::AStatusStopsSending)
    }

    /// Receiving from a subscription requires that its topic allows it as well.
    fn allows_receive(&self, id: QueueId) -> bool {
        let allows_receive =
            |id: u64| self.queues.get(&id).is_none_or(|queue| queue.options.status.allows_receive());
        (allows_receive(ENTITY) && allows_receive(id.0)) || self.turn.breaks(Rule::AStatusStopsReceiving)
    }

    pub(super) fn check_send_allowed(&self) -> Result<(), Refusal> {
        if self.allows_send() { Ok(()) } else { Err(Refusal::EntityDisabled) }
    }

    pub(super) fn check_receive_allowed(&self, id: QueueId) -> Result<(), Refusal> {
        if self.allows_receive(id) { Ok(()) } else { Err(Refusal::EntityDisabled) }
    }

    /// A message that never reached its receiver can be released whatever the status is.
    pub(super) fn check_settles(&self, id: QueueId, settlement: &Settlement) -> Result<(), Refusal> {
        if *settlement == Settlement::Release { Ok(()) } else { self.check_receive_allowed(id) }
    }

    /// Scheduled messages can be cancelled unless the entity is fully disabled.
    pub(super) fn check_cancels(&self, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        check(numbers)?;
        if self.allows_send() { Ok(()) } else { self.check_receive_allowed(QueueId(ENTITY)) }
    }

    /// Detaches receivers and senders that have no use left under the status of the entity, or of one subscription.
    pub(super) fn obey_status(&mut self, changed: QueueId) {
        if self.turn.breaks(Rule::AStatusDetaches) {
            return;
        }
        let concerned = self.queues.keys().copied().filter(|id| changed.0 == ENTITY || *id == changed.0);
        let closed: Vec<u64> = concerned.filter(|id| !self.allows_receive(QueueId(*id))).collect();
        for id in closed {
            let queue = self.queues.get_mut(&id).unwrap();
            queue.refuse_waiters(&mut self.turn, &Refusal::EntityDisabled);
            for receiver in queue.receivers.keys().copied().map(ReceiverId).collect::<Vec<_>>() {
                queue.close(&mut self.turn, receiver);
                let refusal = Refusal::EntityDisabled;
                self.turn.effects.push(Effect::ReceiverClosed { receiver, refusal });
            }
        }
        if changed.0 == ENTITY && !self.allows_send() {
            for watcher in std::mem::take(&mut self.watchers).into_keys() {
                let (receiver, refusal) = (ReceiverId(watcher), Refusal::EntityDisabled);
                self.turn.effects.push(Effect::ReceiverClosed { receiver, refusal });
            }
        }
    }
}
