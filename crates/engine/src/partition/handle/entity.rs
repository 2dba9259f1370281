//! `EndEntity`, and the end of an idle entity: the entity is deleted with everything in it.

use super::super::step::Step;
use crate::event::Event;
use crate::{Effect, End, QueueId, Refusal, Reply, RequestId};

impl Step<'_> {
    /// Ends the entity because an administrator deleted it.
    pub(in crate::partition) fn end_on_request(&mut self, request: Option<RequestId>) {
        self.end_entity(End::Asked);
        self.reply(request, Reply::Done(Ok(())));
    }

    /// Closes attached links and accepts no commands from now on; the namespace deletes the stored state.
    pub(in crate::partition) fn end_entity(&mut self, end: End) {
        let state = self.state();
        let queues: Vec<QueueId> = state.subscriptions.keys().copied().chain([state.entity.id]).collect();
        for queue in queues {
            self.refuse_session_waiters(queue, &Refusal::EntityDeleted);
        }
        let state = self.state();
        let attached: Vec<_> = state.receiver_queues.keys().chain(state.watchers.keys()).copied().collect();
        self.emit(Event::Ended);
        for receiver in attached {
            self.emit(Event::ReceiverClosed { receiver });
            self.effect(Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted });
        }
        self.effect(Effect::Ended(end));
    }
}
