//! The options of a queue or subscription of the model.

use peeklock_engine::EntityStatus;

use super::Path;

/// Options of a queue that differ between runs and entities, or change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueShape {
    /// How long locks last, in milliseconds.
    pub(crate) lock_ms: u64,
    /// Deliveries of a message until it is dead-lettered.
    pub(crate) deliveries_max: u32,
    pub(crate) status: EntityStatus,
    pub(crate) sessions: bool,
    pub(crate) keeps_expired: bool,
    pub(crate) life_ms: Option<u64>,
    /// For how long duplicates are detected, in milliseconds.
    pub(crate) window_ms: Option<u64>,
    /// The maximum size, if it is small.
    pub(crate) size_max_bytes: Option<u64>,
    pub(crate) forward_to: Option<Path>,
    /// Where its dead letters are forwarded.
    pub(crate) forward_dead_to: Option<Path>,
}

impl QueueShape {
    /// The default and longest time to live: none where all messages are forwarded.
    pub(super) fn life_in_effect_ms(&self) -> Option<u64> {
        self.life_ms.filter(|_| self.forward_to.is_none())
    }
}
