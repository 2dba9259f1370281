//! `RenewSessionLock`: the new lock duration starts now and is not added to the rest.

use super::super::step::Step;
use crate::event::Event;
use crate::{ReceiverId, Refusal, Reply, RequestId, Timestamp};

impl Step<'_> {
    pub(in crate::partition) fn renew_session_lock(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
    ) {
        let renewed = self.try_renew_session_lock(receiver);
        self.reply(request, Reply::SessionRenewed(renewed));
    }

    fn try_renew_session_lock(&mut self, receiver: ReceiverId) -> Result<Timestamp, Refusal> {
        let queue = self.state().source_of(receiver).ok_or(Refusal::SessionLockLost)?.id;
        let session = self.session_held_by(queue, receiver)?;
        let until = self.now.plus_ms(self.policy(queue).lock_duration_ms);
        self.emit(Event::SessionRenewed { queue, session, until });
        Ok(until)
    }
}
