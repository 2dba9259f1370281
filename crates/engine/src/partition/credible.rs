//! Corrects stored timestamps after the clock was wrong.

use super::state::State;
use crate::Timestamp;

/// Timestamps between two limits come from a wrong clock. They count as an earlier time, so nothing waits for a time that was
/// never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credible {
    /// Timestamps later than this,
    pub after: Timestamp,
    /// and up to this, were never valid
    pub until: Timestamp,
    /// and are replaced by this.
    pub counts_as: Timestamp,
}

impl Credible {
    /// All timestamps are valid.
    pub const ALL: Self =
        Self { after: Timestamp::NEVER, until: Timestamp::NEVER, counts_as: Timestamp::NEVER };

    /// Timestamps later than `now` count as `now`.
    #[must_use]
    pub const fn until(now: Timestamp) -> Self {
        Self { after: now, until: Timestamp::NEVER, counts_as: now }
    }

    fn correct(self, at: Timestamp) -> Timestamp {
        if at > self.after && at <= self.until { self.counts_as } else { at }
    }

    /// Whether no message was stored with a time that was never valid. Also after the clock has passed that time, messages
    /// behind it have earlier times.
    fn is_in_order(self) -> bool {
        self.after == Timestamp::NEVER || self.until == Timestamp::default()
    }
}

impl State {
    /// Corrects a stored time of an event.
    pub(super) fn restored_instant(&mut self, stored: Timestamp) -> Timestamp {
        let at = self.credible.correct(stored);
        self.latest_restored = self.latest_restored.max(at);
        at
    }

    /// Corrects the enqueued time of a message that follows one enqueued at `before`, so that the order is kept.
    pub(super) fn restored_enqueued_at(&mut self, stored: Timestamp, before: &mut Timestamp) -> Timestamp {
        let at = self.restored_instant(stored);
        if self.credible.is_in_order() {
            return at;
        }
        *before = at.max(*before);
        *before
    }
}
