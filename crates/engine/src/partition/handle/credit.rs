//! `Credit`: sets a receiver's credit. Receivers are served after every command.

use super::super::step::Step;
use crate::event::Event;
use crate::{CreditLimit, Effect, ReceiverId};

impl Step<'_> {
    /// Ignored if the receiver is not open: its peer may not know yet that it was closed. A drain that this replaces is
    /// answered, because its owner counts the answers.
    pub(in crate::partition) fn set_credit(&mut self, receiver: ReceiverId, limit: CreditLimit, drain: bool) {
        let state = self.state();
        let Some(queue) = state.receiver_queues.get(&receiver) else { return };
        if state.queue(*queue).is_some_and(|queue| queue.receivers.is_draining(receiver)) {
            self.effect(Effect::Drained { receiver });
        }
        self.emit(Event::CreditSet { receiver, limit, drain });
    }
}
