//! The operations that an entity's status forbids (semantics §4.4), and the links that are detached when it changes.
//!
//! Sends check the status of the queue or topic; all other operations check that of the queue, or those of the subscription
//! and its topic. A subscription gets copies regardless of its own status: "If you send a message to an active topic, Service
//! Bus copies the message into a disabled subscription" (.NET reference of `EntityStatus`). Timers continue, and so does the
//! administration of subscriptions and rules.

use super::state::State;
use super::step::Step;
use crate::event::Event;
use crate::{Effect, QueueId, ReceiverId, Refusal};

impl State {
    /// Whether messages may be received from a queue or subscription; true for a deleted one, which is refused elsewhere.
    fn allows_receive(&self, id: QueueId) -> bool {
        self.entity.policy.status.allows_receive()
            && self.queue(id).is_none_or(|queue| queue.policy.status.allows_receive())
    }
}

impl Step<'_> {
    /// Whether messages may be sent to the entity.
    pub(super) fn allows_send(&self) -> bool {
        self.state().entity.policy.status.allows_send()
    }

    /// Refuses sends if the status forbids them.
    pub(super) fn check_send_allowed(&self) -> Result<(), Refusal> {
        if self.allows_send() { Ok(()) } else { Err(Refusal::EntityDisabled) }
    }

    /// Refuses receiving, browsing and settling if the status forbids them.
    pub(super) fn check_receive_allowed(&self, id: QueueId) -> Result<(), Refusal> {
        if self.state().allows_receive(id) { Ok(()) } else { Err(Refusal::EntityDisabled) }
    }

    /// Detaches links that have no use left under the status of the entity, or of one subscription. Their message locks end as
    /// usual; sessions are released.
    pub(super) fn obey_status(&mut self, changed: QueueId) {
        let state = self.state();
        let of_entity = changed == state.entity.id;
        if state.allows_receive(changed) && (!of_entity || self.allows_send()) {
            return;
        }
        if !state.allows_receive(changed) {
            let others: Vec<QueueId> = state.subscriptions.keys().copied().filter(|_| of_entity).collect();
            for queue in others.into_iter().chain([changed]) {
                self.refuse_session_waiters(queue, &Refusal::EntityDisabled);
            }
        }
        let state = self.state();
        let is_closed = |queue: QueueId| (of_entity || queue == changed) && !state.allows_receive(queue);
        let receivers = state
            .receiver_queues
            .iter()
            .filter(|(_, queue)| is_closed(**queue))
            .map(|(receiver, _)| *receiver);
        // The runtime ends forwarders: messages under way may have been moved already.
        let mut detached: Vec<ReceiverId> =
            receivers.filter(|receiver| !state.is_forwarder(*receiver)).collect();
        if of_entity && !self.allows_send() {
            let senders = state.watchers.iter().filter(|(_, watched)| watched.sends);
            detached.extend(senders.map(|(watcher, _)| *watcher));
        }
        for receiver in detached {
            self.leave_session(receiver);
            self.emit(Event::ReceiverClosed { receiver });
            self.effect(Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDisabled });
        }
    }
}
