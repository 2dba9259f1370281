//! `ListSessions`: ids in order of all sessions with active messages or a state, or of those whose state was updated after a
//! time.

use std::sync::Arc;

use super::super::sessions::Sessions;
use super::super::step::Step;
use crate::{QueueId, Refusal, Reply, RequestId, Timestamp};

impl Step<'_> {
    pub(in crate::partition) fn list_sessions(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        updated_after: Option<Timestamp>,
        skip: u32,
        top: u32,
    ) {
        let listed = match self.state().queue(queue).map(|queue| queue.sessions.as_deref()) {
            None => Err(Refusal::EntityDeleted),
            Some(None) => Err(Refusal::NotAllowed("Only an entity that requires sessions can list them.")),
            Some(Some(_)) if let Err(refusal) = self.check_receive_allowed(queue) => Err(refusal),
            Some(Some(sessions)) => Ok(list(sessions, updated_after, skip as usize, top as usize)),
        };
        self.reply(request, Reply::Sessions(listed));
    }
}

/// A page iterates over the preceding entries, but copies only its own.
fn list(sessions: &Sessions, updated_after: Option<Timestamp>, skip: usize, top: usize) -> Vec<Arc<str>> {
    match updated_after {
        None => page(sessions.listed(), skip, top),
        Some(instant) => page(sessions.updated_after(instant), skip, top),
    }
}

fn page<'a>(ids: impl Iterator<Item = &'a Arc<str>>, skip: usize, top: usize) -> Vec<Arc<str>> {
    ids.skip(skip).take(top).cloned().collect()
}
