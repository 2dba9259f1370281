//! Requests that only read but visit too many entries for one call: the rest is left to later calls, between which other
//! commands and other tasks have their turn.
//!
//! The answer is not a snapshot; nor is a listing of several pages.

use rand::Rng;

use super::handle::{SessionBrowsing, SessionListing};
use super::step::Step;
use super::{Outputs, Partition};
use crate::{Refusal, Reply, RequestId, Timestamp};

/// Maximum number of entries that one call visits for a request.
pub(super) const VISITS_PER_CALL_MAX: usize = 4096;

/// A request that is not answered yet; see the module.
#[derive(Debug)]
pub enum Unfinished {
    /// `ListSessions`.
    Sessions(SessionListing),
    /// `Peek` of a session in a queue without an index of sessions.
    Peek(SessionBrowsing),
}

impl Partition {
    /// Continues a request that an earlier call put into [`Outputs::unfinished`]; it may be put there again.
    pub fn resume(
        &mut self,
        now: Timestamp,
        random: &mut dyn Rng,
        (request, unfinished): (RequestId, Unfinished),
        outputs: &mut Outputs,
    ) {
        Step::new(now, &self.rule_limits, &mut self.state, random, outputs).resume(request, unfinished);
    }
}

impl Step<'_> {
    /// Leaves the rest of a request to a later call.
    pub(super) fn interrupt(&mut self, request: Option<RequestId>, unfinished: Unfinished) {
        if let Some(request) = request {
            self.parts().2.unfinished.push((request, unfinished));
        }
    }

    /// Counts visited entries.
    pub(super) const fn count_visits(&mut self, count: usize) {
        let visits = &mut self.parts().2.visits;
        *visits = visits.saturating_add(count);
    }

    /// The visits counted so far.
    pub(super) const fn visits(&mut self) -> usize {
        self.parts().2.visits
    }

    /// Continues a request.
    pub(super) fn resume(&mut self, request: RequestId, unfinished: Unfinished) {
        let (request, has_ended) = (Some(request), self.state().ended);
        match unfinished {
            Unfinished::Sessions(_) if has_ended => {
                self.reply(request, Reply::Sessions(Err(Refusal::EntityDeleted)));
            }
            Unfinished::Peek(_) if has_ended => {
                self.reply(request, Reply::Received(Err(Refusal::EntityDeleted)));
            }
            Unfinished::Sessions(listing) => self.continue_listing(request, listing),
            Unfinished::Peek(browsing) => self.continue_browsing(request, browsing),
        }
    }
}
