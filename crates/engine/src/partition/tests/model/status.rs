//! The status of an entity in the model: forbidden operations, and links that are detached when it changes (semantics §4.4).

use super::queue::check;
use super::{ENTITY, Model, Rule};
use crate::{Effect, QueueId, ReceiverId, Refusal, SequenceNumber, Settlement};

impl Model {
    fn takes(&self) -> bool {
        self.queues[&ENTITY].options.status.takes() || self.turn.breaks(Rule::AStatusStopsSending)
    }

    /// Receiving from a subscription requires that its topic allows it as well.
    fn gives(&self, id: QueueId) -> bool {
        let gives = |id: u64| self.queues.get(&id).is_none_or(|queue| queue.options.status.gives());
        (gives(ENTITY) && gives(id.0)) || self.turn.breaks(Rule::AStatusStopsReceiving)
    }

    pub(super) fn check_takes(&self) -> Result<(), Refusal> {
        if self.takes() { Ok(()) } else { Err(Refusal::EntityDisabled) }
    }

    pub(super) fn check_gives(&self, id: QueueId) -> Result<(), Refusal> {
        if self.gives(id) { Ok(()) } else { Err(Refusal::EntityDisabled) }
    }

    /// A message that never reached its receiver can be released whatever the status is.
    pub(super) fn check_settles(&self, id: QueueId, settlement: &Settlement) -> Result<(), Refusal> {
        if *settlement == Settlement::Release { Ok(()) } else { self.check_gives(id) }
    }

    /// Scheduled messages can be cancelled unless the entity is fully disabled.
    pub(super) fn check_cancels(&self, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        check(numbers)?;
        if self.takes() { Ok(()) } else { self.check_gives(QueueId(ENTITY)) }
    }

    /// Detaches receivers and senders that have no use left under the status of the entity, or of one subscription.
    pub(super) fn obey_status(&mut self, changed: QueueId) {
        if self.turn.breaks(Rule::AStatusDetaches) {
            return;
        }
        let concerned = self.queues.keys().copied().filter(|id| changed.0 == ENTITY || *id == changed.0);
        let closed: Vec<u64> = concerned.filter(|id| !self.gives(QueueId(*id))).collect();
        for id in closed {
            let queue = self.queues.get_mut(&id).unwrap();
            queue.refuse_waiters(&mut self.turn, &Refusal::EntityDisabled);
            for receiver in queue.receivers.keys().copied().map(ReceiverId).collect::<Vec<_>>() {
                queue.close(&mut self.turn, receiver);
                let refusal = Refusal::EntityDisabled;
                self.turn.effects.push(Effect::ReceiverClosed { receiver, refusal });
            }
        }
        if changed.0 == ENTITY && !self.takes() {
            for watcher in std::mem::take(&mut self.watchers).into_keys() {
                let (receiver, refusal) = (ReceiverId(watcher), Refusal::EntityDisabled);
                self.turn.effects.push(Effect::ReceiverClosed { receiver, refusal });
            }
        }
    }
}
