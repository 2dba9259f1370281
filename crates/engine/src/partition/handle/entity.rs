//! `EndEntity`, and what ends by itself when idle: the entity goes with all that rests in it.

use super::super::step::Step;
use crate::event::Event;
use crate::{Effect, End, QueueId, Refusal, Reply, RequestId};

impl Step<'_> {
    pub(in crate::partition) fn end_when_asked(&mut self, request: Option<RequestId>) {
        self.end_entity(End::Asked);
        self.reply(request, Reply::Done(Ok(())));
    }

    /// Tells whoever is attached and takes no commands from now on; the namespace deletes what is stored.
    pub(in crate::partition) fn end_entity(&mut self, end: End) {
        let state = self.state();
        let queues: Vec<QueueId> = state.subscriptions.keys().copied().chain([state.entity.id]).collect();
        for queue in queues {
            self.refuse_session_waiters(queue, &Refusal::EntityDeleted);
        }
        let state = self.state();
        let attached: Vec<_> = state.homes.keys().chain(state.watchers.keys()).copied().collect();
        self.emit(Event::Ended);
        for receiver in attached {
            self.emit(Event::ReceiverClosed { receiver });
            self.effect(Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted });
        }
        self.effect(Effect::Ended(end));
    }
}
