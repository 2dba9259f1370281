//! Which instants in the store can be true, after the clock was wrong.

use super::state::State;
use crate::Timestamp;

/// Instants between two limits come from a clock that was wrong. They count as an earlier one, so nothing waits for a time
/// that was never there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credible {
    /// What is later than this was never true,
    pub after: Timestamp,
    /// up to this,
    pub until: Timestamp,
    /// and counts as this.
    pub counts_as: Timestamp,
}

impl Credible {
    /// All instants are true.
    pub const ALL: Self =
        Self { after: Timestamp::NEVER, until: Timestamp::NEVER, counts_as: Timestamp::NEVER };

    /// Nothing happened later than now.
    #[must_use]
    pub const fn until(now: Timestamp) -> Self {
        Self { after: now, until: Timestamp::NEVER, counts_as: now }
    }

    fn correct(self, at: Timestamp) -> Timestamp {
        if at > self.after && at <= self.until { self.counts_as } else { at }
    }

    fn corrects_nothing(self) -> bool {
        self.after >= self.until
    }
}

impl State {
    /// A stored instant of something that happened, as it counts.
    pub(super) fn restored_instant(&mut self, stored: Timestamp) -> Timestamp {
        let at = self.credible.correct(stored);
        self.latest_restored = self.latest_restored.max(at);
        at
    }

    /// The same of a message that follows one enqueued at `before`: their order stays.
    pub(super) fn restored_enqueued_at(&mut self, stored: Timestamp, before: &mut Timestamp) -> Timestamp {
        let at = self.restored_instant(stored);
        if self.credible.corrects_nothing() {
            return at;
        }
        *before = at.max(*before);
        *before
    }
}
