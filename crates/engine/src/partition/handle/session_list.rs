//! `ListSessions`: ids in order of all sessions with active messages or a state, or of those whose state was updated at a
//! time or later (azure-sdk-for-js 38323: the service's own query has `LastUpdatedTime >= @lastUpdatedTime`).

use std::sync::Arc;

use super::super::sessions::{Session, Sessions};
use super::super::step::Step;
use super::super::unfinished::{Unfinished, VISITS_PER_CALL_MAX};
use crate::{QueueId, Refusal, Reply, RequestId, Timestamp};

/// The state of a listing. A page visits the sessions before it as well.
#[derive(Debug)]
pub struct SessionListing {
    queue: QueueId,
    updated_since: Option<Timestamp>,
    /// The key of the last visited session.
    after: Option<Arc<str>>,
    /// Number of sessions still to be skipped.
    skip: usize,
    top: usize,
    /// The page so far.
    found: Vec<Arc<str>>,
}

impl Step<'_> {
    pub(in crate::partition) fn list_sessions(
        &mut self,
        request: Option<RequestId>,
        queue: QueueId,
        updated_since: Option<Timestamp>,
        skip: u32,
        top: u32,
    ) {
        let (skip, top) = (skip as usize, top as usize);
        let listing = SessionListing { queue, updated_since, after: None, skip, top, found: Vec::new() };
        self.continue_listing(request, listing);
    }

    pub(in crate::partition) fn continue_listing(
        &mut self,
        request: Option<RequestId>,
        mut listing: SessionListing,
    ) {
        let visited = self.listable_sessions(listing.queue).map(|sessions| listing.visit(sessions));
        match visited {
            Err(refusal) => self.reply(request, Reply::Sessions(Err(refusal))),
            Ok(visits) => {
                self.count_visits(visits);
                if visits < VISITS_PER_CALL_MAX {
                    self.reply(request, Reply::Sessions(Ok(listing.found)));
                } else {
                    self.interrupt(request, Unfinished::Sessions(listing));
                }
            }
        }
    }

    fn listable_sessions(&self, queue: QueueId) -> Result<&Sessions, Refusal> {
        let sessions = self.state().queue(queue).ok_or(Refusal::EntityDeleted)?.sessions.as_deref();
        let sessions =
            sessions.ok_or(Refusal::NotAllowed("Only an entity that requires sessions can list them."))?;
        self.check_receive_allowed(queue)?;
        Ok(sessions)
    }
}

impl SessionListing {
    /// Visits the next sessions; returns their number, which is less than [`VISITS_PER_CALL_MAX`] when the page is complete.
    fn visit(&mut self, sessions: &Sessions) -> usize {
        let (mut visits, mut last) = (0, None);
        for session in sessions.after(self.after.as_deref()).take(VISITS_PER_CALL_MAX) {
            if self.found.len() >= self.top {
                return visits;
            }
            visits += 1;
            last = Some(session.id.key());
            if !self.includes(session) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
            } else {
                self.found.push(Arc::clone(session.id.text()));
            }
        }
        self.after = last.cloned();
        visits
    }

    fn includes(&self, session: &Session) -> bool {
        match self.updated_since {
            None => session.is_listed(),
            Some(instant) => session.state().is_some_and(|state| state.updated_at >= instant),
        }
    }
}
