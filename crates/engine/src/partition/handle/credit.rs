//! `Credit`: sets a receiver's credit. Receivers are served after every command.

use super::super::step::Step;
use crate::event::Event;
use crate::{CreditLimit, ReceiverId};

impl Step<'_> {
    /// Ignored if the receiver is not open: its peer may not know yet that it was closed.
    pub(in crate::partition) fn set_credit(&mut self, receiver: ReceiverId, limit: CreditLimit, drain: bool) {
        if self.state().receiver_queues.contains_key(&receiver) {
            self.emit(Event::CreditSet { receiver, limit, drain });
        }
    }
}
