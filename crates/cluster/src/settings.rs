//! Intervals and timeouts of leases.

use std::time::Duration;

use crate::Placement;

/// Times of the leases of a cluster; must be the same on every node. Start from [`Settings::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Pause between two renewals. Default 2 s.
    pub renew_every: Duration,
    /// Interval between requests of a node without leases, to take over released ones soon. Default 500 ms.
    pub ask_every: Duration,
    /// Other nodes may take the leases of a node that was silent for this long. Default 6 s.
    pub silent_after: Duration,
    /// How long before that a holder stops delivering messages. Default 1 s.
    pub margin: Duration,
    /// A holder whose leases were not renewed for this long gives them up; until then, its clients only notice a pause.
    /// Default 30 s.
    pub give_up_after: Duration,
    /// Pause between two shards that a node hands over to the node they belong to. Default 1 s.
    pub move_every: Duration,
    /// Number of shards; their ids start at 0. Default 1.
    pub shards: u32,
    /// The rule that assigns shards to nodes. Default [`Placement::Kept`].
    pub placement: Placement,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            renew_every: Duration::from_secs(2),
            ask_every: Duration::from_millis(500),
            silent_after: Duration::from_secs(6),
            margin: Duration::from_secs(1),
            give_up_after: Duration::from_secs(30),
            move_every: Duration::from_secs(1),
            shards: 1,
            placement: Placement::Kept,
        }
    }
}

impl Settings {
    /// The time for which a renewal allows the holder to deliver messages, measured from before it was sent.
    #[must_use]
    pub const fn tenure(&self) -> Duration {
        self.silent_after.saturating_sub(self.margin)
    }
    /// How long an answer is awaited before the node finds out whether the request is lost.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.tenure() / 2
    }
}
