//! `RenewLocks`: the new lock duration starts now and is not added to the rest; all or none.

use super::super::step::Step;
use super::check_list_length;
use crate::event::Event;
use crate::{LockToken, QueueId, Refusal, Reply, RequestId, Timestamp};

impl Step<'_> {
    pub(in crate::partition) fn renew_locks(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        tokens: &[LockToken],
    ) {
        self.count_visits(tokens.len());
        let renewed = self.try_renew_locks(queue, tokens);
        self.reply(request, Reply::Renewed(renewed));
    }

    fn try_renew_locks(&mut self, queue: QueueId, tokens: &[LockToken]) -> Result<Vec<Timestamp>, Refusal> {
        check_list_length(tokens.len())?;
        self.check_receive_allowed(queue)?;
        for token in tokens {
            if self.held(queue, *token)?.in_session {
                return Err(Refusal::InvalidArgument(
                    "The lock of a session's message can't be renewed; renew the session's.".to_owned(),
                ));
            }
        }
        let until = self.now.plus_ms(self.policy(queue).lock_duration_ms);
        for token in tokens {
            self.emit(Event::Renewed { token: *token, until });
        }
        Ok(vec![until; tokens.len()])
    }
}
