//! How often, and for how long.

use std::time::Duration;

use crate::Placement;

/// Times of the leases of a cluster; every node must have the same. Start from [`Settings::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Pause between two renewals. An answer is awaited for half of [`Self::tenure`]. Default 2 s.
    pub renew_every: Duration,
    /// A node that holds nothing asks so often, to take over soon what is released. Default 500 ms.
    pub ask_every: Duration,
    /// The leases of a node that was silent for so long are up for taking. Default 6 s.
    pub silent_after: Duration,
    /// How long before that a holder stops handing anything out. Default 1 s.
    pub margin: Duration,
    /// Pause between two shards that a node gives to the one that they belong to. Default 1 s.
    pub move_every: Duration,
    /// How many shards there are, from 0 on. Default 1.
    pub shards: u32,
    /// Which node a shard belongs to. Default [`Placement::Kept`].
    pub placement: Placement,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            renew_every: Duration::from_secs(2),
            ask_every: Duration::from_millis(500),
            silent_after: Duration::from_secs(6),
            margin: Duration::from_secs(1),
            move_every: Duration::from_secs(1),
            shards: 1,
            placement: Placement::Kept,
        }
    }
}

impl Settings {
    /// For how long a renewal lets the holder hand things out, counted from before it was sent.
    #[must_use]
    pub const fn tenure(&self) -> Duration {
        self.silent_after.saturating_sub(self.margin)
    }
}
